package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// I3, and lance-format/lance#8994: with the gate shut a put that fits succeeds; one that does not is refused and
// leaves no trace; when the gate opens the seal happens and puts succeed.
func TestABlockedSealPinsTheMemtableAndRefusesThePut(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	e, gate := startGated(t, o)
	taken, refused := fillUntilRefused(t, e, "a")
	if refused.Cause != CauseL0Full || refused.RetryAfter < time.Second || refused.RetryAfter%time.Second != 0 {
		t.Errorf("refused with %v, want cause l0_full and whole seconds", refused)
	}
	before, wal := *e.allShards()[0].Fill(), e.log.Stats()
	wide := testPoint{Measurement: "new", Tags: map[string]string{}, Fields: map[string]any{}, Time: 1}
	for i := range 200 {
		wide.Fields[fmt.Sprintf("field%03d", i)] = int64(i)
	}
	if err := put(e, "other", wide); !errors.As(err, &refused) {
		t.Fatalf("a put that needs a seal got %v, want backpressure", err)
	}
	after := *e.allShards()[0].Fill()
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(Fill{}, usage{}, caps{})); diff != "" {
		t.Errorf("the refused put changed the shard:\n%s", diff)
	}
	if now := e.log.Stats(); now.Bytes != wal.Bytes || now.LastSequence != wal.LastSequence {
		t.Errorf("the refused put changed the log from %+v to %+v", wal, now)
	}
	if got := e.Databases(); !cmp.Equal(got, []string{"db"}) {
		t.Errorf("databases are %v, want only db", got)
	}
	if got := int64(len(rowsOf(t, e, "m"))); got != taken {
		t.Errorf("%d rows, want %d", got, taken)
	}
	gate.open.Store(true)
	e.kick()
	eventually(t, "the gate opens and the put succeeds", func() bool { return put(e, "other", wide) == nil })
	if generation := e.allShards()[0].Fill().Generation; generation != before.Generation+1 {
		t.Errorf("generation %d after the gate opened, want %d", generation, before.Generation+1)
	}
}

// A put that still fits is taken while the shard of another series is blocked, and even in the blocked shard when it
// is small.
func TestAPutThatFitsIsTakenWhileTheGateIsShut(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	e, _ := startGated(t, o)
	big := make([]testPoint, 200)
	n := int64(0)
	for {
		for i := range big {
			big[i] = at("a", n, n)
			n++
		}
		if err := put(e, "db", big...); err != nil {
			break
		}
	}
	if !e.allShards()[0].blocked.Load() {
		t.Fatal("the shard is not blocked")
	}
	mustPut(t, e, at("a", -1, 1))
	if got := e.Status().Admission.Waiting; got != 0 {
		t.Errorf("%d writes wait, want 0", got)
	}
}

