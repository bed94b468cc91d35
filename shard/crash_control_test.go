package shard

import (
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"lineweir/internal/vfs"
)

// control takes a protection away. The tests of crashes must notice.
type control struct {
	name string
	part string               // of the data directory
	lies func(op vfs.Op) bool // calls that report success and do nothing
	wrap func(vfs.FS) vfs.FS
}

func (c control) prepare(w *work) {
	w.wrap = c.wrap
	if c.lies == nil {
		return
	}
	next := w.decide
	w.decide = func(op vfs.Op) fate {
		if f := next(op); f != works || !c.lies(op) {
			return f
		}
		return swallow
	}
}

func crashControls() []control {
	return []control{
		swallows("fsync of groups of the log", "wal", "sync", `/0[0-9]*\.wal$`),
		swallows("fsync of new files of the log", "wal", "sync", `/spare\.`),
		swallows("fsync of the log's directory", "wal", "syncdir", ""),
		swallows("fsync of segments of level 0", "l0", "sync", ""),
		swallows("fsync of directory l0", "l0", "syncdir", ""),
		swallows("fsync of segments of level 1", "l1", "sync", ""),
		swallows("fsync of directories in l1", "l1", "syncdir", ""),
		swallows("fsync of manifest edits", "manifest", "sync", `\.manifest$`),
		swallows("fsync of manifest checkpoints", "manifest", "sync", `\.tmp$`),
		swallows("fsync of the manifest's directory", "manifest", "syncdir", ""),
		{name: "fsync before the rename of manifest checkpoints", part: "manifest", wrap: renamesFirst("manifest")},
		{name: "fsync before the rename of files of the log", part: "wal", wrap: renamesFirst("wal")},
	}
}

// swallows is the control in which an operation does nothing, on paths below a part of the data directory that match.
func swallows(name, part, operation, pattern string) control {
	c := control{name: name, part: part}
	matches := regexp.MustCompile(pattern)
	c.lies = func(op vfs.Op) bool {
		path := filepath.ToSlash(op.Path)
		return op.Name == operation && strings.HasPrefix(path+"/", c.place()) && matches.MatchString(path)
	}
	return c
}

// The tests above would be worth nothing if they passed without the syncs, too. The long form counts all power cuts
// that show what is missing; the short one ends at the first.
func TestCrashesFindEveryMissingProtection(t *testing.T) {
	skipUnderRace(t)
	bubble(t, func(t *testing.T) {
		for _, c := range crashControls() {
			emptyPools()
			s := scenario{run: (*work).run}
			cuts, _, err := s.cutPower(c.prepare, func(vfs.Op, int) []share { return []share{nothing, anyShare} })
			if err != nil {
				t.Errorf("without %s the work fails: %v", c.name, err)
			}
			found, tried, first := c.tryAll(cuts)
			if found == 0 {
				t.Errorf("without %s: none of %d power cuts shows it", c.name, tried)
				continue
			}
			t.Logf("without %s: %d of %d power cuts show it, the first is: %.200s", c.name, found, tried, first.Error())
		}
	})
}

// tryAll verifies power cuts, in an order that leads to those soon that are near what is missing.
func (c control) tryAll(cuts []*powerCut) (found, tried int, first error) {
	near := func(cut *powerCut) int {
		if strings.HasPrefix(filepath.ToSlash(cut.op.Path)+"/", c.place()) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(cuts, func(a, b *powerCut) int { return near(a) - near(b) })
	for _, cut := range cuts {
		tried++
		err := cut.verify()
		if err != nil && first == nil {
			first = err
		}
		if err != nil {
			found++
		}
		if err != nil && !*faultsLong {
			return found, tried, first
		}
	}
	return found, tried, first
}

func (c control) place() string { return faultDir + "/" + c.part + "/" }

// renamesFirst has files below a part of the data directory synced only after they were renamed and their directory
// was synced.
func renamesFirst(part string) func(vfs.FS) vfs.FS {
	return func(fsys vfs.FS) vfs.FS {
		return &renamingFS{FS: fsys, part: faultDir + "/" + part + "/", owed: map[string]bool{}}
	}
}

type renamingFS struct {
	vfs.FS
	part string

	mu   sync.Mutex
	owed map[string]bool // names of files that were not synced when they were to be
}

func (f *renamingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasPrefix(filepath.ToSlash(name), f.part) {
		file = renamingFile{file, name, f}
	}
	return file, err
}

func (f *renamingFS) Rename(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owed[oldName] {
		delete(f.owed, oldName)
		f.owed[newName] = true
	}
	return f.FS.Rename(oldName, newName)
}

func (f *renamingFS) SyncDir(name string) error {
	if err := f.FS.SyncDir(name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for path := range f.owed {
		if filepath.Dir(path) == name {
			delete(f.owed, path)
			errs = append(errs, f.syncNow(path))
		}
	}
	return errors.Join(errs...)
}

func (f *renamingFS) syncNow(path string) error {
	file, err := f.FS.OpenFile(path, 0, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

type renamingFile struct {
	vfs.File
	name string
	fs   *renamingFS
}

// Sync does it later if the file still has to be renamed: then its name does not say yet what it is.
func (f renamingFile) Sync() error {
	base := filepath.Base(f.name)
	if !strings.HasSuffix(base, ".tmp") && base != "spare.wal" {
		return f.File.Sync()
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.owed[f.name] = true
	return nil
}
