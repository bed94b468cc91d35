package segment

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// applied is what an edit did.
type applied struct {
	added  []Meta
	leftL0 []Meta
}

// Apply makes an edit durable and then, in one step for readers, installs the new live set and runs publish. It returns
// the added segments with their ranks.
//
// Errors come before anything has changed, but for ErrOutcomeUnknown: then the edit may be durable or not, so its files
// must stay, and the store is read-only. Publish runs under the lock that Acquire waits for: it must be short and
// must not call the store.
func (s *Store) Apply(e Edit, publish func()) ([]Meta, error) {
	done, err := s.apply(e, publish)
	if err != nil {
		return nil, err
	}
	for _, m := range done.leftL0 {
		s.options.Retired(m)
	}
	s.unlinkRetired()
	return done.added, nil
}

func (s *Store) apply(e Edit, publish func()) (applied, error) {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	e.Add = append([]Meta(nil), e.Add...)
	if len(e.Drops) > 0 {
		e.Remove = s.current.Load().droppedBy(e.Drops, e.Remove)
	}
	if err := s.makeDurableLocked(e); err != nil {
		return applied{}, err
	}
	removed, risen := s.lookupLocked(e.Remove), s.lookupLocked(e.Promote)
	s.catalog.apply(e)
	old := s.current.Load()
	next := old.next(s.catalog, append(removed, risen...), s.newSegmentsLocked(old, e, risen))
	s.install(next, publish)
	s.reclaimer.retire(old, next.number, s.retiredFiles(old, removed))
	if s.manifest.rotationDue() {
		s.rotateLocked(s.reclaimer.ids())
	}
	return applied{added: e.Add, leftL0: leftL0(removed, risen)}, nil
}

// makeDurableLocked checks an edit, gives ranks to its segments and writes it.
func (s *Store) makeDurableLocked(e Edit) error {
	if s.closed {
		return ErrClosed
	}
	if err := s.ReadOnly(); err != nil {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	if err := s.checkLocked(e); err != nil {
		return fmt.Errorf("check manifest edit: %w", err)
	}
	s.catalog.assignRanks(e.Add)
	payload, err := encodeRecord(newRecord(e))
	if err != nil {
		return fmt.Errorf("encode manifest edit: %w", err)
	}
	if err := s.checkRoom(len(payload)); err != nil {
		return err
	}
	for _, m := range e.Add {
		s.pending.Delete(m.ID)
	}
	if err := s.manifest.append(payload); err != nil {
		return s.poisonWith(fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
	}
	return nil
}

func (s *Store) checkLocked(e Edit) error {
	if err := e.checkNames(); err != nil {
		return err
	}
	if err := s.catalog.check(e); err != nil {
		return err
	}
	return s.current.Load().checkRanks(s.catalog, e)
}

// checkRoom refuses an edit while the disk is too full for it, so that a full disk is not a failed write.
func (s *Store) checkRoom(payloadBytes int) error {
	const spareBytes = 1 << 20
	free, err := s.options.FS.FreeBytes(s.manifest.dir)
	if err != nil {
		return fmt.Errorf("look for room for a manifest edit: %w", err)
	}
	if need := int64(payloadBytes) + spareBytes; free < need {
		return fmt.Errorf("%w: %d bytes are free and it takes %d", ErrDiskLow, free, need)
	}
	return nil
}

// poisonWith makes the store read-only for good.
func (s *Store) poisonWith(cause error) error {
	s.poison.Store(&cause)
	return cause
}

func (s *Store) lookupLocked(ids []uint64) []*Meta {
	metas := make([]*Meta, len(ids))
	for i, id := range ids {
		metas[i] = s.catalog.segments[id]
	}
	return metas
}

// newSegmentsLocked are the segments that an edit brings into the version after old. A risen one is a new segment over
// the file it has had all along.
func (s *Store) newSegmentsLocked(old *version, e Edit, risen []*Meta) []*Segment {
	now := time.Now()
	segments := make([]*Segment, 0, len(e.Add)+len(risen))
	for i := range e.Add {
		m := s.catalog.segments[e.Add[i].ID]
		segments = append(segments, &Segment{meta: m, store: s, birth: old.number + 1, registered: now})
	}
	for _, m := range risen {
		birth := old.birthOf(m)
		segments = append(segments, &Segment{meta: s.catalog.segments[m.ID], store: s, birth: birth, registered: now})
	}
	return segments
}

// birthOf is the first version that holds the file of a live segment.
func (v *version) birthOf(m *Meta) uint64 {
	for _, sg := range v.lists[keyOf(m)].segments {
		if sg.meta.ID == m.ID {
			return sg.birth
		}
	}
	panic(fmt.Sprintf("BUG: segment %d is in the catalog and not in version %d", m.ID, v.number))
}

// install is the moment at which an edit becomes visible.
func (s *Store) install(next *version, publish func()) {
	s.publishMu.Lock()
	defer s.publishMu.Unlock()
	s.current.Store(next)
	if publish != nil {
		publish()
	}
}

// rotateLocked begins a new manifest file. The edits before it are durable either way, so its failure is not theirs.
func (s *Store) rotateLocked(unlinked []uint64) {
	err := s.manifest.rotate(s.catalog, unlinked)
	switch {
	case errors.Is(err, errRotationUnknown):
		err = s.poisonWith(fmt.Errorf("%w: %w", ErrOutcomeUnknown, err))
		s.options.Logger.Error("the segment store is read-only: a checkpoint of the manifest failed", zap.Error(err))
	case err != nil:
		s.options.Logger.Warn("rotating the manifest failed; it goes on as it is", zap.Error(err))
	}
}

func leftL0(removed, risen []*Meta) []Meta {
	var left []Meta
	for _, m := range removed {
		if m.Level == 0 {
			left = append(left, *m)
		}
	}
	for _, m := range risen {
		left = append(left, *m)
	}
	return left
}
