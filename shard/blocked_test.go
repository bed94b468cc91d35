package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lineweir/internal/vfs"
)

// After an insert that leaves no room, the memtable is sealed at once where that may be had; where it may not, the
// insert stands and the memtable stays full for the next put's own check.
func TestRotationAfterAnInsertIgnoresBlocked(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	o.Memtable.MaxRows = 100
	e, gate := startGated(t, o)
	full := make([]testPoint, 100)
	for i := range full {
		full[i] = at("a", int64(i), 1)
	}
	mustPut(t, e, full...)
	if fill := e.allShards()[0].Fill(); fill.Generation != 1 || fill.active.rows != 100 || fill.frozen != 0 {
		t.Errorf("with a shut gate: %+v, want the full memtable in place", fill)
	}
	if e.Admission().Waiting != 0 || e.allShards()[0].blocked.Load() {
		t.Error("the insert left a wish that blocks others")
	}
	gate.open.Store(true)
	mustPut(t, e, at("a", 1000, 1)) // seals before it is inserted
	mustPut(t, e, full[:99]...)     // fills the second memtable
	if fill := e.allShards()[0].Fill(); fill.Generation != 3 || fill.active.rows != 0 {
		t.Errorf("with an open gate: generation %d with %d rows, want the third and empty", fill.Generation, fill.active.rows)
	}
}

// A full queue of frozen memtables is blocked through the same path as a full tier, and ends when a flush succeeds.
func TestAFullFrozenQueueIsBlocked(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards, o.Memtable.FrozenMax = 1, 1
	fails := &failing{}
	o.FS = vfs.Inject(vfs.OS, fails.hook)
	e := start(t, o)
	fails.arm("sync", "l0/")
	taken, refused := fillUntilRefused(t, e, "a")
	if refused.Cause != CauseFrozenFull {
		t.Errorf("refused because of %s, want frozen_full: %v", refused.Cause, refused)
	}
	fails.disarm()
	eventually(t, "the flush succeeds and writes go on", func() bool { return put(e, "db", at("a", taken, taken)) == nil })
	if got := int64(len(rowsOf(t, e, "m"))); got != taken+1 {
		t.Errorf("%d rows, want %d", got, taken+1)
	}
}

