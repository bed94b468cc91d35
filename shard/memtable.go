package shard

import (
	"sync"
	"time"

	"lineweir/pagecache"
)

// Memtable is one generation of a shard: the points that a seal turns into L0 segments. Many goroutines may insert at
// once; readers take snapshots of its tables.
type Memtable struct {
	generation uint64
	maxBytes   int64          // its cap, fixed when it is made
	flushed    chan struct{}  // closed when its segments are registered
	applies    sync.WaitGroup // commits that are reserved and not applied yet

	// The controller's lock guards these. No insert holds it, so that a commit waits for none.
	applied     usage     // what the applied rows take
	pending     usage     // reserved by commits that are not applied yet
	oldest      time.Time // when its first rows came; zero while it has none
	minSequence uint64    // lowest sequence that was assigned to it, applied or not; 0: none
	maxSequence uint64
	reservation *pagecache.Reservation // of its flush, from the seal on; nil without a tier

	held *heldTable // of a held memtable; never changed

	mu      sync.RWMutex
	tables  map[tableKey]*table
	dropped usage // of tables that gave way, still part of applied
}

func newMemtable(generation uint64, maxBytes int64) *Memtable {
	return &Memtable{
		generation: generation, maxBytes: maxBytes, flushed: make(chan struct{}), tables: map[tableKey]*table{},
	}
}

// Generation returns the memtable's number in its shard.
func (m *Memtable) Generation() uint64 { return m.generation }

// usedLocked returns what the memtable's rows take, those of commits that are not applied yet included.
func (m *Memtable) usedLocked() usage {
	used := m.applied
	used.add(m.pending)
	return used
}

// insert adds the batch's points of one shard, unconditionally: what the log holds is never refused, but what was
// dropped since is left out, and measurements that takes, unless it is nil, says no to. It returns what they take.
func (m *Memtable) insert(b *Batch, shard int, sequence uint64, takes func(measurement string) bool) (taken usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, measurement := range b.order {
		rows := &measurement.tables[shard]
		if len(rows.times) == 0 || takes != nil && !takes(measurement.name) {
			continue
		}
		t := m.tableLocked(tableKey{b.database, measurement.name}, sequence, &b.schema.tombstones)
		if t == nil {
			continue
		}
		var used usage
		if len(t.runs) == 0 {
			used.addTable(b.database, measurement.name)
		}
		t.insert(measurement, rows, sequence, &used)
		t.used.add(used)
		taken.add(used)
	}
	return taken
}

// tableLocked returns the table for rows of a sequence, nil for rows that were dropped. A table of dropped rows gives
// way: its memory is counted until the memtable is purged or flushed.
func (m *Memtable) tableLocked(key tableKey, sequence uint64, dropped *tombstones) *table {
	after := dropped.of(key)
	t, ok := m.tables[key]
	switch {
	case sequence < after || ok && sequence < t.after:
		return nil
	case !ok:
		t = newTable(after)
		m.tables[key] = t
	case t.after < after:
		m.dropped.add(t.used)
		t = newTable(after)
		m.tables[key] = t
	}
	return t
}

// purge lets go of the tables of dropped rows, and returns what they took.
func (m *Memtable) purge(dropped *tombstones) (freed usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	freed, m.dropped = m.dropped, usage{}
	for key, t := range m.tables {
		if t.after < dropped.of(key) {
			freed.add(t.used)
			delete(m.tables, key)
		}
	}
	return freed
}

// tableKeys returns the measurements that the memtable holds, dropped ones included, in no order.
func (m *Memtable) tableKeys() []tableKey {
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := make([]tableKey, 0, len(m.tables))
	for key := range m.tables {
		keys = append(keys, key)
	}
	return keys
}

// snapshot returns an immutable view of one table; nil when the memtable has none of that key with rows that a drop of
// the given sequence has left.
func (m *Memtable) snapshot(key tableKey, dropped uint64) *tableSnapshot {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, ok := m.tables[key]
	if !ok || t.after < dropped {
		return nil
	}
	return t.snapshot()
}

// internerMemory returns what the series keys and their index take.
func (m *Memtable) internerMemory() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	total := int64(0)
	for _, t := range m.tables {
		total += t.keyBytes + int64(t.series.keys.length)*seriesMemoryBytes
	}
	return total
}
