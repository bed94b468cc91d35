package shard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// failing injects an error into operations on paths that match, while it is armed.
type failing struct {
	mu     sync.Mutex
	op     string
	part   string // of the path
	err    error
	failed int
}

func (f *failing) hook(op vfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || op.Name != f.op || !strings.Contains(filepath.ToSlash(op.Path), f.part) {
		return nil
	}
	f.failed++
	return f.err
}

func (f *failing) arm(op, part string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.op, f.part, f.err = op, part, errors.New("injected failure")
}

func (f *failing) disarm() (failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = nil
	return f.failed
}

func (f *failing) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// I1 and I14: acknowledged points are there after a crash; reopening twice gives the same rows; a clean close replays
// nothing.
func TestAcknowledgedPointsSurviveACrash(t *testing.T) {
	fs := memory.New()
	o := testOptions("data")
	o.FS = fs
	e := start(t, o)
	want := map[string]string{}
	for n := range int64(500) {
		series := fmt.Sprintf("s%d", n%7)
		mustPut(t, e, at(series, n, n))
		want[rowKey(series, n)] = fmt.Sprintf("v=%d", n)
	}
	o = crashed(o, fs, 1)
	for seed := range uint64(2) {
		again := start(t, o)
		if diff := cmp.Diff(want, rowsOf(t, again, "m")); diff != "" {
			t.Fatal(diff)
		}
		if got := again.Status().Recovery.RowsReplayed; got != 500 {
			t.Errorf("%d rows replayed, want 500", got)
		}
		next := crashed(o, o.FS.(*memory.FS), seed)
		shutdown(t, again)
		o = next
	}
	last := start(t, o)
	shutdown(t, last)
	clean := start(t, o)
	if got := clean.Status().Recovery; got.FramesReplayed != 0 || got.RowsReplayed != 0 {
		t.Errorf("after a clean close: %+v, want nothing replayed", got)
	}
	if diff := cmp.Diff(want, rowsOf(t, clean, "m")); diff != "" {
		t.Error(diff)
	}
}

