package shard

import (
	"fmt"
	"slices"

	"lineweir/segment"
)

// What follows is called where invariants is true: in programs that are built with the tag of that name, as those of
// ./check are.

// mustFollowLocked requires that a sequence comes behind those of the frozen memtables: a generation covers a
// contiguous range of the sequences of its shard.
func (c *FlushController) mustFollowLocked(sequence uint64) {
	for _, m := range c.frozen {
		if sequence != 0 && sequence <= m.maxSequence {
			panic(fmt.Sprintf("BUG: sequence %d comes to generation %d, and generation %d, which is frozen, ends at %d",
				sequence, c.active.generation, m.generation, m.maxSequence))
		}
	}
}

// mustAddUp requires of a memtable without applies under way that what it counts is what its tables take. I7.
// While something is dropped a purge may be between its two steps.
func (c *FlushController) mustAddUp(m *Memtable) {
	if !c.options.tombstones.isEmpty() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.mu.RLock()
	defer m.mu.RUnlock()
	sum := m.dropped
	for _, t := range m.tables {
		sum.add(t.used)
	}
	if sum != m.applied || m.pending != (usage{}) {
		panic(fmt.Sprintf("BUG: generation %d counts %+v, its tables take %+v, and %+v is still to come",
			m.generation, m.applied, sum, m.pending))
	}
}

// mustStayBelow requires, in the moment in which a flush is published, that no floor has reached what is unflushed,
// but for rows that a hold tells of. I4, H1.
func (e *Engine) mustStayBelow(floors []uint64) {
	for i, s := range e.allShards() {
		s.mu.Lock()
		oldest, unwritten := s.minUnflushedLocked(nil), lowestUpTo(s.memtablesLocked(), floors[i])
		s.mu.Unlock()
		holds := e.store.Holds(i)
		for key, sequence := range unwritten {
			if !slices.ContainsFunc(holds, func(h segment.Hold) bool {
				return h.Database == key.database && h.Measurement == key.measurement && h.Floor < sequence
			}) {
				panic(fmt.Sprintf("BUG: the floor of shard %d is %d, and sequence %d of %v is in no segment; holds: %v",
					i, floors[i], sequence, key, holds))
			}
		}
		replayed := e.recovery.sequence.Load() // a memtable with rows from before it may have lost the lowest to a drop
		if oldest > replayed && oldest <= floors[i] {
			panic(fmt.Sprintf("BUG: the floor of shard %d is %d, and %d is not flushed", i, floors[i], oldest))
		}
	}
}

// mustCover requires that the ledger holds all live segments of level 0. It may hold more: what has just left.
func (e *Engine) mustCover() {
	registered := int64(0)
	view := e.store.Acquire(func() { registered = e.tier.controller.Ledger().RegisteredBytes })
	defer view.Release()
	live := int64(0)
	view.Each(func(s *segment.Segment) {
		if meta := s.Meta(); meta.Level == 0 {
			live += meta.SizeBytes
		}
	})
	if registered < live {
		panic(fmt.Sprintf("BUG: the ledger holds %d bytes, and the live segments of level 0 have %d", registered, live))
	}
}
