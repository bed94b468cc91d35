package shard

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lineweir/internal/vfs"
)

// readOnlyFS is a file system that is mounted to be read only.
type readOnlyFS struct{ vfs.FS }

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS} }

func (f readOnlyFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag != os.O_RDONLY {
		return nil, refuse("open", name)
	}
	return f.FS.OpenFile(name, flag, perm)
}

func (f readOnlyFS) MkdirAll(name string, _ fs.FileMode) error { return refuse("mkdir", name) }
func (f readOnlyFS) Rename(oldName, _ string) error            { return refuse("rename", oldName) }
func (f readOnlyFS) Remove(name string) error                  { return refuse("remove", name) }
func (f readOnlyFS) Lock(name string) (io.Closer, error)       { return nil, refuse("lock", name) }

// readOffline returns all rows of a directory without a server.
func (h *history) readOffline(fsys vfs.FS) (rows map[string]string, err error) {
	e, err := OpenOffline(context.Background(), OfflineOptions{FS: fsys, DataDir: damageDir, Decode: decodeFrame})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.CloseOffline()) }()
	rows = map[string]string{}
	for _, m := range []string{"m", "n"} {
		if err := readInto(rows, e, m); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func TestADirectoryThatCanOnlyBeReadIsRead(t *testing.T) {
	h := newHistory(t)
	disk := h.image.disk(t)
	readOnly := readOnlyFS{disk}
	rows, err := h.readOffline(readOnly)
	if err := errors.Join(err, h.judge(rows, nothingLost)); err != nil {
		t.Errorf("scan: %v", err)
	}
	if err := Check(readOnly, damageDir, io.Discard); err != nil {
		t.Errorf("check: %v", err)
	}
	if _, err := h.repair(readOnly, false); err != nil {
		t.Errorf("repair without --accept-loss: %v", err)
	}
	if !maps.Equal(imageOf(t, disk, damageDir), h.image) {
		t.Error("files were changed")
	}
	if _, err := h.read(readOnly); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a server started: %v: this test shows nothing", err)
	}
}

// A scan of a directory shows what a server shows, whatever a crash left, and names what a server names.
func TestAScanOfADirectoryAgreesWithAServer(t *testing.T) {
	skipUnderRace(t)
	h := newHistory(t)
	agreed := map[string]int{}
	for _, c := range h.cases() {
		if c.at%7 != 0 {
			continue
		}
		offline, offlineErr := h.readOffline(c.image.disk(t))
		served, servedErr := h.read(c.image.disk(t))
		switch {
		case (offlineErr == nil) != (servedErr == nil):
			t.Errorf("%s: a scan of the directory got %v, the server %v", c.name, offlineErr, servedErr)
		case offlineErr != nil && !namesDamage(offlineErr):
			t.Errorf("%s: %v", c.name, offlineErr)
		case offlineErr != nil:
			agreed["damage"]++
		case !maps.Equal(offline, served):
			t.Errorf("%s: a scan of the directory found %d rows, the server %d", c.name, len(offline), len(served))
		default:
			agreed["rows"]++
		}
	}
	t.Logf("a scan of a directory agrees with a server: %v", agreed)
	if agreed["damage"] == 0 || agreed["rows"] == 0 {
		t.Error("not both were met")
	}
}

func TestADirectoryInUseIsNotReadOffline(t *testing.T) {
	h := newHistory(t)
	disk := h.image.disk(t)
	start(t, h.options(disk))
	_, scanErr := h.readOffline(disk)
	_, repairErr := h.repair(disk, true)
	for what, err := range map[string]error{
		"scan": scanErr, "repair": repairErr, "check": Check(disk, damageDir, io.Discard),
	} {
		if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), damageDir) {
			t.Errorf("%s: got %v, want %v", what, err, vfs.ErrLocked)
		}
	}
}

// A mistyped path is not found to be whole, and no file is left there.
func TestWhatIsNoDataDirectoryIsRefused(t *testing.T) {
	h := newHistory(t)
	for name, files := range map[string]image{
		"foreign": {damageDir + "/note.txt": "x"}, "empty but for a lock": {damageDir + "/LOCK": ""},
	} {
		disk := files.disk(t)
		_, scanErr := h.readOffline(disk)
		_, repairErr := h.repair(disk, true)
		for what, err := range map[string]error{
			"scan": scanErr, "repair": repairErr, "check": Check(disk, damageDir, io.Discard),
		} {
			if !errors.Is(err, ErrNoData) || !strings.Contains(err.Error(), damageDir) {
				t.Errorf("%s of a directory that is %s: got %v, want %v", what, name, err, ErrNoData)
			}
		}
		if after := imageOf(t, disk, damageDir); !maps.Equal(after, files) {
			t.Errorf("%s: got the files %v", name, slices.Collect(maps.Keys(after)))
		}
	}
}

// Drops of the log hide what they hide in a server.
func TestAScanOfADirectoryLeavesDroppedRowsOut(t *testing.T) {
	h := newHistory(t)
	disk := h.image.disk(t)
	e := start(t, h.options(disk))
	if err := e.DropMeasurement(context.Background(), "db", "n"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, at("after", 1, 1))
	left := imageOf(t, crashOf(disk, everythingWritten, 0), damageDir) // of one moment
	want := map[string]string{}
	for _, m := range []string{"m", "n"} {
		if err := readInto(want, e, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range left.matching(".manifest") { // as if its edit had not come to pass
		left[path] = h.image[path]
	}
	for path, content := range h.image {
		if _, there := left[path]; !there {
			left[path] = content
		}
	}
	for _, path := range left.matching(".manifest") {
		if left[path] == "" {
			delete(left, path)
		}
	}
	got, err := h.readOffline(left.disk(t))
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %d rows, %v, want %d", len(got), err, len(want))
	}
}
