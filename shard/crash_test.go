package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// stormRounds is how many random moments each test of this file tries. One round takes some ten milliseconds.
const stormRounds = 25

// storm is a load of concurrent writers, with seals and compactions, whose acknowledged points are remembered. Each
// writer writes batches of points of as many series, so that they go to several shards.
type storm struct {
	mu           sync.Mutex
	acknowledged map[string]bool // row keys
}

const (
	stormWriters = 4
	stormBatches = 40
	stormSeries  = 3
)

func stormPoints(writer, batch int) []testPoint {
	points := make([]testPoint, stormSeries)
	for i := range points {
		points[i] = at(fmt.Sprintf("w%d-%d", writer, i), int64(batch), int64(batch))
	}
	return points
}

// run writes until all is written, or the engine takes no more.
func (s *storm) run(e *Engine) {
	var group sync.WaitGroup
	for writer := range stormWriters {
		group.Go(func() {
			for batch := range stormBatches {
				if !s.write(e, stormPoints(writer, batch)) {
					return
				}
				if batch%17 == 0 {
					_, _ = e.ForceSeal(context.Background())
				}
				if batch%23 == 0 {
					e.tier.compactor.Poke()
				}
			}
		})
	}
	group.Wait()
}

// write returns false when the engine will take no write any more.
func (s *storm) write(e *Engine, points []testPoint) bool {
	for e.FailedReadOnly() == nil {
		if put(e, "db", points...) != nil {
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range points {
			s.acknowledged[rowKey(points[i].Tags["s"], points[i].Time)] = true
		}
		return true
	}
	return false
}

// now returns what is acknowledged at the moment.
func (s *storm) now() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.acknowledged)
}

func stormOptions(fs vfs.FS, random *rand.Rand) Options {
	o := testOptions("data")
	o.FS, o.Shards = fs, 1+random.IntN(3)
	o.Memtable.MaxBytes, o.Memtable.MaxRows = 64<<10, int64(20+random.IntN(200))
	o.Tier.CapacityBytes = 512 << 10
	o.WAL = WALOptions{FileBytes: 8 << 10, MaxBytes: 128 << 10}
	return o
}

// checkRows checks that every acknowledged point is there, that of every batch all points are or none, and that below
// the merge no point is stored twice.
func (s *storm) checkRows(t *testing.T, e *Engine, acknowledged map[string]bool) {
	t.Helper()
	rows := rowsOf(t, e, "m")
	for key := range acknowledged {
		if _, ok := rows[key]; !ok {
			t.Fatalf("the acknowledged point %q is lost", key)
		}
	}
	for writer := range stormWriters {
		for batch := range stormBatches {
			found := 0
			for _, p := range stormPoints(writer, batch) {
				if _, ok := rows[rowKey(p.Tags["s"], p.Time)]; ok {
					found++
				}
			}
			if found != 0 && found != stormSeries {
				t.Fatalf("of batch %d of writer %d there are %d points of %d", batch, writer, found, stormSeries)
			}
		}
	}
	if stored := storedRows(t, e); stored != int64(len(rows)) {
		t.Fatalf("%d points are stored as %d rows", len(rows), stored)
	}
}

// storedRows counts rows as they are stored, before any merge, and checks that the memtables count the same. Nothing
// may be written meanwhile.
func storedRows(t *testing.T, e *Engine) int64 {
	t.Helper()
	rows := int64(0)
	view := e.store.Acquire(func() {
		for _, s := range e.allShards() {
			for _, m := range s.memtables() {
				inTables := int64(0)
				for _, table := range m.tables {
					inTables += int64(table.times.length)
				}
				if m.applied.rows != inTables || m.pending != (usage{}) {
					t.Errorf("a memtable of %d rows counts %+v, and %+v as pending", inTables, m.applied, m.pending)
				}
				rows += inTables
			}
		}
	})
	defer view.Release()
	view.Each(func(s *segment.Segment) { rows += s.Meta().Rows })
	return rows
}

// moment counts calls to the file system and does something at those in a range.
type moment struct {
	mu       sync.Mutex
	calls    int
	from, to int // in calls
	do       func(op vfs.Op) error
}

func (m *moment) hook(op vfs.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.calls < m.from || m.calls >= m.to || slices.Contains([]string{"close", "freebytes"}, op.Name) {
		return nil
	}
	return m.do(op)
}

