package memory

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
)

func create(t *testing.T, fsys vfs.FS, name string, data []byte) vfs.File {
	t.Helper()
	file, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return file
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// outcomes crashes many times and returns how often each content of name was found; a missing file is "absent".
func outcomes(t *testing.T, f *FS, name string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for seed := range uint64(200) {
		data, err := vfs.ReadFile(f.CrashClone(rand.New(rand.NewPCG(seed, 1))), name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			found["absent"]++
		case err != nil:
			t.Fatal(err)
		default:
			found[string(data)]++
		}
	}
	return found
}

func TestACrashKeepsWhatWasSyncedAndMayKeepTheRest(t *testing.T) {
	f := New()
	must(t, f.MkdirAll("/d", 0o755))
	file := create(t, f, "/d/a", []byte("old"))
	if got := outcomes(t, f, "/d/a"); got["absent"] == 0 || got["old"] == 0 || got[""] == 0 {
		t.Errorf("nothing synced: got %v, want all three outcomes", got)
	}
	must(t, file.Sync())
	if got := outcomes(t, f, "/d/a"); len(got) != 2 || got["absent"] == 0 || got["old"] == 0 {
		t.Errorf("file synced: got %v, want old or absent", got)
	}
	must(t, f.SyncDir("/d"))
	if diff := cmp.Diff(map[string]int{"old": 200}, outcomes(t, f, "/d/a")); diff != "" {
		t.Errorf("directory synced too (-want +got):\n%s", diff)
	}
	must(t, f.Rename("/d/a", "/d/b"))
	a, b := outcomes(t, f, "/d/a"), outcomes(t, f, "/d/b")
	if a["old"] == 0 || b["old"] == 0 || a["old"]+b["old"] != 200 {
		t.Errorf("rename not synced: got %v and %v, want the file under exactly one name", a, b)
	}
	must(t, f.SyncDir("/d"), f.Remove("/d/b"))
	if got := outcomes(t, f, "/d/b"); got["old"] == 0 || got["absent"] == 0 {
		t.Errorf("removal not synced: got %v, want both outcomes", got)
	}
}

func TestACrashTearsAWriteAtSectors(t *testing.T) {
	f := New()
	file := create(t, f, "/a", make([]byte, 2*sectorBytes))
	must(t, file.Sync(), f.SyncDir("/"))
	if _, err := file.WriteAt(bytes.Repeat([]byte("x"), 2*sectorBytes), 0); err != nil {
		t.Fatal(err)
	}
	old, written := string(make([]byte, sectorBytes)), string(bytes.Repeat([]byte("x"), sectorBytes))
	got := outcomes(t, f, "/a")
	for _, want := range []string{old + old, old + written, written + old, written + written} {
		if got[want] == 0 {
			t.Errorf("an outcome is never found, starting with %q", want[:1])
		}
		delete(got, want)
	}
	if len(got) != 0 {
		t.Errorf("%d impossible outcomes", len(got))
	}
}

func TestAFailedSyncLeavesPagesThatLookWritten(t *testing.T) {
	f := New()
	file := create(t, f, "/a", []byte("old"))
	must(t, file.Sync(), f.SyncDir("/"))
	if _, err := file.WriteAt([]byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	f.FailNextSync()
	if err := file.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync: got %v, want %v", err, syscall.EIO)
	}
	must(t, file.Sync())
	data, err := vfs.ReadFile(f, "/a")
	if err != nil || string(data) != "new" {
		t.Errorf("read: got %q, %v, want the new content", data, err)
	}
	if diff := cmp.Diff(map[string]int{"old": 200}, outcomes(t, f, "/a")); diff != "" {
		t.Errorf("after a crash (-want +got):\n%s", diff)
	}
	if _, err := file.WriteAt([]byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	must(t, file.Sync())
	if diff := cmp.Diff(map[string]int{"new": 200}, outcomes(t, f, "/a")); diff != "" {
		t.Errorf("written again (-want +got):\n%s", diff)
	}
}

func TestAFullDiskRefusesToGrowAndStillOverwrites(t *testing.T) {
	f := New()
	f.SetCapacity(8)
	file := create(t, f, "/a", make([]byte, 8))
	if _, err := file.WriteAt([]byte("x"), 8); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("growing: got %v, want %v", err, syscall.ENOSPC)
	}
	if _, err := file.WriteAt([]byte("x"), 7); err != nil {
		t.Errorf("overwriting: %v", err)
	}
	free, err := f.FreeBytes("/")
	if err != nil || free != 0 {
		t.Errorf("FreeBytes: got %d, %v, want 0", free, err)
	}
}

func TestItRefusesWhatAnOperatingSystemRefuses(t *testing.T) {
	f := New()
	must(t, f.MkdirAll("/d/e", 0o755))
	file := create(t, f, "/d/e/a", []byte("abc"))
	readOnly, err := f.OpenFile("/d/e/a", os.O_RDONLY, 0)
	must(t, err)
	_, lockErr := f.Lock("/LOCK")
	must(t, lockErr, file.Close())
	open := func(name string, flag int) error { _, err := f.OpenFile(name, flag, 0); return err }
	for _, test := range []struct {
		name string
		got  error
		want error
	}{
		{"open missing", open("/absent", os.O_RDWR), fs.ErrNotExist},
		{"create in missing directory", open("/absent/a", os.O_RDWR|os.O_CREATE), fs.ErrNotExist},
		{"create exclusively", open("/d/e/a", os.O_RDWR|os.O_CREATE|os.O_EXCL), fs.ErrExist},
		{"open directory", open("/d", os.O_RDONLY), syscall.EISDIR},
		{"remove directory with entries", f.Remove("/d"), syscall.ENOTEMPTY},
		{"remove missing", f.Remove("/absent"), fs.ErrNotExist},
		{"rename missing", f.Rename("/absent", "/b"), fs.ErrNotExist},
		{"directory over file", f.MkdirAll("/d/e/a/b", 0o755), syscall.ENOTDIR},
		{"sync missing directory", f.SyncDir("/absent"), fs.ErrNotExist},
		{"close twice", file.Close(), fs.ErrClosed},
		{"write read-only", readOnly.Truncate(0), fs.ErrPermission},
		{"lock twice", func() error { _, err := f.Lock("/LOCK"); return err }(), vfs.ErrLocked},
	} {
		if !errors.Is(test.got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, test.got, test.want)
		}
	}
}

