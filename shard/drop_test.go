package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// rowsIn is rowsOf for any database.
func rowsIn(t testing.TB, e *Engine, database, measurement string) map[string]string {
	t.Helper()
	q := Query{Database: database, Measurement: measurement, Selection: everything()}
	source, err := e.Scan(context.Background(), q)
	if errors.Is(err, ErrDatabaseNotFound) || errors.Is(err, ErrMeasurementNotFound) {
		return map[string]string{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return drainSource(t, source)
}

func mustDrop(t testing.TB, e *Engine, database, measurement string) {
	t.Helper()
	if err := e.DropMeasurement(context.Background(), database, measurement); err != nil {
		t.Fatal(err)
	}
}

func mustDropDatabase(t testing.TB, e *Engine, database string) {
	t.Helper()
	if err := e.DropDatabase(context.Background(), database); err != nil {
		t.Fatal(err)
	}
}

func mustPutIn(t testing.TB, e *Engine, database string, points ...testPoint) {
	t.Helper()
	if err := put(e, database, points...); err != nil {
		t.Fatal(err)
	}
}

// named returns a point of any measurement with one field of any kind.
func named(measurement, series string, time int64, value any) testPoint {
	tags, fields := map[string]string{"s": series}, map[string]any{"v": value}
	return testPoint{Measurement: measurement, Tags: tags, Fields: fields, Time: time}
}

func pauseCompaction(t testing.TB, e *Engine, paused bool) {
	t.Helper()
	if err := e.SetCompaction(nil, &paused); err != nil {
		t.Fatal(err)
	}
	e.tier.compactor.Poke()
}

// everywhere puts rows of m, and of the measurement that stays, into level 1, level 0, a frozen memtable whose flush
// fails while fails is armed, and the active memtable.
func everywhere(t *testing.T, e *Engine, fails *failing) (stays map[string]string) {
	t.Helper()
	stays = map[string]string{}
	write := func(from int64) {
		for n := from; n < from+10; n++ {
			series := fmt.Sprintf("s%d", n%4)
			mustPut(t, e, named("m", series, n, n), named("stays", series, n, n))
			stays[rowKey(series, n)] = fmt.Sprintf("v=%d", n)
		}
	}
	write(0)
	seal(t, e)
	drained := func() bool { e.tier.compactor.Poke(); return e.store.L0Bytes() == 0 }
	eventually(t, "rows are in level 1", drained)
	pauseCompaction(t, e, true)
	write(100)
	seal(t, e)
	fails.arm("sync", "l0/")
	write(200)
	if _, err := e.ForceSeal(context.Background()); err != nil {
		t.Fatal(err)
	}
	write(300)
	return stays
}

// D1, D2, D5: what was written before a drop is gone from every tier at once and stays gone, through flush, compaction,
// crash and replay; points of other types, written afterwards, live.
func TestADropTakesWhatWasWrittenBefore(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprintf("whole=%v", whole), func(t *testing.T) {
			disk, fails, o := memory.New(), &failing{}, testOptions("data")
			o.FS = vfs.Inject(disk, fails.hook)
			e := start(t, o)
			stays := everywhere(t, e, fails)
			if whole {
				mustDropDatabase(t, e, "db")
				clear(stays)
			} else {
				mustDrop(t, e, "db", "m")
			}
			later := map[string]string{}
			check := func(when string, e *Engine) {
				t.Helper()
				if diff := cmp.Diff(later, rowsOf(t, e, "m")); diff != "" {
					t.Errorf("%s, m:\n%s", when, diff)
				}
				if diff := cmp.Diff(stays, rowsOf(t, e, "stays")); diff != "" {
					t.Errorf("%s, the other measurement:\n%s", when, diff)
				}
			}
			check("at once", e)
			if names, _ := e.Measurements("db"); slices.Contains(names, "m") {
				t.Errorf("measurements are %v", names)
			}
			for seed := range uint64(5) {
				check("after a crash", start(t, crashed(o, disk, seed)))
			}
			for n := range int64(10) {
				series := fmt.Sprintf("s%d", n%4)
				mustPut(t, e, named("m", series, n*50, fmt.Sprint(n))) // of another type
				later[rowKey(series, n*50)] = fmt.Sprintf("v=\"%d\"", n)
			}
			check("after new writes", e)
			for seed := range uint64(5) {
				check("after new writes and a crash", start(t, crashed(o, disk, seed)))
			}
			fails.disarm()
			seal(t, e)
			check("after a flush", e)
			pauseCompaction(t, e, false)
			eventually(t, "level 0 is empty", func() bool { e.tier.compactor.Poke(); return e.store.L0Bytes() == 0 })
			check("after compaction", e)
			if status := e.Status(); status.Drain.Failures != 0 {
				t.Errorf("compaction failed: %s", status.Drain.LastError)
			}
			after := crashed(o, disk, 9)
			shutdown(t, e)
			check("after a crash at the end", start(t, after))
			again := start(t, o)
			check("after a clean stop", again)
			if got := again.Status().Recovery.FramesReplayed; got != 0 {
				t.Errorf("%d frames were replayed after a clean stop", got)
			}
		})
	}
}