// I1: what was acknowledged is there after a power cut before any call to the file system, and after one in the
// recovery from it, and so on; every other request is there whole or not at all.
func TestNoCrashLosesAnAcknowledgedPoint(t *testing.T) {
	for seed := range uint64(stormRounds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 9))
			load, disk := &storm{acknowledged: map[string]bool{}}, memory.New()
			var after *memory.FS
			var acknowledged map[string]bool
			cut := &moment{from: 20 + random.IntN(700)}
			cut.to = cut.from + 1
			cut.do = func(vfs.Op) error {
				acknowledged = load.now()
				after = disk.CrashClone(random)
				return nil
			}
			e := start(t, stormOptions(vfs.Inject(disk, cut.hook), random))
			load.run(e)
			shutdown(t, e)
			for after != nil {
				found := after
				after = nil
				again := &moment{from: 1 + random.IntN(400)}
				again.to = again.from + 1
				again.do = func(vfs.Op) error {
					after = found.CrashClone(random)
					return nil
				}
				e := start(t, stormOptions(vfs.Inject(found, again.hook), random))
				load.checkRows(t, e, acknowledged)
				shutdown(t, e)
			}
		})
	}
}

// Whatever call to the file system fails, nothing acknowledged is lost, the stop does not hang, and the next start
// works.
func TestNoFailedCallLosesAnAcknowledgedPoint(t *testing.T) {
	for seed := range uint64(stormRounds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 10))
			load, disk := &storm{acknowledged: map[string]bool{}}, memory.New()
			failures := &moment{from: 30 + random.IntN(600), do: func(vfs.Op) error { return errors.New("injected failure") }}
			failures.to = failures.from + 1 + random.IntN(3)
			o := stormOptions(vfs.Inject(disk, failures.hook), random)
			e, err := Open(o)
			if err == nil {
				if e.Recover(context.Background()) == nil {
					load.run(e)
				}
				stopAfterFailure(t, e)
			}
			o.FS = disk
			if random.IntN(2) == 0 {
				o.FS = disk.CrashClone(random)
			}
			o.Admission.MaxWait = hangs // a write may need a seal
			again := start(t, o)
			load.checkRows(t, again, load.now())
			if err := put(again, "db", at("later", 1, 1)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A recovery that fails, or is told to stop, changes nothing that the next one needs.
func TestARecoveryThatEndsEarlyLosesNothing(t *testing.T) {
	for seed := range uint64(stormRounds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 11))
			load, disk := &storm{acknowledged: map[string]bool{}}, memory.New()
			e := start(t, stormOptions(disk, random))
			load.run(e)
			after := disk.CrashClone(random)
			shutdown(t, e)
			for range 4 {
				ctx, cancel := context.WithCancel(context.Background())
				end := &moment{from: random.IntN(250), do: func(vfs.Op) error { return errors.New("injected failure") }}
				end.to = end.from + 3
				if random.IntN(2) == 0 {
					end.do = func(vfs.Op) error { cancel(); return nil }
				}
				if e, err := Open(stormOptions(vfs.Inject(after, end.hook), random)); err == nil {
					_ = e.Recover(ctx)
					stopAfterFailure(t, e)
				}
				cancel()
				after = after.CrashClone(random)
			}
			load.checkRows(t, start(t, stormOptions(after, random)), load.now())
		})
	}
}

// stopAfterFailure drains and closes as the server does. The errors are those of the failures.
func stopAfterFailure(t *testing.T, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	e.Drain()
	_ = e.Shutdown(ctx)
	if ctx.Err() != nil {
		t.Error("the stop took its whole time")
	}
}

// A drain does not make the engine forget that the log failed: the memtable that has the place of a failed frame is not
// registered. Its segment would have a sequence that the log may not have, and no later start would accept that.
func TestAStopAfterAFailedFrameRegistersNothing(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	fails := &failing{}
	o.FS, o.Shards = vfs.Inject(disk, fails.hook), 1
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	fails.arm("writeat", "wal/")
	var refused *BackpressureError
	if err := put(e, "db", at("a", 2, 2)); !errors.As(err, &refused) || refused.Cause != CauseOutcomeUnknown {
		t.Fatalf("got %v, want outcome_unknown", err)
	}
	fails.disarm()
	stopAfterFailure(t, e)
	if got := e.store.L0Bytes(); got != 0 {
		t.Errorf("the stop registered %d bytes", got)
	}
	o.FS = disk
	again := start(t, o)
	if rows := rowsOf(t, again, "m"); len(rows) != 1 || rows[rowKey("a", 1)] != "v=1" {
		t.Errorf("after the restart: %v", rows)
	}
	mustPut(t, again, at("a", 3, 3))
}
