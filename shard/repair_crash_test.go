package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// damaged are directories whose repair has something to do everywhere.
func (h *history) damaged(t *testing.T) map[string]damageCase {
	t.Helper()
	first := h.image.matching("/l1/db/m/")[0]
	log := h.places[h.last-20]
	manifest := h.image.matching(".manifest")[0]
	flip := func(i image, path string, at int64) image {
		content := []byte(i[path])
		content[at] ^= 0x10
		return i.with(path, string(content))
	}
	everything := flip(flip(flip(h.image, first, 20), log.path, log.start+60), manifest, 100)
	return map[string]damageCase{
		"log":      {path: log.path, at: log.start + 60, end: log.start + 61, image: flip(h.image, log.path, log.start+60)},
		"segment":  {path: first, image: flip(h.image, first, 20)},
		"manifest": {path: manifest, image: flip(h.image, manifest, 100)},
		"missing":  {path: first, image: h.image.without(first)},
		"all":      {path: log.path, at: log.start + 60, end: log.start + 61, image: everything},
	}
}

// lostOf is lost for all that is damaged in a case.
func (h *history) lostOf(t *testing.T, name string) func(measurement string, sequence uint64) bool {
	t.Helper()
	if name != "all" {
		return h.lost(h.damaged(t)[name])
	}
	log, file := h.lost(h.damaged(t)["log"]), h.lost(h.damaged(t)["segment"])
	return func(measurement string, sequence uint64) bool {
		return log(measurement, sequence) || file(measurement, sequence)
	}
}

// A power cut, or a call that fails, anywhere in a repair leaves a directory with which the next repair goes on, and
// nothing more is lost than without it.
func TestARepairCanBeCutShortAnywhere(t *testing.T) {
	skipUnderRace(t)
	h := newHistory(t)
	for name, c := range h.damaged(t) {
		whole := c.image.disk(t)
		if _, err := h.repair(whole, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := h.read(whole)
		if err := errors.Join(err, h.judge(want, h.lostOf(t, name))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cuts, failures := 0, 0
		for call := 0; ; call++ {
			after, reached := h.cutRepair(t, c, call, func(fsys vfs.FS) vfs.FS { return fsys })
			if !reached {
				break
			}
			for what, disk := range after {
				if strings.HasPrefix(what, "failed") {
					failures++
				} else {
					cuts++
				}
				if err := h.goOn(t, disk, c, want); err != nil {
					t.Errorf("%s: call %d, %s: %v", name, call, what, err)
				}
			}
		}
		if cuts == 0 || failures == 0 {
			t.Errorf("%s: no call was cut short", name)
		}
		t.Logf("%s: %d power cuts and %d failed calls of a repair lose nothing more", name, cuts, failures)
	}
}

// cutRepair repairs up to a call, and returns what power cuts before it leave, and what is left if it fails.
func (h *history) cutRepair(t *testing.T, c damageCase, number int, wrap func(vfs.FS) vfs.FS) (after map[string]*memory.FS, reached bool) {
	t.Helper()
	disk := c.image.disk(t)
	calls, after := 0, map[string]*memory.FS{}
	_, err := h.repair(wrap(vfs.Inject(disk, func(op vfs.Op) error {
		if !changesDisk(op) {
			return nil
		}
		calls++
		if calls-1 != number {
			return nil
		}
		for seed := range uint64(3) {
			after[fmt.Sprint("seed ", seed)] = disk.CrashClone(rand.New(rand.NewPCG(seed, uint64(number))))
		}
		return errInjected
	})), true)
	if len(after) == 0 {
		return nil, false
	}
	if !errors.Is(err, errInjected) {
		t.Errorf("call %d failed, and the repair said %v", number, err)
	}
	after["failed call"] = disk
	return after, true
}

// syncless does not sync files whose names contain part.
type syncless struct {
	vfs.FS
	part string
}

func (f syncless) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err == nil && strings.Contains(name, f.part) {
		file = synclessFile{file}
	}
	return file, err
}

type synclessFile struct{ vfs.File }

func (synclessFile) Sync() error { return nil }

// Without its syncs a repair loses what it was to keep, and the test above says so.
func TestPowerCutsFindWhatARepairDoesNotSync(t *testing.T) {
	skipUnderRace(t)
	h := newHistory(t)
	c := h.damaged(t)["all"]
	whole := c.image.disk(t)
	if _, err := h.repair(whole, true); err != nil {
		t.Fatal(err)
	}
	want, err := h.read(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"/wal/repair."} {
		found, tried := 0, 0
		for call := 0; ; call++ {
			after, reached := h.cutRepair(t, c, call, func(fsys vfs.FS) vfs.FS { return syncless{fsys, part} })
			if !reached {
				break
			}
			for _, disk := range after {
				tried++
				if h.goOn(t, disk, c, want) != nil {
					found++
				}
			}
		}
		if found == 0 {
			t.Errorf("without the sync of %s: none of %d power cuts shows it", part, tried)
		}
		t.Logf("without the sync of %s: %d of %d power cuts show it", part, found, tried)
	}
}

// changesDisk reports a call that changes what is on disk.
func changesDisk(op vfs.Op) bool {
	switch op.Name {
	case "write", "writeat", "sync", "truncate", "rename", "syncdir", "remove", "mkdirall":
		return true
	}
	return false
}

// goOn repairs what was cut short, and compares with a repair that was not.
func (h *history) goOn(t *testing.T, disk *memory.FS, c damageCase, want map[string]string) error {
	t.Helper()
	if pending, err := exists(disk, damageDir+"/"+repairMark); err != nil || pending {
		if _, err := Open(h.options(disk)); !errors.Is(err, ErrRepairPending) {
			return fmt.Errorf("a start between got %w", err)
		}
	}
	if _, err := h.repair(disk, true); err != nil {
		return err
	}
	if content, damaged := c.image[c.path]; damaged && !slices.Contains(slices.Collect(maps.Values(imageOf(t, disk, damageDir))), content) {
		return errors.New("the damaged file is gone")
	}
	got, err := h.read(disk)
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("%d rows, want %d", len(got), len(want))
	}
	return err
}