// I4: no floor reaches a sequence that is active, frozen, or between commit and apply.
func TestFloorsStayBelowWhatIsUnflushed(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	fails := &failing{}
	o.FS = vfs.Inject(vfs.OS, fails.hook)
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	mustPut(t, e, at("a", 2, 2))
	s := e.allShards()[0]
	check := func(when string, want uint64) {
		t.Helper()
		if got := e.floorsWithout(nil, nil)[0]; got != want {
			t.Errorf("%s: floor %d, want %d", when, got, want)
		}
	}
	check("active", 0)
	fails.arm("sync", "l0/")
	if _, err := e.ForceSeal(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the flush fails", func() bool { return fails.count() > 0 })
	check("frozen", 0)
	m := s.reserve(usage{rows: 1}, e.sequence+1)
	fails.disarm()
	eventually(t, "the flush succeeds", func() bool { return s.FrozenCount() == 0 })
	check("between commit and apply", 2)
	if got := e.store.Floors()[0]; got > 2 {
		t.Errorf("persisted floor is %d, want at most 2", got)
	}
	s.cancel(m, usage{rows: 1})
}

// I5: flush N fails while N+1 would succeed; after a crash nothing is lost and nothing is double.
func TestAFlushThatFailsLosesNothing(t *testing.T) {
	o := testOptions("data")
	o.Shards = 1
	fails, disk := &failing{}, memory.New()
	o.FS = vfs.Inject(disk, fails.hook)
	e := start(t, o)
	want := map[string]string{}
	write := func(from, to int64) {
		for n := from; n < to; n++ {
			mustPut(t, e, at("a", n, n))
			want[rowKey("a", n)] = fmt.Sprintf("v=%d", n)
		}
	}
	write(0, 50)
	fails.arm("sync", "l0/")
	if _, err := e.ForceSeal(context.Background()); err != nil {
		t.Fatal(err)
	}
	write(50, 100)
	if _, err := e.ForceSeal(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three failures", func() bool { return e.Status().Shards[0].FlushFailures >= 3 })
	if got := e.Status().Shards[0]; got.Frozen != 2 || got.Floor != 0 || got.LastFlushError == "" {
		t.Errorf("status %+v, want two frozen memtables, floor 0 and the error", got)
	}
	if diff := cmp.Diff(want, rowsOf(t, e, "m")); diff != "" {
		t.Errorf("while the flush fails:\n%s", diff)
	}
	after := crashed(o, disk, 1)
	fails.disarm()
	again := start(t, after)
	if diff := cmp.Diff(want, rowsOf(t, again, "m")); diff != "" {
		t.Errorf("after the crash:\n%s", diff)
	}
	if got := again.Status().Recovery.RowsReplayed; got != 100 {
		t.Errorf("%d rows replayed, want 100", got)
	}
}

// I13: after a failed fsync of the log nothing is acknowledged until a restart, and reads go on.
func TestAfterAFailedFsyncNothingIsAcknowledged(t *testing.T) {
	o := testOptions(t.TempDir())
	fails := &failing{}
	o.FS = vfs.Inject(vfs.OS, fails.hook)
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	fails.arm("sync", "wal/")
	var refused *BackpressureError
	if err := put(e, "db", at("a", 2, 2)); !errors.As(err, &refused) || refused.Cause != CauseOutcomeUnknown {
		t.Fatalf("got %v, want outcome_unknown", err)
	}
	fails.disarm()
	for range 3 {
		if err := put(e, "db", at("a", 3, 3)); !errors.As(err, &refused) || refused.Cause != CauseReadOnly {
			t.Fatalf("got %v, want read_only", err)
		}
	}
	if err := e.Ready(); err == nil {
		t.Error("the engine says that it is ready")
	}
	if diff := cmp.Diff(map[string]string{rowKey("a", 1): "v=1"}, rowsOf(t, e, "m")); diff != "" {
		t.Error(diff)
	}
	if e.FailedReadOnly() == nil {
		t.Error("the failure is not reported")
	}
	shutdown(t, e)
	o.FS = vfs.OS
	again := start(t, o)
	rows := rowsOf(t, again, "m")
	if rows[rowKey("a", 1)] != "v=1" || rows[rowKey("a", 3)] != "" {
		t.Errorf("after the restart: %v", rows)
	}
	mustPut(t, again, at("a", 4, 4))
}

// A drain does not make the engine forget that the log failed: the stop flushes nothing, and a force-seal's fence ends.
func TestADrainAfterAFailureFlushesNothing(t *testing.T) {
	for _, part := range []string{"wal/", "manifest/"} {
		t.Run(part, func(t *testing.T) {
			o := testOptions("data")
			fails, disk := &failing{}, memory.New()
			o.FS = vfs.Inject(disk, fails.hook)
			e := start(t, o)
			mustPut(t, e, at("a", 1, 1))
			fails.arm("sync", part)
			fence, err := e.ForceSeal(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			// The flush itself writes no log; after a failed edit it is the last one.
			if err := fence.Wait(context.Background()); err != nil && !errors.Is(err, ErrPoisoned) {
				t.Errorf("the fence ended with %v", err)
			}
			_ = put(e, "db", at("a", 2, 2))
			eventually(t, "the failure is noticed", func() bool { return e.FailedReadOnly() != nil })
			fails.disarm()
			edits := e.store.MaxSequence()
			e.Drain()
			started := time.Now()
			shutdown(t, e)
			if took := time.Since(started); took > hangs/2 {
				t.Errorf("the stop took %s", took)
			}
			if e.store.MaxSequence() != edits {
				t.Error("the stop registered a segment")
			}
		})
	}
}

// A flush that can't be registered leaves no pages behind, and the next try puts its own into the cache.
func TestAFlushThatIsNotRegisteredLeavesNoPages(t *testing.T) {
	o := testOptions(t.TempDir())
	fails := &failing{}
	o.FS, o.Shards = vfs.Inject(vfs.OS, fails.hook), 1
	e := start(t, o)
	paused := true
	if err := e.SetCompaction(nil, &paused); err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, at("a", 1, 1))
	fails.arm("freebytes", "manifest") // an edit looks for room before it is written
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the flush fails, without pages", func() bool {
		s := e.Status()
		return s.Shards[0].FlushFailures > 0 && s.Cache.Pages == 0
	})
	fails.disarm()
	if err := fence.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got, want := e.Status().Cache.Bytes, e.store.L0Bytes(); got != want {
		t.Errorf("%d bytes of pages for %d bytes of segments", got, want)
	}
}