// A full log is blocked through the same path; it asks for seals itself, so that it empties without any writer's help.
func TestAFullLogIsBlockedAndEmptiesItself(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Memtable.MaxBytes, o.Tier.CapacityBytes = 2<<20, 8<<20
	o.WAL = WALOptions{FileBytes: 64 << 10, MaxBytes: 256 << 10}
	e, gate := startGated(t, o)
	wide := func(n int64) testPoint {
		p := at(fmt.Sprintf("s%d", n%4), n, n)
		p.Fields["text"] = fmt.Sprintf("%01000d", n)
		return p
	}
	n := int64(0)
	var refused *BackpressureError
	for ; refused == nil; n++ {
		if err := put(e, "db", wide(n)); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	if refused.Cause != CauseWALFull {
		t.Errorf("refused because of %s, want wal_full: %v", refused.Cause, refused)
	}
	gate.open.Store(true)
	eventually(t, "the log empties", func() bool { return e.log.Stats().Bytes < 128<<10 })
	mustPut(t, e, wide(n))
}

// A full log takes no write that would cause another flush, so a trim that failed is tried again.
func TestATrimThatFailedIsTriedAgain(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Memtable.MaxBytes, o.Tier.CapacityBytes = 2<<20, 8<<20
	o.WAL = WALOptions{FileBytes: 64 << 10, MaxBytes: 256 << 10}
	var failing, failed atomic.Bool
	o.FS = vfs.Inject(vfs.OS, func(op vfs.Op) error {
		if failing.Load() && op.Name == "remove" && strings.HasSuffix(op.Path, ".wal") {
			failed.Store(true)
			return errors.New("injected failure")
		}
		return nil
	})
	e, gate := startGated(t, o)
	p := at("a", 1, 1)
	p.Fields["text"] = strings.Repeat("x", 1000)
	for put(e, "db", p) == nil {
		p.Time++
	}
	failing.Store(true)
	gate.open.Store(true)
	e.kick()
	eventually(t, "a trim fails, and all is flushed", func() bool {
		return failed.Load() && e.allShards()[0].IsIdle() && e.allShards()[1].IsIdle()
	})
	if got := e.log.Stats().Bytes; got < o.WAL.MaxBytes/2 {
		t.Fatalf("the log was trimmed to %d bytes", got)
	}
	failing.Store(false)
	eventually(t, "the log is trimmed", func() bool { return e.log.Stats().Bytes < o.WAL.MaxBytes/2 })
}

// While the tier is above its bound a force-seal seals nothing more, but its fence covers what is on its way.
func TestForceSealAboveTheBoundSealsNothing(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	e := start(t, o)
	paused := true
	if err := e.SetCompaction(nil, &paused); err != nil {
		t.Fatal(err)
	}
	beyond := e.tier.controller.ReserveForced(o.Tier.CapacityBytes + 1)
	mustPut(t, e, at("a", 1, 1))
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if fence.Outstanding() != 0 || e.allShards()[0].Fill().active.rows != 1 {
		t.Errorf("%d flushes outstanding, want none sealed", fence.Outstanding())
	}
	beyond.Release()
	seal(t, e)
	if got := e.allShards()[0].Fill().active.rows; got != 0 {
		t.Errorf("%d rows active after the seal, want 0", got)
	}
}

// Promise 6: with the drain halted every wait ends within its bound, and after the halt writes are taken again.
func TestEveryWaitEnds(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Memtable.MaxBytes, o.Tier.CapacityBytes = 32<<10, 128<<10
	o.Memtable.FrozenMax = 16 // so that the tier is full before the queue is, however slow the disk
	o.Admission.MaxWait = 100 * time.Millisecond
	e := start(t, o)
	paused := true
	if err := e.SetCompaction(nil, &paused); err != nil {
		t.Fatal(err)
	}
	taken, refused := fillUntilRefused(t, e, "a")
	if refused.Cause != CauseL0Full || refused.RetryAfter > 10*time.Second {
		t.Errorf("refused with %v, want l0_full and at most 10 s while the drain is halted", refused)
	}
	if !strings.Contains(refused.Detail, "compaction is paused") {
		t.Errorf("refused with %v, which does not say that compaction is paused", refused)
	}
	started := time.Now()
	for n := range int64(5) {
		_ = put(e, "db", at("a", -1-n, 0))
	}
	if took := time.Since(started); took > hangs {
		t.Errorf("five writes took %s", took)
	}
	paused = false
	if err := e.SetCompaction(nil, &paused); err != nil {
		t.Fatal(err)
	}
	eventually(t, "writes go on", func() bool { return put(e, "db", at("a", taken, 0)) == nil })
}

// An aged memtable is sealed without a writer, through the same gate.
func TestAnAgedMemtableIsSealed(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Memtable.MaxAge = 50 * time.Millisecond
	e, gate := startGated(t, o)
	mustPut(t, e, at("a", 1, 1))
	blocked := func() bool {
		for _, s := range e.allShards() {
			if s.blocked.Load() {
				return true
			}
		}
		return false
	}
	eventually(t, "the aged memtable wants a seal", blocked)
	gate.open.Store(true)
	eventually(t, "the aged memtable is flushed", func() bool {
		flushes := int64(0)
		for _, s := range e.Status().Shards {
			flushes += s.Flushes
		}
		return flushes == 1
	})
}

// A younger wish that needs less room does not overtake an older one that waits for more, neither as a write, nor as
// one that waits, nor in the gate.
func TestYoungerWishesDoNotOvertake(t *testing.T) {
	o := testOptions(t.TempDir())
	e := start(t, o)
	older, younger := e.allShards()[0], e.allShards()[1]
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	full := usage{rows: 1, memoryBytes: o.Memtable.MaxBytes}
	half := usage{rows: 1, memoryBytes: o.Memtable.MaxBytes / 2}
	defer older.cancel(older.reserve(full, 1), full)
	defer younger.cancel(younger.reserve(half, 2), half)
	taken := e.tier.controller.ReserveForced(o.Tier.CapacityBytes - o.Memtable.MaxBytes/2) // room for the younger one
	defer taken.Release()
	w := &write{batch: e.NewBatch("db"), parts: []part{{shard: 1, need: full}}}
	older.wanted.Store(1)
	older.blocked.Store(true)
	younger.wanted.Store(2)
	w.since = time.Unix(0, 2)
	waiter := func() {
		p := &pump{engine: e}
		p.sealWanted(w.since.UnixNano())
		e.sealForLocked(w, p)
	}
	for name, try := range map[string]func(){
		"a newcomer": func() { e.sealForLocked(w, nil) },
		"a waiter":   waiter,
		"the gate":   func() { e.pumpLocked() },
	} {
		if try(); younger.Fill().Generation != 1 {
			t.Fatalf("%s sealed the younger shard", name)
		}
	}
	older.wanted.Store(3)
	if waiter(); younger.Fill().Generation != 2 {
		t.Error("a write in the line is held back by a younger wish")
	}
}

// Admission notes without a lock that a shard is blocked, while a grant may come: afterwards no shard is blocked
// without wanting a seal, because the gate would not look at it again.
func TestABlockedShardWantsASeal(t *testing.T) {
	e, _ := startGated(t, testOptions(t.TempDir()))
	s := &shardState{FlushController: e.allShards()[0].FlushController}
	for range 50_000 {
		s.wanted.Store(1)
		s.blocked.Store(true)
		var group sync.WaitGroup
		group.Go(func() { e.block(s, CauseFrozenFull) })
		group.Go(func() { s.granted() })
		group.Wait()
		if s.wanted.Load() == 0 && (s.blocked.Load() || s.holding.Load()) {
			t.Fatal("the shard is blocked, and wants no seal")
		}
	}
}

// A wish by age alone makes nobody's body be refused unread.
func TestAWishByAgeHoldsNoWriteBack(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards, o.Memtable.MaxAge = 1, 10*time.Millisecond
	e, _ := startGated(t, o)
	mustPut(t, e, at("a", 1, 1))
	eventually(t, "the shard wants a seal", func() bool { return e.allShards()[0].blocked.Load() })
	if err := e.Blocked("", 1); err != nil {
		t.Errorf("the engine says that it is blocked: %v", err)
	}
}

// The losers of a race for a column's type are told to parse again, and nothing of theirs is kept.
func TestTheLoserOfASchemaRaceParsesAgain(t *testing.T) {
	e := start(t, testOptions(t.TempDir()))
	winner, loser := e.NewBatch("db"), e.NewBatch("db")
	defer winner.Release()
	defer loser.Release()
	a := testPoint{Measurement: "m", Fields: map[string]any{"v": int64(1)}, Time: 1}
	b := testPoint{Measurement: "m", Fields: map[string]any{"v": 1.5}, Time: 2}
	mustAppend(winner, a.point())
	mustAppend(loser, b.point())
	if err := e.Write(context.Background(), winner, encodeFrame("db", []testPoint{a})); err != nil {
		t.Fatal(err)
	}
	before := e.log.Stats().LastSequence
	if err := e.Write(context.Background(), loser, nil); !errors.Is(err, ErrSchemaChanged) {
		t.Fatalf("got %v, want ErrSchemaChanged", err)
	}
	if e.log.Stats().LastSequence != before {
		t.Error("the loser left a frame")
	}
	var refused *PointError
	if err := put(e, "db", b); !errors.As(err, &refused) {
		t.Errorf("parsed again: %v, want a type conflict", err)
	}
}