// lowDisk says, while it is full, that there is no room for an edit of the manifest.
type lowDisk struct {
	vfs.FS
	full atomic.Bool
}

func (l *lowDisk) FreeBytes(name string) (int64, error) {
	if l.full.Load() && strings.Contains(name, "manifest") {
		return 0, nil
	}
	return l.FS.FreeBytes(name)
}

// D3: until the drop is in the manifest, no floor passes it and nothing later is registered; a failed edit is tried
// again, and no read sees the rows meanwhile.
func TestADropIsSettledBeforeWhatComesLater(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	low := &lowDisk{FS: disk}
	o.FS = low
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	seal(t, e)
	low.full.Store(true)
	mustDrop(t, e, "db", "m")
	if got := rowsOf(t, e, "m"); len(got) != 0 {
		t.Errorf("%d rows while the drop is not in the manifest", len(got))
	}
	if len(e.store.Drops()) != 0 {
		t.Fatal("the edit went through")
	}
	mustPut(t, e, named("m", "a", 1, "text"))
	floors := e.floorsWithout(nil, nil)
	if drops := e.durableDrops(); len(drops) != 1 || slices.Max(floors) >= drops[0].sequence {
		t.Errorf("floors are %v, unsettled is %v", floors, drops)
	}
	if _, err := e.ForceSeal(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{rowKey("a", 1): `v="text"`}
	if diff := cmp.Diff(want, rowsOf(t, e, "m")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, rowsOf(t, start(t, crashed(o, disk, 1)), "m")); diff != "" {
		t.Errorf("after a crash:\n%s", diff)
	}
	low.full.Store(false)
	eventually(t, "the drop is settled", func() bool { return len(e.durableDrops()) == 0 })
	eventually(t, "the rows are flushed", func() bool { return e.Status().Shards[0].Frozen+e.Status().Shards[1].Frozen == 0 })
	if diff := cmp.Diff(want, rowsOf(t, e, "m")); diff != "" {
		t.Error(diff)
	}
}

// A drop leaves the tier as a merge does: ledger and pages are released, views that are read finish undisturbed.
func TestADropReleasesTheTier(t *testing.T) {
	o := testOptions("data")
	o.FS = memory.New()
	e := start(t, o)
	pauseCompaction(t, e, true)
	for n := range int64(500) {
		mustPut(t, e, at(fmt.Sprintf("s%d", n%7), n, n))
	}
	seal(t, e)
	mustPut(t, e, at("s1", 1000, 1))
	before := e.Status()
	if before.Tier.RegisteredBytes == 0 || before.Cache.Pages == 0 {
		t.Fatalf("the tier is empty: %+v", before.Tier)
	}
	source, err := e.Scan(context.Background(), Query{Database: "db", Measurement: "m", Selection: everything()})
	if err != nil {
		t.Fatal(err)
	}
	mustDrop(t, e, "db", "m")
	after := e.Status()
	if after.Tier.RegisteredBytes != 0 || after.Tier.ReservedBytes != 0 || after.Tier.Segments != 0 || after.Cache.Pages != 0 {
		t.Errorf("after the drop: %+v %+v", after.Tier, after.Cache)
	}
	if after.Cache.Evictions != 0 {
		t.Errorf("%d pages were evicted", after.Cache.Evictions)
	}
	for i, s := range after.Shards {
		if s.ActiveRows != 0 || s.OldestUnflushed != 0 || s.ActiveBytes != 0 {
			t.Errorf("shard %d after the drop: %+v", i, s)
		}
	}
	columns := []segment.ColumnDef{{Name: "s", Kind: segment.KindTag}, {Name: "v", Kind: segment.KindInt}}
	if diff := cmp.Diff(columns, source.Columns); diff != "" {
		t.Errorf("columns of the scan from before:\n%s", diff)
	}
	if got := len(drainSource(t, source)); got != 501 {
		t.Errorf("the scan from before the drop has %d rows, want 501", got)
	}
	entries, err := o.FS.ReadDir("data/l0")
	if err != nil || len(entries) != 0 {
		t.Errorf("%d files in level 0, error %v", len(entries), err)
	}
}

// A drop needs no room in the tier, and makes room for those who wait.
func TestADropIsNotGated(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	e, _ := startGated(t, o)
	_, refused := fillUntilRefused(t, e, "a")
	if refused.Cause != CauseL0Full {
		t.Fatalf("refused for %s", refused.Cause)
	}
	mustDrop(t, e, "db", "m")
	if taken, _ := fillUntilRefused(t, e, "b"); taken < 10 {
		t.Errorf("%d writes fit after the drop, while the gate is still shut", taken)
	}
}

// D6: a memtable that a drop has emptied pins no log.
func TestAnEmptiedMemtablePinsNothing(t *testing.T) {
	o := testOptions("data")
	o.FS = memory.New()
	o.WAL = WALOptions{FileBytes: 16 << 10, MaxBytes: 1 << 20}
	e := start(t, o)
	for n := range int64(300) {
		p := at("a", n, n)
		p.Fields["text"] = strings.Repeat("x", 200)
		mustPut(t, e, p)
	}
	if e.log.Stats().Files < 3 {
		t.Fatalf("the log has %d files", e.log.Stats().Files)
	}
	mustDrop(t, e, "db", "m")
	eventually(t, "the log is trimmed", func() bool { return e.log.Stats().Files <= logFilesMin })
	for i, s := range e.allShards() {
		if !s.IsIdle() {
			t.Errorf("shard %d is not idle", i)
		}
	}
	if len(e.store.Drops()) != 0 || e.schema.tombstones.of(tableKey{"db", "m"}) != 0 {
		t.Error("the drop is still remembered though all floors have passed it")
	}
}

// D1: a batch that was parsed before a drop is parsed again.
func TestABatchFromBeforeADropIsParsedAgain(t *testing.T) {
	e := start(t, testOptions(t.TempDir()))
	mustPut(t, e, at("a", 1, 1))
	old := at("a", 2, 2)
	b := e.NewBatch("db")
	defer b.Release()
	mustAppend(b, old.point())
	mustDrop(t, e, "db", "m")
	mustPut(t, e, named("m", "a", 1, 1.5))
	if err := e.Write(context.Background(), b, encodeFrame("db", []testPoint{old})); !errors.Is(err, ErrSchemaChanged) {
		t.Errorf("got %v, want ErrSchemaChanged", err)
	}
	var conflict *PointError
	if err := put(e, "db", old); !errors.As(err, &conflict) {
		t.Errorf("parsed again: got %v, want a type conflict", err)
	}
}

// gateOn returns a file system on which calls that match wait, from the moment in which held is set.
func gateOn(fs vfs.FS, match func(vfs.Op) bool) (gated vfs.FS, held *atomic.Bool, entered, release chan struct{}) {
	held, entered, release = new(atomic.Bool), make(chan struct{}, 100), make(chan struct{})
	return vfs.Inject(fs, func(op vfs.Op) error {
		if held.Load() && match(op) {
			entered <- struct{}{}
			<-release
		}
		return nil
	}), held, entered, release
}

// Rows of a write that was committed before a drop and is applied after it are left out, and what they had reserved is
// given back.
func TestAWriteUnderADropIsLeftOut(t *testing.T) {
	o := testOptions("data")
	o.Shards = 1
	var held *atomic.Bool
	var entered, release chan struct{}
	o.FS, held, entered, release = gateOn(memory.New(), func(op vfs.Op) bool {
		return op.Name == "sync" && strings.Contains(op.Path, "wal/0") // of a group, not of the spare
	})
	e := start(t, o)
	mustPut(t, e, at("a", 0, 0))
	held.Store(true)
	written, dropped := make(chan error, 1), make(chan error, 1)
	go func() { written <- put(e, "db", at("a", 1, 1), named("stays", "a", 1, int64(1))) }()
	<-entered // the write is committed and not durable yet
	go func() { dropped <- e.DropMeasurement(context.Background(), "db", "m") }()
	eventually(t, "the drop is committed", func() bool { return e.schema.drops.Load() == 1 })
	if got := rowsOf(t, e, "m"); len(got) != 0 {
		t.Errorf("rows of before the drop: %v", got)
	}
	close(release)
	if err := errors.Join(<-written, <-dropped); err != nil {
		t.Fatal(err)
	}
	if got := rowsOf(t, e, "m"); len(got) != 0 {
		t.Errorf("rows of before the drop: %v", got)
	}
	if diff := cmp.Diff(map[string]string{rowKey("a", 1): "v=1"}, rowsOf(t, e, "stays")); diff != "" {
		t.Error(diff)
	}
	if got := e.Status().Shards[0].ActiveRows; got != 1 {
		t.Errorf("%d active rows, want 1", got)
	}
}

// D4: a flush that was writing dropped rows is tried again without them, which is no failure.
func TestAFlushUnderADropIsTriedAgain(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	o.Shards = 1
	var held *atomic.Bool
	var entered, release chan struct{}
	o.FS, held, entered, release = gateOn(disk, func(op vfs.Op) bool {
		return op.Name == "syncdir" && strings.HasSuffix(op.Path, "l0")
	})
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1), named("stays", "a", 1, int64(1)))
	held.Store(true)
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	<-entered // both files are written
	held.Store(false)
	mustDrop(t, e, "db", "m")
	close(release)
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	if err := fence.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if got := e.Status(); got.Tier.Segments+got.Drain.L1Segments != 1 || got.Shards[0].FlushFailures != 0 {
		t.Errorf("%d segments and %d failures, want one and none", got.Tier.Segments, got.Shards[0].FlushFailures)
	}
	if got := rowsOf(t, e, "m"); len(got) != 0 {
		t.Errorf("rows %v", got)
	}
	if got := len(rowsOf(t, e, "stays")); got != 1 {
		t.Errorf("%d rows of the other measurement, want 1", got)
	}
	eventually(t, "only one file is there", func() bool { return countFiles(disk, "data/l0")+countFiles(disk, "data/l1") == 1 })
}

