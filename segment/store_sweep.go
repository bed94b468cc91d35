package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"lineweir/internal/vfs"
)

// inventory is what lies in the directories of a store. Paths are relative to the data directory.
type inventory struct {
	segments  map[string]foundFile
	temporary []string
	foreign   []string // neither segment nor temporary file; left alone
	highestID uint64   // of any segment file, quarantined ones too, so that no id is given twice
}

type foundFile struct {
	id        uint64
	sizeBytes int64
}

// inspect reads a data directory without changing it and checks that each live segment has its file. The replayed
// manifest is nil if there is none, which is right only where there is no segment.
func inspect(fsys vfs.FS, dir string) (*replayed, *inventory, error) {
	r, err := replayManifest(fsys, filepath.Join(dir, manifestDirName))
	if err != nil {
		return nil, nil, err
	}
	found, err := takeInventory(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	if r == nil {
		return nil, found, found.checkEmpty(dir)
	}
	if err := found.checkLive(r.catalog, dir); err != nil {
		return nil, nil, err
	}
	return r, found, checkFooters(fsys, dir, r.catalog.metas())
}

// checkEmpty reports segments where there is no manifest.
func (v *inventory) checkEmpty(dir string) error {
	if len(v.segments) == 0 {
		return nil
	}
	return &CorruptionError{
		Path:   filepath.Join(dir, manifestDirName),
		Reason: fmt.Sprintf("there is no manifest, but there are %d segments", len(v.segments)),
	}
}

// present returns those ids that have a file, ascending.
func (v *inventory) present(ids map[uint64]struct{}) []uint64 {
	var present []uint64
	for _, file := range v.segments {
		if _, ok := ids[file.id]; ok {
			present = append(present, file.id)
		}
	}
	slices.Sort(present)
	return present
}

func takeInventory(fsys vfs.FS, dir string) (*inventory, error) {
	found := &inventory{segments: make(map[string]foundFile)}
	for _, sub := range []string{l0DirName, l1DirName} {
		if err := found.walk(fsys, dir, sub); err != nil {
			return nil, err
		}
	}
	quarantined := &inventory{segments: make(map[string]foundFile)}
	if err := quarantined.walk(fsys, dir, quarantineDirName); err != nil {
		return nil, err
	}
	found.highestID = max(found.highestID, quarantined.highestID)
	return found, nil
}

func (v *inventory) walk(fsys vfs.FS, dir, sub string) error {
	entries, err := fsys.ReadDir(filepath.Join(dir, sub))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(sub, entry.Name())
		if entry.IsDir() {
			err = v.walk(fsys, dir, path)
		} else {
			err = v.note(path, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *inventory) note(path string, entry fs.DirEntry) error {
	id, isSegment := parseNumberedName(entry.Name(), segmentSuffix)
	switch {
	case isTemporary(entry.Name()):
		v.temporary = append(v.temporary, path)
	case !isSegment:
		v.foreign = append(v.foreign, path)
	default:
		info, err := entry.Info()
		if err != nil {
			return fmt.Errorf("look at segment %s: %w", path, err)
		}
		v.segments[path] = foundFile{id: id, sizeBytes: info.Size()}
		v.highestID = max(v.highestID, id)
	}
	return nil
}

// checkLive reports every live segment whose file is missing or has another size than when it was written.
func (v *inventory) checkLive(c *catalog, dir string) error {
	var problems []error
	for _, m := range c.metas() {
		file, ok := v.segments[segmentPath(*m)]
		reason := ""
		switch {
		case !ok:
			reason = "the file of a live segment is missing"
		case file.sizeBytes != m.SizeBytes:
			reason = fmt.Sprintf("the file has %d bytes and was written with %d", file.sizeBytes, m.SizeBytes)
		default:
			continue
		}
		problems = append(problems, &CorruptionError{Path: filepath.Join(dir, segmentPath(*m)), Reason: reason})
	}
	return errors.Join(problems...)
}

// checkFooters reads the end of every live segment and reports those that are damaged or another file, which a size
// doesn't tell.
func checkFooters(fsys vfs.FS, dir string, metas []*Meta) error {
	problems := make([]error, len(metas))
	var group errgroup.Group
	group.SetLimit(segmentSyncs)
	for i, m := range metas {
		if m.Checksum != 0 {
			group.Go(func() error {
				problems[i] = checkFooter(fsys, dir, m)
				return nil
			})
		}
	}
	_ = group.Wait() // every problem is kept in its place
	return errors.Join(problems...)
}

func checkFooter(fsys vfs.FS, dir string, m *Meta) (err error) {
	path := filepath.Join(dir, segmentPath(*m))
	file := &lazyFile{fs: fsys, path: path}
	defer func() { err = errors.Join(err, file.Close()) }()
	f := &File{path: path, reader: file, sizeBytes: m.SizeBytes}
	if err := f.readFooter(); err != nil {
		return err
	}
	return m.checkIdentity(path, f.sums.footer)
}

// sweep makes the directories hold what the manifest names and nothing else of ours.
func (s *Store) sweep(r *replayed, found *inventory) error {
	live, unlinked := make(map[string]struct{}), map[uint64]struct{}{}
	if r != nil {
		unlinked = r.unlinked
		for _, m := range r.catalog.segments {
			live[segmentPath(*m)] = struct{}{}
		}
	}
	if err := s.removeTemporary(r, found); err != nil {
		return err
	}
	quarantined := 0
	var leftover []*retiredFile
	for path, file := range found.segments {
		if _, ok := live[path]; ok {
			continue
		}
		if _, ok := unlinked[file.id]; ok {
			leftover = append(leftover, &retiredFile{id: file.id, path: filepath.Join(s.options.Dir, path)})
			continue
		}
		if err := s.quarantine(path); err != nil {
			return err
		}
		quarantined++
	}
	for _, path := range found.foreign {
		s.options.Logger.Warn("a file among the segments is none of ours and is left alone", zap.String("path", path))
	}
	s.reclaimer.adopt(leftover)
	s.unlinkRetired()
	return s.syncQuarantine(quarantined)
}

// removeEmptyDirs deletes the directories under dir that hold nothing, as removed segments of level 1 leave them, and
// tells whether dir itself is empty then. What can't be deleted stays; nothing depends on it. Only a start does this,
// while nobody makes a file in one.
func (s *Store) removeEmptyDirs(dir string) (empty bool) {
	entries, err := s.options.FS.ReadDir(dir)
	left := len(entries)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.IsDir() && s.removeEmptyDirs(path) && s.options.FS.Remove(path) == nil {
			left--
		}
	}
	return err == nil && left == 0
}

// removeTemporary deletes what was being written when the process ended, and manifests that a newer one replaced.
func (s *Store) removeTemporary(r *replayed, found *inventory) error {
	paths := found.temporary
	numbers, temporary, err := listManifests(s.options.FS, filepath.Join(s.options.Dir, manifestDirName))
	if err != nil {
		return err
	}
	for _, name := range temporary {
		paths = append(paths, filepath.Join(manifestDirName, name))
	}
	for _, number := range numbers {
		if r != nil && number < r.number {
			paths = append(paths, manifestPath(manifestDirName, number))
		}
	}
	for _, path := range paths {
		if err := removeIfPresent(s.options.FS, filepath.Join(s.options.Dir, path)); err != nil {
			return fmt.Errorf("remove a leftover file: %w", err)
		}
	}
	return nil
}

// quarantine sets a segment aside that no edit names: the flush or compaction that wrote it did not get to its edit.
func (s *Store) quarantine(path string) error {
	dir := filepath.Join(s.options.Dir, quarantineDirName)
	if err := s.makeDir(dir); err != nil {
		return err
	}
	from, to := filepath.Join(s.options.Dir, path), filepath.Join(dir, filepath.Base(path))
	if err := s.options.FS.Rename(from, to); err != nil {
		return fmt.Errorf("move a segment that no edit names to quarantine: %w", err)
	}
	s.options.Logger.Warn("a segment that no edit names was moved to quarantine",
		zap.String("from", from), zap.String("to", to))
	return nil
}

func (s *Store) syncQuarantine(moved int) error {
	if moved == 0 {
		return nil
	}
	if err := s.options.FS.SyncDir(filepath.Join(s.options.Dir, quarantineDirName)); err != nil {
		return fmt.Errorf("sync quarantine: %w", err)
	}
	return nil
}
