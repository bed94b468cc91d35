package shard

import (
	"maps"
	"sync/atomic"

	"lineweir/segment"
)

// tombstones say before which sequence the rows of a measurement are gone. Readers take no lock; schema.mu is held by
// whoever changes them. The zero value holds none.
type tombstones struct {
	set atomic.Pointer[map[tableKey]uint64]
}

// isEmpty tells whether nothing is dropped.
func (t *tombstones) isEmpty() bool {
	set := t.set.Load()
	return set == nil || len(*set) == 0
}

// of returns the sequence of the last drop that a measurement was part of, 0 if there was none, or if no row is left
// that it could concern.
func (t *tombstones) of(key tableKey) uint64 {
	if t.isEmpty() {
		return 0
	}
	set := *t.set.Load()
	return max(set[key], set[tableKey{database: key.database}])
}

// add notes drops; a whole database stands under the empty measurement.
func (t *tombstones) add(drops []segment.Drop) {
	next := t.clone()
	for _, d := range drops {
		key := tableKey{d.Database, d.Measurement}
		next[key] = max(next[key], d.Sequence)
	}
	t.set.Store(&next)
}

// forget lets go of the drops up to a floor that all shards have reached.
func (t *tombstones) forget(floor uint64) {
	if t.isEmpty() {
		return
	}
	next := t.clone()
	maps.DeleteFunc(next, func(_ tableKey, sequence uint64) bool { return sequence <= floor })
	t.set.Store(&next)
}

func (t *tombstones) clone() map[tableKey]uint64 {
	set := t.set.Load()
	if set == nil {
		return map[tableKey]uint64{}
	}
	return maps.Clone(*set)
}