func TestReadDirListsOneLevel(t *testing.T) {
	f := New()
	must(t, f.MkdirAll("/d/e", 0o755), create(t, f, "/d/b", nil).Close(), create(t, f, "/d/e/a", nil).Close())
	entries, err := f.ReadDir("/d")
	must(t, err)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if diff := cmp.Diff([]string{"b", "e"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestALinkIsASecondName(t *testing.T) {
	f := New()
	must(t, f.MkdirAll("/d", 0o755))
	file := create(t, f, "/d/a", []byte("one"))
	must(t, file.Sync(), f.SyncDir("/d"), f.Link("/d/a", "/d/b"))
	if a, b := outcomes(t, f, "/d/a"), outcomes(t, f, "/d/b"); a["one"] != 200 || b["one"] == 0 || b["absent"] == 0 {
		t.Errorf("link not synced: got %v and %v, want the second name to be there or not", a, b)
	}
	must(t, f.SyncDir("/d"), f.Remove("/d/a"))
	data, err := vfs.ReadFile(f, "/d/b")
	if err != nil || string(data) != "one" {
		t.Errorf("after the first name went: %q, %v", data, err)
	}
	for want, err := range map[error]error{
		fs.ErrNotExist: f.Link("/d/a", "/d/c"), fs.ErrExist: f.Link("/d/b", "/d/b"),
		fs.ErrPermission: f.Link("/d", "/e"),
	} {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
