package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"lineweir/internal/vfs"
	"lineweir/segment"
)

// newController returns a controller of one shard over a store in a fresh directory, and the schema of its batches.
func newController(t *testing.T, fs vfs.FS, change func(*ControllerOptions)) *FlushController {
	t.Helper()
	store, err := segment.OpenStore(segment.StoreOptions{FS: fs, Dir: t.TempDir(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	o := ControllerOptions{
		Memtable: MemtableOptions{MaxBytes: 64 << 10, MaxRows: 1000, MaxAge: time.Minute, FrozenMax: 2},
		Limits:   Limits{ColumnsPerMeasurement: 100, MeasurementsPerBatch: 100, MeasurementsPerMemtable: 100},
		Files:    store,
	}
	if change != nil {
		change(&o)
	}
	c, err := NewFlushController(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// batchOf returns a batch for one shard that holds the points.
func batchOf(t testing.TB, points ...testPoint) *Batch {
	t.Helper()
	b := NewBatch("db", Limits{ColumnsPerMeasurement: 2000, MeasurementsPerBatch: 100, MeasurementsPerMemtable: 100}, 1)
	for i := range points {
		if err := b.Append(points[i].point()); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func insert(t testing.TB, c *FlushController, sequence uint64, points ...testPoint) {
	t.Helper()
	if err := c.InsertWithWALSeq(batchOf(t, points...), sequence); err != nil {
		t.Fatal(err)
	}
}

func freeze(t testing.TB, c *FlushController) {
	t.Helper()
	if outcome, err := c.FreezeAndSwap(); outcome != Sealed || err != nil {
		t.Fatalf("FreezeAndSwap: %v, %v; want sealed", outcome, err)
	}
}

func controllerRows(t testing.TB, c *FlushController) map[string]string {
	t.Helper()
	return drainSource(t, c.ScanMeasurement("db", "m", everything()))
}

func TestNewFlushControllerRefusesImpossibleOptions(t *testing.T) {
	if c, err := NewFlushController(ControllerOptions{Shard: -1}); err == nil {
		t.Fatalf("got %v, want an error", c)
	}
}

func TestActiveAndFrozenMemtables(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	if c.FrozenMemtable() != nil || c.FrozenCount() != 0 || !c.IsIdle() || c.ActiveMemtable().Generation() != 1 {
		t.Errorf("a new controller has frozen memtables or is not idle")
	}
	insert(t, c, 1, at("a", 1, 1))
	active := c.ActiveMemtable()
	freeze(t, c)
	if c.FrozenMemtable() != active || c.FrozenCount() != 1 || c.IsIdle() || c.ActiveMemtable().Generation() != 2 {
		t.Errorf("after a seal: frozen %v, count %d, idle %v", c.FrozenMemtable(), c.FrozenCount(), c.IsIdle())
	}
}

func TestInsertChecksTheCapacity(t *testing.T) {
	c := newController(t, vfs.OS, func(o *ControllerOptions) { o.Memtable.MaxRows = 2 })
	for n := range int64(2) {
		if err := c.Insert(batchOf(t, at("a", n, n), at("a", n+100, n))); err != nil {
			t.Fatal(err)
		}
		freeze(t, c)
	}
	if err := c.Insert(batchOf(t, at("a", 7, 7), at("a", 8, 8))); err != nil {
		t.Fatal(err)
	}
	if err := c.Insert(batchOf(t, at("a", 9, 9))); !errors.Is(err, ErrCapacityExceeded) {
		t.Fatalf("got %v, want ErrCapacityExceeded", err)
	}
	if err := c.InsertWithWALSeq(batchOf(t, at("a", 9, 9)), 5); err != nil {
		t.Fatalf("what is durable must be inserted, got %v", err)
	}
	if got := c.MinUnflushedWALSeq(); got != 5 {
		t.Errorf("oldest unflushed sequence is %d, want 5", got)
	}
}

func TestShouldFlush(t *testing.T) {
	c := newController(t, vfs.OS, func(o *ControllerOptions) { o.Memtable.MaxRows = 2 })
	now := time.Now()
	if c.ShouldFlush(now.Add(time.Hour)) {
		t.Error("an empty memtable should not flush")
	}
	insert(t, c, 1, at("a", 1, 1))
	if c.ShouldFlush(now) || !c.ShouldFlush(now.Add(2*time.Minute)) {
		t.Error("want a flush by age only")
	}
	insert(t, c, 2, at("a", 2, 1))
	if !c.ShouldFlush(now) {
		t.Error("a full memtable should flush")
	}
}

// The age of a memtable is that of its oldest row, however long it was empty before.
func TestAgeBeginsWithTheFirstRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t, vfs.OS, nil)
		time.Sleep(time.Hour)
		insert(t, c, 1, at("a", 1, 1))
		time.Sleep(59 * time.Second)
		insert(t, c, 2, at("a", 2, 1))
		if c.ShouldFlush(time.Now()) {
			t.Error("a row of 59 s is old")
		}
		time.Sleep(time.Second)
		if !c.ShouldFlush(time.Now()) {
			t.Error("a row of a minute is not old")
		}
	})
}

func TestFreezeAndSwap(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	if outcome, err := c.FreezeAndSwap(); outcome != SealNotNeeded || err != nil || c.FrozenCount() != 0 {
		t.Errorf("an empty memtable: %v, %v, %d frozen; want no slot taken", outcome, err, c.FrozenCount())
	}
	for n := range uint64(2) {
		insert(t, c, n+1, at("a", int64(n), 1))
		freeze(t, c)
	}
	insert(t, c, 3, at("a", 3, 1))
	if outcome, err := c.FreezeAndSwap(); outcome != SealBlocked || !errors.Is(err, ErrFrozenQueueFull) {
		t.Errorf("a third seal: %v, %v; want blocked", outcome, err)
	}
	if _, err := c.FlushFrozen(); err != nil {
		t.Fatal(err)
	}
	freeze(t, c)
}

// The newest write wins across active and frozen memtables, by sequence and then line, never by arrival.
func TestTheNewestWriteWins(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	insert(t, c, 1, at("a", 1, 1), at("a", 2, 1), at("a", 3, 1), at("a", 4, 1))
	freeze(t, c)
	insert(t, c, 2, at("a", 2, 2), at("a", 3, 2))
	freeze(t, c)
	insert(t, c, 5, at("a", 3, 5), at("a", 4, 5))
	insert(t, c, 4, at("a", 3, 4), at("a", 4, 4), at("a", 5, 40), at("a", 5, 41))
	want := map[string]string{
		rowKey("a", 1): "v=1", rowKey("a", 2): "v=2", rowKey("a", 3): "v=5", rowKey("a", 4): "v=5", rowKey("a", 5): "v=41",
	}
	if diff := cmp.Diff(want, controllerRows(t, c)); diff != "" {
		t.Error(diff)
	}
}

// Fields of copies of one point merge: each field has its newest value.
func TestCopiesOfAPointMergeByField(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	point := func(fields map[string]any) testPoint { return testPoint{Measurement: "m", Fields: fields, Time: 1} }
	insert(t, c, 1, point(map[string]any{"a": int64(1), "b": int64(1), "text": "old"}))
	insert(t, c, 2, point(map[string]any{"b": int64(2), "c": int64(2)}))
	freeze(t, c)
	insert(t, c, 3, point(map[string]any{"c": int64(3), "text": "new"}))
	for _, rows := range []map[string]string{controllerRows(t, c)} {
		if diff := cmp.Diff(map[string]string{"\xff 09223372036854775809": `a=1 b=2 c=3 text="new"`}, rows); diff != "" {
			t.Error(diff)
		}
	}
}

func TestScanIsInclusiveAndSeesAllMeasurements(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	insert(t, c, 1, at("a", 1, 1), at("a", 2, 2))
	freeze(t, c)
	other := at("b", 3, 3)
	other.Measurement = "other"
	insert(t, c, 2, at("a", 3, 3), at("a", 4, 4), other)
	count := func(scan func(BlockFunc) error) map[string]int {
		rows := map[string]int{}
		if err := scan(func(database, measurement string, b *segment.Block) error {
			rows[database+"/"+measurement] += len(b.Times)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	got := count(func(fn BlockFunc) error { return c.Scan(2, 3, fn) })
	if diff := cmp.Diff(map[string]int{"db/m": 2, "db/other": 1}, got); diff != "" {
		t.Errorf("Scan(2, 3): %s", diff)
	}
	if diff := cmp.Diff(map[string]int{"db/m": 4, "db/other": 1}, count(c.ScanAll)); diff != "" {
		t.Errorf("ScanAll: %s", diff)
	}
}

func TestSeriesAndTagsAreVisited(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	insert(t, c, 1, testPoint{
		Measurement: "m", Tags: map[string]string{"host": "a", "region": "eu"}, Fields: map[string]any{"v": 1.5},
	})
	freeze(t, c)
	insert(t, c, 2, at("x", 1, 1))
	var keys, tags []string
	c.AllSeriesCanonicalForms(func(database, measurement string, key []byte) {
		keys = append(keys, fmt.Sprintf("%s %s %q", database, measurement, key))
	})
	c.VisitTags(func(database, measurement string, name, value []byte) {
		tags = append(tags, fmt.Sprintf("%s %s %s=%s", database, measurement, name, value))
	})
	slices.Sort(keys)
	slices.Sort(tags)
	wantKeys := []string{`db m "host\x01a\x00region\x01eu\x00\xff"`, `db m "s\x01x\x00\xff"`}
	if diff := cmp.Diff(wantKeys, keys); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"db m host=a", "db m region=eu", "db m s=x"}, tags); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryIsCounted(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	if c.TotalMemory() != 0 || c.TotalInternerMemory() != 0 {
		t.Errorf("an empty controller takes %d and %d bytes", c.TotalMemory(), c.TotalInternerMemory())
	}
	insert(t, c, 1, at("a", 1, 1))
	one := c.TotalMemory()
	freeze(t, c)
	insert(t, c, 2, at("b", 1, 1))
	if c.TotalMemory() != 2*one || c.TotalInternerMemory() <= 0 || c.TotalInternerMemory() >= one {
		t.Errorf("two memtables take %d (%d of series), one %d", c.TotalMemory(), c.TotalInternerMemory(), one)
	}
}

func TestFlushFrozenWritesOneSegmentPerMeasurement(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	if _, err := c.FlushFrozen(); !errors.Is(err, ErrNoFrozenMemtable) {
		t.Fatalf("got %v, want ErrNoFrozenMemtable", err)
	}
	other := at("b", 30, 3)
	other.Measurement = "other"
	insert(t, c, 7, at("a", 10, 1), at("a", 20, 2), other)
	insert(t, c, 9, at("a", 20, 3))
	freeze(t, c)
	results, err := c.FlushFrozen()
	if err != nil {
		t.Fatal(err)
	}
	type flushed struct {
		Measurement      string
		Rows             int64
		MinTime, MaxTime int64
		MaxSequence      uint64
	}
	var got []flushed
	for _, r := range results {
		got = append(got, flushed{r.Measurement, r.Rows, r.MinTime, r.MaxTime, r.MaxSequence})
	}
	if diff := cmp.Diff([]flushed{{"m", 2, 10, 20, 9}, {"other", 1, 30, 30, 9}}, got); diff != "" {
		t.Error(diff)
	}
	if !c.IsIdle() || c.MinUnflushedWALSeq() != 0 {
		t.Error("the controller is not idle after the flush")
	}
}

// I6: a flush that fails before its manifest edit leaves memtable, reads, floor and directory as they were, and the
// next try works.
func TestAFailedFlushChangesNothing(t *testing.T) {
	tests := map[string]func(c *FlushController, fail *error) error{
		"write": func(c *FlushController, fail *error) error {
			*fail = errors.New("injected")
			defer func() { *fail = nil }()
			_, err := c.FlushFrozen()
			return err
		},
		"register": func(c *FlushController, _ *error) error {
			_, err := c.FlushFrozenWith(func([]FlushResult, func()) error { return errors.New("injected") })
			return err
		},
	}
	for name, flush := range tests {
		t.Run(name, func(t *testing.T) {
			var fail error
			fs := vfs.Inject(vfs.OS, func(op vfs.Op) error {
				if op.Name == "sync" {
					return fail
				}
				return nil
			})
			c := newController(t, fs, nil)
			insert(t, c, 3, at("a", 1, 1))
			freeze(t, c)
			insert(t, c, 4, at("a", 2, 2))
			before := controllerRows(t, c)
			for range 3 {
				if err := flush(c, &fail); err == nil {
					t.Fatal("the flush did not fail")
				}
			}
			if diff := cmp.Diff(before, controllerRows(t, c)); diff != "" {
				t.Error(diff)
			}
			if c.FrozenCount() != 1 || c.MinUnflushedWALSeq() != 3 {
				t.Errorf("%d frozen, oldest %d; want 1 and 3", c.FrozenCount(), c.MinUnflushedWALSeq())
			}
			if results, err := c.FlushFrozen(); err != nil || len(results) != 1 || c.MinUnflushedWALSeq() != 4 {
				t.Errorf("the next flush: %v, %v", results, err)
			}
		})
	}
}

func TestTheControllerLogsItself(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	insert(t, c, 1, at("a", 1, 1))
	enc := zapcore.NewMapObjectEncoder()
	if err := c.MarshalLogObject(enc); err != nil {
		t.Fatal(err)
	}
	if enc.Fields["active_rows"] != int64(1) || enc.Fields["generation"] != uint64(1) {
		t.Errorf("logged %v", enc.Fields)
	}
}

// What a memtable counts is at least about its memory, also when each row comes alone.
func TestTheMemoryOfAMemtableIsCounted(t *testing.T) {
	alone := func(name string, point func(n int64) testPoint) load {
		return load{name: name, batch: func(b *Batch, n int64) {
			p := point(n)
			mustAppend(b, p.point())
		}}
	}
	tables := func(n int64) testPoint {
		p := at("s", n, n)
		p.Measurement = fmt.Sprintf("m%d", n)
		return p
	}
	text := func(n int64) testPoint {
		return testPoint{Measurement: "m", Fields: map[string]any{"text": "x"}, Time: n}
	}
	rows := func(n int64) testPoint { return at(fmt.Sprintf("s%d", n%100), n, n) }
	series := func(n int64) testPoint { return at(fmt.Sprintf("s%d", n), n, n) }
	ones := []load{alone("tables", tables), alone("text", text), alone("rows", rows), alone("series", series)}
	for _, l := range append(loads(), ones...) {
		t.Run(l.name, func(t *testing.T) {
			c := newController(t, vfs.OS, nil)
			took := heapBytes(func() {
				for n := int64(0); c.Fill().active.memoryBytes < 4<<20; n++ {
					if err := c.InsertWithWALSeq(benchBatch(l, n), uint64(n+1)); err != nil {
						t.Fatal(err)
					}
				}
			})
			if counted := c.Fill().active.memoryBytes; took > counted*11/10 {
				t.Errorf("%d bytes are counted, the heap grew by %d", counted, took)
			}
		})
	}
}

// I7: the published snapshot equals what is recomputed from the state, after every kind of change.
func TestTheSnapshotIsDerived(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	check := func(when string) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		want := c.fillLocked()
		if diff := cmp.Diff(want, *c.Fill(), cmp.AllowUnexported(Fill{}, usage{}, caps{})); diff != "" {
			t.Errorf("%s:\n%s", when, diff)
		}
	}
	check("open")
	b := batchOf(t, at("a", 1, 1))
	m := c.reserve(b.needs[0], 1)
	check("reserve")
	if c.Fill().active.rows != 1 {
		t.Error("a reservation does not count")
	}
	if err := c.apply(m, b, b.needs[0], 1); err != nil {
		t.Fatal(err)
	}
	check("apply")
	freeze(t, c)
	check("seal")
	if _, err := c.FlushFrozen(); err != nil {
		t.Fatal(err)
	}
	check("flush")
}

// While a write is applied another one's commit publishes the snapshot: the rows count once, as reserved or as applied.
func TestNoWriteCountsTwiceWhileItIsApplied(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	points := make([]testPoint, 500)
	for i := range points {
		points[i] = at(fmt.Sprintf("s%d", i), 1, 1)
	}
	b := batchOf(t, points...)
	ctx, cancel := context.WithCancel(context.Background())
	var written atomic.Int64
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			c.cancel(c.reserve(usage{}, 1), usage{})
			if counted, most := c.Fill().active.rows, written.Load(); counted > most {
				t.Errorf("%d rows are counted, %d were written", counted, most)
				cancel()
			}
			select {
			case ready <- struct{}{}:
			default:
			}
		}
	}()
	<-ready
	for n := range uint64(20) {
		written.Add(int64(len(points)))
		if err := c.InsertWithWALSeq(b, n+1); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
}

// A commit, which holds the lock of all commits, does not wait while the rows of another one are inserted.
func TestACommitWaitsForNoInsert(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	m := c.ActiveMemtable()
	m.mu.Lock() // as the insert of a large batch holds it
	defer m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.cancel(c.reserve(smallestNeed(), 1), smallestNeed())
		_ = c.TotalMemory()
	}()
	select {
	case <-done:
	case <-time.After(hangs):
		t.Fatal("a commit waits for an insert")
	}
}

// What rows take, once applied, is never more than what was reserved for them.
func TestAppliedIsNeverMoreThanReserved(t *testing.T) {
	c := newController(t, vfs.OS, nil)
	b := batchOf(t,
		testPoint{
			Measurement: "m", Tags: map[string]string{"a": "1", "b": "2"},
			Fields: map[string]any{"x": 1.5, "text": "hello"}, Time: 1,
		},
		testPoint{Measurement: "m", Tags: map[string]string{"a": "1"}, Fields: map[string]any{"y": true}, Time: 2},
		testPoint{Measurement: "m", Tags: map[string]string{"c": "1"}, Fields: map[string]any{"x": 2.5}, Time: 3},
		testPoint{Measurement: "n", Fields: map[string]any{"u": uint64(3)}, Time: 3},
	)
	reserved := b.needs[0]
	if err := c.InsertWithWALSeq(b, 1); err != nil {
		t.Fatal(err)
	}
	applied := c.Fill().active
	if applied.bytes() > reserved.bytes() || applied.memoryBytes > reserved.memoryBytes || applied.rows != reserved.rows {
		t.Errorf("applied %+v, reserved %+v", applied, reserved)
	}
	if applied.cost.Bytes() > reserved.cost.Bytes() || applied.cost.TagIndexes > reserved.cost.TagIndexes {
		t.Errorf("applied %+v, reserved %+v", applied.cost, reserved.cost)
	}
}
