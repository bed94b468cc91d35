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
	flushed    chan struct{}  // closed when its segments are registered
	applies    sync.WaitGroup // commits that are reserved and not applied yet

	// The controller's lock guards these. No insert holds it, so that a commit waits for none.
	applied     usage     // what the applied rows take
	pending     usage     // reserved by commits that are not applied yet
	oldest      time.Time // when its first rows came; zero while it has none
	minSequence uint64    // lowest sequence that was assigned to it, applied or not; 0: none
	maxSequence uint64
	reservation *pagecache.Reservation // of its flush, from the seal on; nil without a tier

	mu     sync.RWMutex
	tables map[tableKey]*table
}

func newMemtable(generation uint64) *Memtable {
	return &Memtable{generation: generation, flushed: make(chan struct{}), tables: map[tableKey]*table{}}
}

// Generation returns the memtable's number in its shard.
func (m *Memtable) Generation() uint64 { return m.generation }

// usedLocked returns what the memtable's rows take, those of commits that are not applied yet included.
func (m *Memtable) usedLocked() usage {
	used := m.applied
	used.add(m.pending)
	return used
}

// insert adds the batch's points of one shard, unconditionally: what the log holds is never refused. It returns what
// they take.
func (m *Memtable) insert(b *Batch, shard int, sequence uint64) (taken usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, measurement := range b.order {
		rows := &measurement.tables[shard]
		if len(rows.times) == 0 {
			continue
		}
		t := m.tableLocked(tableKey{b.database, measurement.name}, &taken)
		t.insert(measurement, rows, sequence, &taken)
	}
	return taken
}

func (m *Memtable) tableLocked(key tableKey, taken *usage) *table {
	t, ok := m.tables[key]
	if !ok {
		t = &table{index: map[string]int32{}, tags: map[string]struct{}{}}
		m.tables[key] = t
		taken.addTable(key.database, key.measurement)
	}
	return t
}

// tableKeys returns the measurements that the memtable holds, in no order.
func (m *Memtable) tableKeys() []tableKey {
	m.mu.RLock()
	defer m.mu.RUnlock()
	keys := make([]tableKey, 0, len(m.tables))
	for key := range m.tables {
		keys = append(keys, key)
	}
	return keys
}

// snapshot returns an immutable view of one table; nil when the memtable has none of that key.
func (m *Memtable) snapshot(key tableKey) *tableSnapshot {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t, ok := m.tables[key]
	if !ok {
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
