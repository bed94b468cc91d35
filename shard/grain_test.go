package shard

import (
	"testing"
	"time"
)

// Above the soft limit the next memtable is small, and a batch that only fits a larger one is stored all the same: an
// empty memtable takes it, and then needs a seal.
func TestABatchLargerThanTheGrainIsStored(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards, o.Memtable.MaxBytes, o.Tier.CapacityBytes = 1, 4<<20, 32<<20
	o.Admission.MaxWait = time.Minute
	e, gate := startGated(t, o)
	gate.open.Store(true)
	s := e.allShards()[0]
	if got := s.Fill().caps.bytes; got != o.Memtable.MaxBytes {
		t.Errorf("the cap is %d below the soft limit, want %d", got, o.Memtable.MaxBytes)
	}
	held := e.tier.controller.ReserveForced(26 << 20) // the soft limit is 24 MiB
	defer held.Release()
	mustPut(t, e, at("a", 0, 1))
	e.commitMu.Lock()
	outcome, _ := e.trySealLocked(s)
	e.commitMu.Unlock()
	if outcome != Sealed {
		t.Fatalf("the seal was %s", outcome)
	}
	const grain = 1 << 20
	if got := s.Fill().caps.bytes; got != grain {
		t.Fatalf("the cap is %d above the soft limit, want %d", got, grain)
	}
	large := make([]testPoint, 32_000)
	for i := range large {
		large[i] = at("a", int64(i+1), 1)
	}
	b := e.NewBatch("db")
	defer b.Release()
	for i := range large {
		mustAppend(b, large[i].point())
	}
	if need := b.NeedBytes(); need <= grain || need >= o.Memtable.MaxBytes {
		t.Fatalf("the batch needs %d bytes, want between %d and %d", need, grain, o.Memtable.MaxBytes)
	}
	gate.open.Store(false) // so that the memtable is looked at while it is full, however fast the tier drains
	mustPut(t, e, large...)
	fill := s.Fill()
	if !SealRequired(fill, smallestNeed()) {
		t.Errorf("%d bytes are active of %d, and a row more needs no seal", fill.active.bytes(), fill.caps.bytes)
	}
	gate.open.Store(true)
	mustPut(t, e, at("a", -1, 1))
	if got := s.Fill().Generation; got != fill.Generation+1 {
		t.Errorf("generation %d, want %d", got, fill.Generation+1)
	}
	if got := len(rowsOf(t, e, "m")); got != len(large)+2 {
		t.Errorf("%d rows, want %d", got, len(large)+2)
	}
}
