package segment

import (
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"
)

// reclaimer knows which files of removed segments are still there, and who may still read them. A file is in the
// versions from its birth to before its death; it may go when no superseded version of these has a view.
type reclaimer struct {
	mu       sync.Mutex
	versions []*version // superseded, ascending; those without views are dropped at the next look
	files    map[uint64]*retiredFile
}

type retiredFile struct {
	id           uint64
	path         string
	birth, death uint64
	unlinking    bool
}

// retire takes note of files that left the live set when a version was superseded.
func (r *reclaimer) retire(old *version, death uint64, files []*retiredFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files == nil {
		r.files = make(map[uint64]*retiredFile)
	}
	r.versions = append(r.versions, old)
	for _, f := range files {
		f.death = death
		r.files[f.id] = f
	}
}

// unheld hands out the files that nobody can read any more, each to one caller, who unlinks it.
func (r *reclaimer) unheld() []*retiredFile {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A superseded version gets no new views, so one that has none now never will.
	r.versions = slices.DeleteFunc(r.versions, func(v *version) bool { return v.refs.Load() == 0 })
	var free []*retiredFile
	for _, f := range r.files {
		if !f.unlinking && !r.heldLocked(f) {
			f.unlinking = true
			free = append(free, f)
		}
	}
	return free
}

func (r *reclaimer) heldLocked(f *retiredFile) bool {
	return slices.ContainsFunc(r.versions, func(v *version) bool { return f.birth <= v.number && v.number < f.death })
}

// adopt takes note of files that were removed in an earlier life of the store, so that nobody reads them.
func (r *reclaimer) adopt(files []*retiredFile) { r.retire(&version{}, 0, files) }

// putBack lets files that were handed out be handed out again.
func (r *reclaimer) putBack(files []*retiredFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range files {
		f.unlinking = false
	}
}

// finish takes note of how unlinking went. A file that could not be unlinked stays, for the next start to delete.
func (r *reclaimer) finish(f *retiredFile, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone {
		delete(r.files, f.id)
	}
}

// ids are the removed segments whose files may still be there.
func (r *reclaimer) ids() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.files))
}

func (s *Store) retiredFiles(old *version, removed []*Meta) []*retiredFile {
	files := make([]*retiredFile, len(removed))
	for i, m := range removed {
		files[i] = &retiredFile{id: m.ID, path: s.path(m), birth: old.birthOf(m)}
	}
	return files
}

// Reclaim deletes files of removed segments whose deletion was put off. It is for callers of LockRemoval; else deletion
// comes with each edit and each release of a view.
func (s *Store) Reclaim() { s.unlinkRetired() }

// unlinkRetired deletes the files that nobody holds any more. The edits that removed them are durable.
func (s *Store) unlinkRetired() {
	files := s.reclaimer.unheld()
	if len(files) == 0 {
		return
	}
	lock, err := s.options.LockRemoval()
	if err != nil { // whose cause is the caller's to tell
		s.reclaimer.putBack(files)
		return
	}
	defer lock.Close()
	for _, f := range files {
		err := removeIfPresent(s.options.FS, f.path)
		if err != nil {
			s.options.Logger.Warn("the file of a removed segment can't be deleted; the next start tries again",
				zap.String("path", f.path), zap.Error(err))
		}
		s.reclaimer.finish(f, err == nil)
	}
}
