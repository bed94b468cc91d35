package pagecache

import (
	"sync"
	"sync/atomic"
)

// retiredMax bounds how many retired ids are remembered one by one.
const retiredMax = 1 << 16

// segment is what the pages and readers of one file share. Once retired it stays so.
type segment struct {
	id      uint64
	retired atomic.Bool
}

// segmentSet knows which segments may have pages in the cache.
//
// Ids are never used again, so a reader that is opened for a retired segment must not fill the cache. Remembering
// every retired id would grow without end; after retiredMax of them they are folded into one mark. An id below the mark
// that isn't known to be live counts as retired. That can only meet a segment that was there before the start and
// has never been opened since: it is read from its file, correctly and without the cache.
type segmentSet struct {
	mu           sync.Mutex
	live         map[uint64]*segment
	retired      map[uint64]struct{}
	retiredBelow uint64
}

func newSegmentSet() *segmentSet {
	return &segmentSet{live: map[uint64]*segment{}, retired: map[uint64]struct{}{}}
}

// open returns the segment for a reader.
func (s *segmentSet) open(id uint64) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(id, id >= s.retiredBelow)
}

// create returns the segment for a file that a flush has just written.
func (s *segmentSet) create(id uint64) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(id, true)
}

func (s *segmentSet) findLocked(id uint64, mayBeNew bool) *segment {
	if found := s.live[id]; found != nil {
		return found
	}
	found := &segment{id: id}
	if _, gone := s.retired[id]; gone || !mayBeNew {
		found.retired.Store(true)
		return found
	}
	s.live[id] = found
	return found
}

// retire marks the segment and reports whether pages of it may be in the cache.
func (s *segmentSet) retire(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.live[id]
	if found != nil {
		found.retired.Store(true)
		delete(s.live, id)
	}
	s.rememberLocked(id)
	return found != nil
}

func (s *segmentSet) rememberLocked(id uint64) {
	s.retired[id] = struct{}{}
	if len(s.retired) <= retiredMax {
		return
	}
	for each := range s.retired {
		s.retiredBelow = max(s.retiredBelow, each+1)
	}
	clear(s.retired)
}