// A failed fsync of a manifest edit has an unknown outcome: read-only, nothing deleted, and a restart decides.
func TestAFailedManifestSyncTurnsReadOnly(t *testing.T) {
	o := testOptions(t.TempDir())
	fails := &failing{}
	o.FS = vfs.Inject(vfs.OS, fails.hook)
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	fails.arm("sync", "manifest/")
	if _, err := e.ForceSeal(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "read-only", func() bool { return e.FailedReadOnly() != nil })
	fails.disarm()
	var refused *BackpressureError
	if err := put(e, "db", at("a", 2, 2)); !errors.As(err, &refused) || refused.Cause != CauseReadOnly {
		t.Fatalf("got %v, want read_only", err)
	}
	if diff := cmp.Diff(map[string]string{rowKey("a", 1): "v=1"}, rowsOf(t, e, "m")); diff != "" {
		t.Error(diff)
	}
	shutdown(t, e)
	o.FS = vfs.OS
	again := start(t, o)
	if diff := cmp.Diff(map[string]string{rowKey("a", 1): "v=1"}, rowsOf(t, again, "m")); diff != "" {
		t.Error(diff)
	}
}

// I10: force-seal works while the gate is shut, and its fence returns though writes go on.
func TestForceSealWorksWhileTheGateIsShut(t *testing.T) {
	o := testOptions(t.TempDir())
	e, _ := startGated(t, o)
	mustPut(t, e, at("a", 1, 1))
	stop := make(chan struct{})
	var group sync.WaitGroup
	var taken atomic.Int64
	group.Go(func() {
		for n := int64(100); ; n++ {
			select {
			case <-stop:
				return
			default:
				if put(e, "db", at("b", n, n)) == nil {
					taken.Add(1)
				}
			}
		}
	})
	eventually(t, "writes go on", func() bool { return taken.Load() > 10 })
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	if err := fence.Wait(ctx); err != nil {
		t.Error(err)
	}
	close(stop)
	group.Wait()
	if got := int64(len(rowsOf(t, e, "m"))); got != taken.Load()+1 {
		t.Errorf("%d rows, want %d", got, taken.Load()+1)
	}
}

// Scans of L0 are served from the page cache: they succeed while reads of L0 files fail.
func TestScansSucceedFromPages(t *testing.T) {
	o := testOptions(t.TempDir())
	fails := &failing{}
	o.FS = vfs.Inject(vfs.OS, fails.hook)
	e := start(t, o)
	paused := true
	if err := e.SetCompaction(nil, &paused); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for n := range int64(300) {
		mustPut(t, e, at("a", n, n))
		want[rowKey("a", n)] = fmt.Sprintf("v=%d", n)
	}
	seal(t, e)
	fails.arm("readat", "l0/")
	if diff := cmp.Diff(want, rowsOf(t, e, "m")); diff != "" {
		t.Error(diff)
	}
	if e.Status().Cache.Hits == 0 {
		t.Error("no page was hit")
	}
	// The control: without pages the same scan fails.
	view := e.store.Acquire(func() {})
	view.Each(func(s *segment.Segment) { e.tier.cache.Retire(s.Meta().ID, s.Meta().SizeBytes) })
	view.Release()
	source, err := e.Scan(context.Background(), Query{Database: "db", Measurement: "m", Selection: everything()})
	if err == nil {
		err = eachBlock(source, func(*segment.Block) error { return nil })
	}
	if err == nil {
		t.Error("a scan without pages succeeded though reads fail")
	}
}