// Admission takes no lock: it answers while a test holds every lock of commit.
func TestAdmitReturnsWhileTheLocksAreHeld(t *testing.T) {
	e, _ := startGated(t, testOptions(t.TempDir()))
	b := e.NewBatch("db")
	defer b.Release()
	p := at("a", 1, 1)
	if err := b.Append(p.point()); err != nil {
		t.Fatal(err)
	}
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	for _, s := range e.allShards() {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	done := make(chan error, 1)
	go func() { done <- e.Admit(b) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(hangs):
		t.Fatal("Admit waits for a lock")
	}
}

// I2: the ledger never exceeds the bound under 16 writers on several shards while the drain is slow; every refused
// write says when to come back, and every acknowledged point is there.
func TestTheTierNeverExceedsItsBound(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 4
	o.Memtable.MaxBytes = 32 << 10
	o.Tier.CapacityBytes = 256 << 10
	o.CompactionBytesPerSecond = 32 << 10
	e := start(t, o)
	var refusals, highest atomic.Int64
	want := runWriters(t, e, 16, 300, &refusals, &highest)
	ledger := e.tier.controller.Ledger()
	if ledger.HighestBytes > o.Tier.CapacityBytes || highest.Load() > o.Tier.CapacityBytes {
		t.Errorf("the tier reached %d (sampled %d) of %d", ledger.HighestBytes, highest.Load(), o.Tier.CapacityBytes)
	}
	if ledger.ForcedCount != 0 || ledger.OverReservations != 0 {
		t.Errorf("ledger %+v, want nothing forced and no reservation too small", ledger)
	}
	if refusals.Load() == 0 {
		t.Error("no write was refused: the test did not reach the bound")
	}
	t.Logf("%d points taken, %d writes refused, highest level %d of %d", len(want), refusals.Load(), ledger.HighestBytes,
		o.Tier.CapacityBytes)
	if diff := cmp.Diff(want, rowsOf(t, e, "m")); diff != "" {
		t.Errorf("acknowledged points and rows differ (%d, %d)", len(want), len(rowsOf(t, e, "m")))
	}
	seal(t, e)
	eventually(t, "the ledger is what the store holds", func() bool {
		ledger := e.tier.controller.Ledger()
		return ledger.ReservedBytes == 0 && ledger.RegisteredBytes == e.store.L0Bytes()
	})
	storedRows(t, e)
	if s := e.Admission(); s.Waiting != 0 || e.admission.waitingBytes.Load() != 0 {
		t.Errorf("admission %+v with %d bytes, want none waiting", s, e.admission.waitingBytes.Load())
	}
}

// runWriters lets writers write distinct points until so many writes were refused, and returns what was acknowledged.
func runWriters(
	t *testing.T, e *Engine, writers int, refusalsMax int64, refusals, highest *atomic.Int64,
) map[string]string {
	var group sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]string{}
	end := time.Now().Add(hangs)
	for w := range writers {
		group.Go(func() {
			mine := map[string]string{}
			for n := int64(0); refusals.Load() < refusalsMax && time.Now().Before(end); n += 20 {
				writeTwenty(t, e, fmt.Sprintf("w%02d", w), n, mine, refusals)
				ledger := e.tier.controller.Ledger()
				storeMax(highest, ledger.RegisteredBytes+ledger.ReservedBytes)
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(acknowledged, mine)
		})
	}
	group.Wait()
	return acknowledged
}

func writeTwenty(t *testing.T, e *Engine, series string, n int64, mine map[string]string, refusals *atomic.Int64) {
	points := make([]testPoint, 20)
	for i := range points {
		points[i] = at(fmt.Sprintf("%s-%d", series, i), n, n)
	}
	err := put(e, "db", points...)
	var refused *BackpressureError
	if errors.As(err, &refused) {
		refusals.Add(1)
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	for i := range points {
		mine[rowKey(fmt.Sprintf("%s-%d", series, i), n)] = fmt.Sprintf("v=%d", n)
	}
}

func storeMax(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}

// A write that waits is committed when the gate opens, and is visible when Write returns.
func TestAWaitingWriteIsCommittedWhenTheGateOpens(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	o.Admission.MaxWait = hangs
	e, gate := startGated(t, o)
	batch := func(n int64) []testPoint {
		points := make([]testPoint, 100)
		for i := range points {
			points[i] = at("a", n*100+int64(i), n)
		}
		return points
	}
	n := int64(0)
	for ; e.Admission().Waiting == 0; n++ {
		fits := make(chan error, 1)
		go func() { fits <- put(e, "db", batch(n)...) }()
		eventually(t, "the put returns or waits", func() bool { return len(fits) > 0 || e.Admission().Waiting > 0 })
		if e.Admission().Waiting > 0 {
			gate.open.Store(true)
			e.kick()
			if err := <-fits; err != nil {
				t.Fatal(err)
			}
			break
		}
		if err := <-fits; err != nil {
			t.Fatal(err)
		}
	}
	if got, want := int64(len(rowsOf(t, e, "m"))), (n+1)*100; got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
	if s := e.Admission(); s.Waited != 1 || s.Waiting != 0 {
		t.Errorf("admission %+v, want one that waited", s)
	}
}

// A client that leaves while its write waits leaks nothing, and its points never appear.
func TestACancelledWaitLeavesNoTrace(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	o.Admission.MaxWait = time.Hour
	e, gate := startGated(t, o)
	points := make([]testPoint, 100)
	for i := range points {
		points[i] = at("gone", int64(i), 1)
	}
	fillMemtable(t, e)
	ctx, cancel := context.WithCancel(context.Background())
	b := e.NewBatch("db")
	defer b.Release()
	for i := range points {
		if err := b.Append(points[i].point()); err != nil {
			t.Fatal(err)
		}
	}
	result := make(chan error, 1)
	go func() { result <- e.Write(ctx, b, encodeFrame("db", points)) }()
	eventually(t, "the write waits", func() bool { return e.Admission().Waiting == 1 })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("Write returned %v, want the context's error", err)
	}
	gate.open.Store(true)
	e.kick()
	mustPut(t, e, at("a", -1, 1))
	for key := range rowsOf(t, e, "m") {
		if key[2:6] == "gone" {
			t.Fatalf("row %q of the cancelled write appeared", key)
		}
	}
	if s := e.Admission(); s.Waiting != 0 || e.admission.waitingBytes.Load() != 0 || s.Waited != 0 {
		t.Errorf("admission %+v, want none waiting", s)
	}
}

// Those who wait hold a bounded amount of memory: one more is refused at once, and one client
// may have half of it.
func TestThoseWhoWaitAreBounded(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	o.Admission.MaxWait = time.Hour
	e, _ := startGated(t, o)
	fillMemtable(t, e)
	writes := make([]*write, 3)
	for i := range writes {
		b := e.NewBatch("db")
		for n := range 100 {
			p := at("waits", int64(n), 1)
			mustAppend(b, p.point())
		}
		writes[i] = newWrite(b, make([]byte, 100))
	}
	e.options.Admission.WaitingBytesMax = 4 * writes[0].sizeBytes()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, w := range writes[:2] {
		group.Go(func() {
			if err := e.commit(ctx, w); !errors.Is(err, context.Canceled) {
				t.Errorf("one who waits got %v", err)
			}
		})
	}
	eventually(t, "two writes wait", func() bool { return e.Admission().Waiting == 2 })
	var refused *BackpressureError
	third, end := context.WithTimeout(ctx, hangs)
	defer end()
	if err := e.commit(third, writes[2]); !errors.As(err, &refused) || refused.Cause != CauseL0Full {
		t.Errorf("the third got %v, want l0_full", err)
	}
	cancel()
	group.Wait()
}

// A drain refuses those who wait.
func TestADrainRefusesThoseWhoWait(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	o.Admission.MaxWait = time.Hour
	e, _ := startGated(t, o)
	fillMemtable(t, e)
	b := e.NewBatch("db")
	for n := range 100 {
		p := at("waits", int64(n), 1)
		mustAppend(b, p.point())
	}
	result := make(chan error, 1)
	go func() { result <- e.commit(context.Background(), newWrite(b, nil)) }()
	eventually(t, "the write waits", func() bool { return e.Admission().Waiting == 1 })
	e.Drain()
	var refused *BackpressureError
	if err := <-result; !errors.As(err, &refused) || refused.Cause != CauseDraining {
		t.Errorf("got %v, want draining", err)
	}
}

// A write that needs a seal is slowed down above the soft limit, one that fits never is.
func TestOnlyAWriteThatNeedsASealIsSlowed(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	e, _ := startGated(t, o)
	fillMemtable(t, e)
	gone, cancel := context.WithCancel(context.Background())
	cancel() // so that a write that would be slowed ends at once
	large := &write{parts: []part{{need: usage{rows: 1, memoryBytes: o.Memtable.MaxBytes}}}}
	small := &write{parts: []part{{need: smallestNeed()}}}
	if err := e.stall(gone, large); err != nil {
		t.Errorf("slowed below the soft limit: %v", err)
	}
	defer e.tier.controller.ReserveForced(o.Tier.CapacityBytes * 9 / 10).Release()
	if err := e.stall(gone, large); !errors.Is(err, context.Canceled) {
		t.Errorf("not slowed above the soft limit: %v", err)
	}
	if err := e.stall(gone, small); err != nil {
		t.Errorf("a write that fits is slowed: %v", err)
	}
}

// Full memtables of all shards are a cause of their own.
func TestFullMemoryIsBlocked(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	e := start(t, o)
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	need := usage{rows: 1, memoryBytes: e.memtablesMaxBytes()}
	defer e.allShards()[0].cancel(e.allShards()[0].reserve(need, 1), need)
	w := &write{parts: []part{{need: smallestNeed()}}}
	if blocked := e.sealForLocked(w, nil); blocked == nil || blocked.cause != CauseMemory {
		t.Errorf("blocked by %+v, want memory", blocked)
	}
}

// Who comes later is told to wait for those who wait already: their rows need seals too.
func TestAPredictionCountsThoseWhoWait(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	o.Admission.MaxWait = time.Hour
	e, _ := startGated(t, o)
	fillMemtable(t, e)
	s, controller := e.allShards()[0], e.tier.controller
	controller.Drained(64<<10, time.Second)
	controller.ReserveForced(o.Tier.CapacityBytes)
	seals := s.Fill().active.bytes()
	expected := func() time.Duration {
		return controller.ExpectedWait(e.turns.Line().WaitingBytes, seals)
	}
	alone := expected()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	wait := func(n int64) {
		group.Go(func() {
			b := e.NewBatch("db")
			defer b.Release()
			for i := range 1200 {
				p := at("waits", int64(i), 1)
				mustAppend(b, p.point())
			}
			_ = e.Write(ctx, b, nil)
		})
		eventually(t, "the write waits", func() bool { return e.Admission().Waiting == n })
	}
	wait(1)
	if got := expected(); got < alone {
		t.Errorf("behind a write: %s, alone %s", got, alone)
	}
	wait(2)
	seal := time.Duration(o.Memtable.MaxBytes) * time.Second / (64 << 10)
	if got := expected(); got < alone+seal*9/10 {
		t.Errorf("behind a memtable that takes %s: %s, alone %s", seal, got, alone)
	}
	cancel()
	group.Wait()
	if got := e.turns.Line().WaitingBytes; got != 0 {
		t.Errorf("nobody waits, for %d bytes", got)
	}
}

// fillMemtable fills the only shard until a batch of 100 points would need a seal. The gate is shut.
func fillMemtable(t *testing.T, e *Engine) {
	t.Helper()
	b := e.NewBatch("db")
	defer b.Release()
	for i := range 100 {
		p := at("gone", int64(i), 1)
		if err := b.Append(p.point()); err != nil {
			t.Fatal(err)
		}
	}
	twice := b.needs[0]
	twice.add(twice)
	for n := int64(0); !SealRequired(e.allShards()[0].Fill(), b.needs[0]); {
		points := []testPoint{at("a", n, n)}
		for !SealRequired(e.allShards()[0].Fill(), twice) && len(points) < 100 {
			points = append(points, at("a", n+int64(len(points)), n))
		}
		mustPut(t, e, points...)
		n += int64(len(points))
	}
}

// Under overload the gate opens and shuts with each seal; the log tells of the beginning and of the end.
func TestTheLogTellsOfTheGateOnce(t *testing.T) {
	var told gateLog
	begin := time.Now()
	for second, tc := range []struct{ holding, begins, ends bool }{
		{}, {holding: true, begins: true}, {}, {holding: true}, {}, {}, {holding: true},
		{}, {}, {}, {}, {}, {}, {}, {}, {}, {ends: true}, {}, {holding: true, begins: true},
	} {
		begins, ends := told.note(tc.holding, begin.Add(time.Duration(second)*time.Second))
		if begins != tc.begins || ends != tc.ends {
			t.Errorf("second %d: begins %v, ends %v; want %v, %v", second, begins, ends, tc.begins, tc.ends)
		}
	}
}

// A batch that no memtable could hold is not backpressure.
func TestABatchThatNeverFitsIsTooLarge(t *testing.T) {
	o := testOptions(t.TempDir())
	e, _ := startGated(t, o)
	points := make([]testPoint, 20000)
	for i := range points {
		points[i] = at("a", int64(i), 1)
	}
	var tooLarge *TooLargeError
	if err := put(e, "db", points...); !errors.As(err, &tooLarge) || tooLarge.Points != 20000 || tooLarge.Log {
		t.Fatalf("got %v, want a TooLargeError of a memtable", err)
	}
}

// Neither is a text that the log could never hold, and the answer says so.
func TestATextThatTheLogNeverTakesIsTooLarge(t *testing.T) {
	o := testOptions(t.TempDir())
	o.WAL = WALOptions{FileBytes: 8 << 10, MaxBytes: 16 << 10}
	e, _ := startGated(t, o)
	p := at("a", 1, 1)
	p.Fields["text"] = strings.Repeat("x", 10_000)
	var tooLarge *TooLargeError
	err := put(e, "db", p)
	if !errors.As(err, &tooLarge) || !tooLarge.Log || !strings.Contains(err.Error(), "wal.max_bytes") {
		t.Fatalf("got %v, want a TooLargeError of the log", err)
	}
}