func countFiles(disk *memory.FS, dir string) int {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return 0
	}
	files := 0
	for _, entry := range entries {
		if entry.IsDir() {
			files += countFiles(disk, dir+"/"+entry.Name())
		} else {
			files++
		}
	}
	return files
}

// A drop concerns the retention policies of a database too, and nobody else.
func TestADropConcernsThePoliciesOfItsDatabase(t *testing.T) {
	all := []string{"db", "db/week", "dbx", "other"}
	for _, tc := range []struct {
		name  string
		drop  func(e *Engine)
		left  []string // databases in which m is left
		known []string
	}{
		{"measurement", func(e *Engine) { mustDrop(t, e, "db", "m") }, []string{"dbx", "other"}, all},
		{"measurement of a policy", func(e *Engine) { mustDrop(t, e, "db/week", "m") }, []string{"db", "dbx", "other"}, all},
		{"unknown measurement", func(e *Engine) { mustDrop(t, e, "db", "none") }, all, all},
		{"database", func(e *Engine) { mustDropDatabase(t, e, "db") }, []string{"dbx", "other"}, []string{"dbx", "other"}},
		{"policy", func(e *Engine) { mustDropDatabase(t, e, "db/week") },
			[]string{"db", "dbx", "other"}, []string{"db", "dbx", "other"}},
		{"unknown database", func(e *Engine) { mustDropDatabase(t, e, "no") }, all, all},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := testOptions(t.TempDir())
			e := start(t, o)
			for _, database := range all {
				mustPutIn(t, e, database, at("a", 1, 1))
			}
			tc.drop(e)
			for range 2 {
				var left []string
				for _, database := range all {
					if len(rowsIn(t, e, database, "m")) > 0 {
						left = append(left, database)
					}
				}
				if diff := cmp.Diff(tc.left, left); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(tc.known, e.Databases()); diff != "" {
					t.Errorf("databases:\n%s", diff)
				}
				shutdown(t, e)
				e = start(t, o)
			}
		})
	}
}

