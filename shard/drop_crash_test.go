package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// dropStorm is a load of concurrent writers beside seals, compactions and drops. Each point is written once, and
// writers change the type of their field whenever a drop lets them. What is known of points and drops tells which
// points must be there, which must not, and which may.
type dropStorm struct {
	mu     sync.Mutex
	begun  [dropMeasurements]int // drops of each measurement
	done   [dropMeasurements]int // of those, answered
	points map[dropPoint]dropSpan
}

type dropPoint struct {
	measurement int
	series      string
	time        int64
}

// dropSpan is between which drops a point was written: begun when it was acknowledged, done when it was sent.
type dropSpan struct{ begun, done int }

const (
	dropMeasurements = 3
	dropWriters      = 4
	dropBatches      = 40
)

func dropName(measurement int) string { return fmt.Sprintf("m%d", measurement) }

// state is a copy of the storm at a moment.
func (s *dropStorm) state() *dropStorm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &dropStorm{begun: s.begun, done: s.done, points: maps.Clone(s.points)}
}

// run writes and drops until all is written, or the engine takes no more.
func (s *dropStorm) run(e *Engine, seed uint64) {
	var group sync.WaitGroup
	var writing atomic.Int64
	writing.Store(dropWriters)
	for writer := range dropWriters {
		group.Go(func() {
			defer writing.Add(-1)
			random := rand.New(rand.NewPCG(seed, uint64(writer)))
			for batch := range dropBatches {
				if !s.write(e, random, writer, batch) {
					return
				}
				switch random.IntN(40) {
				case 0, 1:
					_, _ = e.ForceSeal(context.Background())
				case 2, 3:
					e.tier.compactor.Poke()
				}
			}
		})
	}
	group.Go(func() {
		random := rand.New(rand.NewPCG(seed, 99))
		for writing.Load() > 0 && e.FailedReadOnly() == nil {
			s.drop(e, random)
		}
	})
	group.Wait()
}

// write sends a point to each of some measurements, as a type that they have now.
func (s *dropStorm) write(e *Engine, random *rand.Rand, writer, batch int) bool {
	measurement := random.IntN(dropMeasurements)
	p := dropPoint{measurement, fmt.Sprintf("w%d-%d", writer, random.IntN(3)), int64(batch)}
	kinds := []any{int64(1), 1.5, "text", true}
	for e.FailedReadOnly() == nil {
		before := s.state()
		err := put(e, "db", named(dropName(measurement), p.series, p.time, kinds[random.IntN(len(kinds))]))
		if err != nil {
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.points[p] = dropSpan{begun: s.begun[measurement], done: before.done[measurement]}
		return true
	}
	return false
}

// drop drops one measurement, or now and then all of them.
func (s *dropStorm) drop(e *Engine, random *rand.Rand) {
	concerned := []int{random.IntN(dropMeasurements)}
	if random.IntN(5) == 0 {
		concerned = []int{0, 1, 2}
	}
	s.mu.Lock()
	for _, m := range concerned {
		s.begun[m]++
	}
	s.mu.Unlock()
	var err error
	if len(concerned) == 1 {
		err = e.DropMeasurement(context.Background(), "db", dropName(concerned[0]))
	} else {
		err = e.DropDatabase(context.Background(), "db")
	}
	if err != nil && !errors.Is(err, ErrDatabaseNotFound) {
		return // it may have happened or not
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range concerned {
		s.done[m]++
	}
}

// check compares the engine with what was known before and after the moment that it shows.
func (s *dropStorm) check(t *testing.T, e *Engine, after *dropStorm) {
	t.Helper()
	for measurement := range dropMeasurements {
		rows := rowsOf(t, e, dropName(measurement))
		for p, span := range s.points {
			if p.measurement != measurement {
				continue
			}
			_, found := rows[rowKey(p.series, p.time)]
			switch {
			case !found && after.begun[measurement] == span.done:
				t.Fatalf("%+v was written after all drops, and is lost", p)
			case found && s.done[measurement] > span.begun:
				t.Fatalf("%+v was acknowledged before a drop, and is there", p)
			}
		}
	}
}

func newDropStorm() *dropStorm { return &dropStorm{points: map[dropPoint]dropSpan{}} }

// D1 to D5, I1: drops among writes of changing types, seals and compactions survive a power cut before any call to the
// file system, and one in the recovery from it, and so on.
func TestNoCrashUndoesADrop(t *testing.T) {
	for seed := range uint64(2 * stormRounds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 19))
			load, disk := newDropStorm(), memory.New()
			var found *memory.FS
			var before, after *dropStorm
			cut := &moment{from: 20 + random.IntN(900)}
			cut.to = cut.from + 1
			cut.do = func(vfs.Op) error {
				before = load.state()
				found = disk.CrashClone(random)
				after = load.state()
				return nil
			}
			e := start(t, stormOptions(vfs.Inject(disk, cut.hook), random))
			load.run(e, seed)
			end := load.state()
			end.check(t, e, end)
			shutdown(t, e)
			again := start(t, stormOptions(disk, random))
			end.check(t, again, end)
			shutdown(t, again)
			for found != nil {
				disk := found
				found = nil
				again := &moment{from: 1 + random.IntN(400)}
				again.to = again.from + 1
				again.do = func(vfs.Op) error {
					found = disk.CrashClone(random)
					return nil
				}
				e := start(t, stormOptions(vfs.Inject(disk, again.hook), random))
				before.check(t, e, after)
				shutdown(t, e)
			}
		})
	}
}

// Whatever call to the file system fails among drops, the next start works and agrees with what was answered.
func TestNoFailedCallUndoesADrop(t *testing.T) {
	for seed := range uint64(2 * stormRounds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 20))
			load, disk := newDropStorm(), memory.New()
			failures := &moment{from: 30 + random.IntN(900), do: func(vfs.Op) error { return errors.New("injected failure") }}
			failures.to = failures.from + 1 + random.IntN(3)
			o := stormOptions(vfs.Inject(disk, failures.hook), random)
			e, err := Open(o)
			if err == nil {
				if e.Recover(context.Background()) == nil {
					load.run(e, seed)
				}
				stopAfterFailure(t, e)
			}
			o.FS = disk
			if random.IntN(2) == 0 {
				o.FS = disk.CrashClone(random)
			}
			o.Admission.MaxWait = hangs // a write may need a seal
			again := start(t, o)
			state := load.state()
			state.check(t, again, state)
			if err := put(again, "db", named("new", "later", 1, int64(1))); err != nil {
				t.Error(err)
			}
		})
	}
}

// D2: scans beside drops and writes of changing types see rows of one type, and none from before a drop that was
// answered.
func TestScansBesideDropsSeeOneSide(t *testing.T) {
	for seed := range uint64(4) {
		load, random := newDropStorm(), rand.New(rand.NewPCG(seed, 21))
		e := start(t, stormOptions(memory.New(), random))
		done := make(chan struct{})
		go func() {
			defer close(done)
			load.run(e, seed)
		}()
		for scanning := true; scanning; {
			select {
			case <-done:
				scanning = false
			default:
			}
			before := load.state()
			m := random.IntN(dropMeasurements)
			rows := rowsOf(t, e, dropName(m))
			after := load.state()
			for p, span := range before.points {
				_, found := rows[rowKey(p.series, p.time)]
				if p.measurement == m && found && before.done[m] > span.begun {
					t.Fatalf("%+v was acknowledged before a drop that was answered, and is read", p)
				}
				if p.measurement == m && !found && after.begun[m] == span.done {
					t.Fatalf("%+v is not read, and no drop began after it", p)
				}
			}
		}
		shutdown(t, e)
	}
}