// seal force-seals and waits for the flushes.
func seal(t testing.TB, e *Engine) {
	t.Helper()
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	if err := fence.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// 64 writers share fsyncs: at most a quarter of the requests. The disk takes so long that all of them come meanwhile.
func TestWritersShareFsyncs(t *testing.T) {
	o := testOptions(t.TempDir())
	var held *atomic.Bool
	var entered, release chan struct{}
	o.FS, held, entered, release = gateOn(vfs.OS, func(op vfs.Op) bool {
		return op.Name == "sync" && strings.Contains(filepath.ToSlash(op.Path), "wal/0")
	})
	e := start(t, o)
	before := e.Status().WAL.Fsyncs
	const writers, rounds = 64, 25
	for round := range int64(rounds) {
		last := e.log.LastSequence()
		held.Store(true)
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				if err := put(e, "db", at(fmt.Sprintf("w%d", w), round, round)); err != nil {
					t.Error(err)
				}
			})
		}
		<-entered
		eventually(t, "all writers have come", func() bool { return e.log.LastSequence() == last+writers })
		held.Store(false)
		release <- struct{}{}
		group.Wait()
	}
	if fsyncs := e.Status().WAL.Fsyncs - before; fsyncs > writers*rounds/4 {
		t.Errorf("%d fsyncs for %d requests, want at most a quarter", fsyncs, writers*rounds)
	}
}

// A refused configuration names every problem.
func TestOpenRefusesAnImpossibleConfiguration(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Memtable.MaxBytes = 8 << 20
	_, err := Open(o)
	if err == nil || !strings.Contains(err.Error(), "does not fit an empty tier") ||
		!strings.Contains(err.Error(), "exceed the soft limit") {
		t.Fatalf("got %v, want both problems", err)
	}
}