func TestADropOfWhatIsUnknown(t *testing.T) {
	e := start(t, testOptions(t.TempDir()))
	before := e.log.LastSequence()
	if err := e.DropMeasurement(context.Background(), "no", "m"); !errors.Is(err, ErrDatabaseNotFound) {
		t.Errorf("got %v, want ErrDatabaseNotFound", err)
	}
	mustDropDatabase(t, e, "no")
	if got := e.log.LastSequence(); got != before {
		t.Errorf("a drop of nothing wrote frame %d", got)
	}
}

// D7: a database that is created after it was dropped stays, also when the drop could not be recorded at once.
func TestADatabaseCreatedAfterItsDropStays(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full=%v", full), func(t *testing.T) {
			disk, o := memory.New(), testOptions("data")
			low := &lowDisk{FS: disk}
			o.FS = low
			e := start(t, o)
			mustPut(t, e, at("a", 1, 1))
			if err := e.CreateDatabase(context.Background(), "db"); err != nil {
				t.Fatal(err)
			}
			low.full.Store(full)
			mustDropDatabase(t, e, "db")
			if err := e.CreateDatabase(context.Background(), "db"); full != (err != nil) {
				t.Fatalf("got %v", err)
			}
			low.full.Store(false)
			if err := e.CreateDatabase(context.Background(), "db"); err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(4) {
				again := start(t, crashed(o, disk, seed))
				if diff := cmp.Diff([]string{"db"}, again.Databases()); diff != "" {
					t.Error(diff)
				}
				if got := rowsOf(t, again, "m"); len(got) != 0 {
					t.Errorf("rows of before the drop: %v", got)
				}
			}
		})
	}
}