// A second engine on the same directory is refused.
func TestASecondEngineIsRefused(t *testing.T) {
	o := testOptions(t.TempDir())
	start(t, o)
	if _, err := Open(o); !errors.Is(err, vfs.ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
}

// The disk runs low: writes are refused with disk_low, and taken again when it has room.
func TestDiskLow(t *testing.T) {
	o := testOptions(t.TempDir())
	o.DiskReserveBytes = 1 << 62
	e := start(t, o)
	var refused *BackpressureError
	if err := put(e, "db", at("a", 1, 1)); !errors.As(err, &refused) || refused.Cause != CauseDiskLow {
		t.Fatalf("got %v, want disk_low", err)
	}
	shutdown(t, e)
	o.DiskReserveBytes = 0
	mustPut(t, start(t, o), at("a", 1, 1))
}

// A database whose first write is not durable yet is not taken for created.
func TestACreatedDatabaseSurvivesACrash(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	var held atomic.Bool
	release, syncs := make(chan struct{}), make(chan struct{}, 100)
	o.FS = vfs.Inject(disk, func(op vfs.Op) error {
		if held.Load() && op.Name == "sync" && strings.Contains(op.Path, "wal/0") { // of a group, not of the spare
			syncs <- struct{}{}
			<-release
		}
		return nil
	})
	e := start(t, o)
	held.Store(true)
	written := make(chan error, 1)
	go func() { written <- put(e, "db", at("a", 1, 1)) }()
	<-syncs
	if err := e.CreateDatabase(context.Background(), "db"); err != nil {
		t.Fatal(err)
	}
	var after []Options
	for seed := range uint64(8) {
		after = append(after, crashed(o, disk, seed))
	}
	held.Store(false)
	close(release)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for _, o := range after {
		if got := start(t, o).Databases(); !slices.Contains(got, "db") {
			t.Errorf("databases after the crash are %v, want db", got)
		}
	}
}

// Another number of shards is adopted without loss.
func TestAnotherNumberOfShardsIsAdopted(t *testing.T) {
	o := testOptions("data")
	o.FS = memory.New()
	e := start(t, o)
	want := map[string]string{}
	for n := range int64(200) {
		series := fmt.Sprintf("s%d", n%11)
		mustPut(t, e, at(series, n, n))
		want[rowKey(series, n)] = fmt.Sprintf("v=%d", n)
	}
	o = crashed(o, o.FS.(*memory.FS), 1)
	for _, shards := range []int{3, 1, 2} {
		o.Shards = shards
		again := start(t, o)
		if got := len(again.Status().Shards); got != shards {
			t.Errorf("%d shards, want %d", got, shards)
		}
		if diff := cmp.Diff(want, rowsOf(t, again, "m")); diff != "" {
			t.Errorf("with %d shards:\n%s", shards, diff)
		}
		mustPut(t, again, at("s1", 1000+int64(shards), 1))
		want[rowKey("s1", 1000+int64(shards))] = "v=1"
		next := crashed(o, o.FS.(*memory.FS), uint64(shards))
		shutdown(t, again)
		o = next
	}
}

// What an older configuration let in may be larger than the tier of today: recovery flushes it, as no seal could.
func TestReplayFlushesWhatNoSealCould(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	o.FS, o.Shards = disk, 1
	points, want := make([]testPoint, 600), map[string]string{}
	for i := range points {
		series := fmt.Sprintf("s%d", i)
		points[i] = at(series, 1, 1)
		want[rowKey(series, 1)] = "v=1"
	}
	mustPut(t, start(t, o), points...)
	small := crashed(o, disk, 1)
	small.Memtable.MaxBytes, small.Tier.CapacityBytes = 16<<10, 64<<10
	again := start(t, small)
	if fill := again.allShards()[0].Fill(); exceeds(fill.active, fill.caps) {
		t.Errorf("%d bytes are active after the replay, the cap is %d", fill.active.bytes(), fill.caps.bytes)
	}
	want[rowKey("new", 1)] = "v=1"
	eventually(t, "a write is taken", func() bool { return put(again, "db", at("new", 1, 1)) == nil })
	if diff := cmp.Diff(want, rowsOf(t, again, "m")); diff != "" {
		t.Error(diff)
	}
}

// A batch that was made while another number of shards was replayed is parsed again.
func TestABatchForOtherShardsIsParsedAgain(t *testing.T) {
	o := testOptions(t.TempDir())
	shutdown(t, start(t, o))
	for _, shards := range []int{1, 3} {
		o.Shards = shards
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		b := e.NewBatch("db")
		for n := range int64(20) {
			p := at(fmt.Sprintf("s%d", n), n, n)
			mustAppend(b, p.point())
		}
		if err := e.Recover(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := e.Admit(b); !errors.Is(err, ErrSchemaChanged) {
			t.Errorf("Admit with %d shards: %v, want ErrSchemaChanged", shards, err)
		}
		if err := e.Write(context.Background(), b, nil); !errors.Is(err, ErrSchemaChanged) {
			t.Errorf("Write with %d shards: %v, want ErrSchemaChanged", shards, err)
		}
		shutdown(t, e)
	}
}

// Between Open and Recover nothing is taken: a write would meet a log that is not replayed yet.
func TestNothingIsTakenBeforeTheReplay(t *testing.T) {
	e, err := Open(testOptions(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer shutdown(t, e)
	if err := e.Ready(); err == nil {
		t.Error("the engine is ready before the replay")
	}
	var refused *BackpressureError
	if err := put(e, "db", at("a", 1, 1)); !errors.As(err, &refused) || refused.Cause != CauseRecovering {
		t.Errorf("a write got %v, want recovering", err)
	}
	if _, err := e.Scan(context.Background(), Query{Database: "db", Measurement: "m"}); err == nil {
		t.Error("a scan was answered before the replay")
	}
}