// A disk that is low on space is no reason to refuse a drop; a drain is.
func TestADropWhileWritesAreRefused(t *testing.T) {
	o := testOptions(t.TempDir())
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	shutdown(t, e)
	o.DiskReserveBytes = 1 << 62
	e = start(t, o)
	mustDrop(t, e, "db", "m")
	if got := rowsOf(t, e, "m"); len(got) != 0 {
		t.Errorf("rows %v", got)
	}
	e.Drain()
	var refused *BackpressureError
	for _, err := range []error{
		e.DropMeasurement(context.Background(), "db", "m"), e.DropDatabase(context.Background(), "db"),
	} {
		if !errors.As(err, &refused) || refused.Cause != CauseDraining {
			t.Errorf("got %v, want draining", err)
		}
	}
}

// A drop whose frame could not be made durable has an unknown outcome; nothing of it gets into the manifest.
func TestADropWithAnUnknownOutcome(t *testing.T) {
	disk, fails, o := memory.New(), &failing{}, testOptions("data")
	o.FS = vfs.Inject(disk, fails.hook)
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	seal(t, e)
	fails.arm("writeat", "wal/")
	var refused *BackpressureError
	err := e.DropMeasurement(context.Background(), "db", "m")
	if !errors.As(err, &refused) || refused.Cause != CauseOutcomeUnknown {
		t.Fatalf("got %v, want outcome_unknown", err)
	}
	fails.disarm()
	stopAfterFailure(t, e)
	o.FS = disk
	again := start(t, o)
	if diff := cmp.Diff(map[string]string{rowKey("a", 1): "v=1"}, rowsOf(t, again, "m")); diff != "" {
		t.Errorf("the frame was not written, so nothing was dropped:\n%s", diff)
	}
}

// The edit of a drop has an unknown outcome: read-only, but the drop is durable by its frame.
func TestADropWhoseEditHasAnUnknownOutcome(t *testing.T) {
	disk, fails, o := memory.New(), &failing{}, testOptions("data")
	o.FS = vfs.Inject(disk, fails.hook)
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	seal(t, e)
	fails.arm("sync", "manifest/")
	mustDrop(t, e, "db", "m")
	if e.FailedReadOnly() == nil {
		t.Error("the engine takes writes")
	}
	if got := rowsOf(t, e, "m"); len(got) != 0 {
		t.Errorf("rows %v", got)
	}
	fails.disarm()
	after := crashed(o, disk, 3)
	stopAfterFailure(t, e)
	for _, fs := range []vfs.FS{disk, after.FS} {
		o.FS = fs
		again := start(t, o)
		if got := rowsOf(t, again, "m"); len(got) != 0 {
			t.Errorf("after a restart: rows %v", got)
		}
	}
}
