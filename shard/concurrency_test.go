package shard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lineweir/internal/vfs"
	"lineweir/segment"
)

// bustleFor is how long everything goes on at once. Without the flag it is a minute where the race detector and the
// invariants look on, else a moment.
var bustleFor = flag.Duration("bustle", 0, "how long TestEverythingAtOnce takes")

func bustleTime() time.Duration {
	switch {
	case *bustleFor > 0:
		return *bustleFor
	case raceEnabled && invariants:
		return time.Minute
	}
	return 3 * time.Second
}

const (
	bustleWriters = 32
	bustleSeries  = 3  // of each writer
	bustleTimes   = 40 // of each series; they are written again and again
)

// bustle is 32 writers, each of points of its own, whose values only grow, so that a stale read is seen.
type bustle struct {
	engine *Engine
	acked  [bustleWriters][bustleSeries][bustleTimes]atomic.Int64 // the value of the last acknowledged write; 0: none

	accepted, refused, scans, seals, looks atomic.Int64
}

func bustleKey(writer, series int) string { return fmt.Sprintf("w%02d-%d", writer, series) }

// write writes a point of each series of a writer until ctx ends.
func (b *bustle) write(ctx context.Context, writer int) error {
	for value := int64(1); ctx.Err() == nil; value++ {
		at := int(value*7) % bustleTimes
		points := make([]testPoint, bustleSeries)
		for s := range points {
			points[s] = testPoint{
				Measurement: "m", Tags: map[string]string{"s": bustleKey(writer, s)}, Time: int64(at),
				Fields: map[string]any{"v": value},
			}
		}
		var full *BackpressureError
		switch err := put(b.engine, "db", points...); {
		case err == nil:
			b.accepted.Add(1)
			for s := range points {
				b.acked[writer][s][at].Store(value)
			}
		case errors.As(err, &full) && slices.Contains([]string{CauseL0Full, CauseFrozenFull, CauseMemory}, full.Cause):
			b.refused.Add(1)
		default:
			return err
		}
	}
	return nil
}

// scan reads everything, and requires of each point that it is not older than what was acknowledged before.
func (b *bustle) scan(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := b.look(context.Background()); err != nil {
			return err
		}
		b.scans.Add(1)
	}
	return nil
}

// look reads everything once.
func (b *bustle) look(ctx context.Context) error {
	var before [bustleWriters][bustleSeries][bustleTimes]int64
	for w := range before {
		for s := range before[w] {
			for at := range before[w][s] {
				before[w][s][at] = b.acked[w][s][at].Load()
			}
		}
	}
	source, err := b.engine.Scan(ctx, Query{Database: "db", Measurement: "m", Selection: everything()})
	if errors.Is(err, ErrDatabaseNotFound) || errors.Is(err, ErrMeasurementNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	found := map[string]map[int64]int64{}
	if err := eachBlock(source, func(block *segment.Block) error { return readBustle(block, found) }); err != nil {
		return err
	}
	for w := range before {
		for s := range before[w] {
			for at, want := range before[w][s] {
				if got := found[bustleKey(w, s)][int64(at)]; got < want {
					return fmt.Errorf("%s at %d: a scan read %d after %d was acknowledged", bustleKey(w, s), at, got, want)
				}
			}
		}
	}
	return nil
}

// readBustle adds the values of a block by series and time. None may come twice.
func readBustle(block *segment.Block, found map[string]map[int64]int64) error {
	row := 0
	for _, run := range block.Runs {
		name := ""
		segment.EachTag(run.Key, func(_, value []byte) { name = string(value) })
		if found[name] == nil {
			found[name] = map[int64]int64{}
		}
		for range run.Rows {
			at := block.Times[row]
			if _, twice := found[name][at]; twice {
				return fmt.Errorf("%s at %d comes twice", name, at)
			}
			found[name][at] = int64(block.Columns[0].Numbers[row])
			row++
		}
	}
	return nil
}

// seal seals and waits, again and again.
func (b *bustle) seal(ctx context.Context) error {
	for ctx.Err() == nil {
		fence, err := b.engine.ForceSeal(ctx)
		if err == nil {
			err = fence.Wait(context.Background())
		}
		if err != nil {
			return err
		}
		b.seals.Add(1)
		_ = sleep(ctx, 20*time.Millisecond)
	}
	return nil
}

// watch reads status, wakes compaction, and looks at the bound from outside.
func (b *bustle) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		tier := b.engine.Status().Tier
		if level := tier.RegisteredBytes + tier.ReservedBytes; tier.ForcedBytes == 0 && level > tier.CapacityBytes {
			return fmt.Errorf("the tier holds %d of %d bytes", level, tier.CapacityBytes)
		}
		b.engine.tier.compactor.Poke()
		b.looks.Add(1)
		_ = sleep(ctx, time.Millisecond)
	}
	return nil
}

// Writers, scanners, seals, compaction and readers of the status, all at once: nothing is stale, nothing comes twice,
// and afterwards everything is there, once, also after a restart.
func TestEverythingAtOnce(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 4
	o.Memtable.MaxBytes = 32 << 10
	o.Tier.CapacityBytes = 1 << 20
	b := &bustle{engine: start(t, o)}
	ctx, cancel := context.WithTimeout(context.Background(), bustleTime())
	defer cancel()
	var group sync.WaitGroup
	run := func(what string, work func(context.Context) error) {
		group.Go(func() {
			if err := work(ctx); err != nil {
				t.Errorf("%s: %v", what, err)
				cancel()
			}
		})
	}
	for writer := range bustleWriters {
		run("writer", func(ctx context.Context) error { return b.write(ctx, writer) })
	}
	for range 3 {
		run("scanner", b.scan)
	}
	run("seals", b.seal)
	run("status", b.watch)
	group.Wait()
	t.Logf("%d writes, %d refused, %d scans, %d seals, %d looks at the status, %d compactions, invariants %t",
		b.accepted.Load(), b.refused.Load(), b.scans.Load(), b.seals.Load(), b.looks.Load(),
		b.engine.Status().Drain.Jobs, invariants)
	if err := b.look(t.Context()); err != nil {
		t.Error(err)
	}
	b.engine.mustCover()
	shutdown(t, b.engine)
	b.engine = start(t, o)
	if err := b.look(t.Context()); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if got := b.engine.Status().Recovery.RowsReplayed; got != 0 {
		t.Errorf("after a clean stop %d rows are replayed", got)
	}
	eventually(t, "the ledger is what the store holds", func() bool { // a merge may come between the two
		return b.engine.Status().Tier.RegisteredBytes == b.engine.store.L0Bytes()
	})
}

// A read of an old value, or of a point twice, is found: so the test above could fail.
func TestTheBustleFindsWhatIsWrong(t *testing.T) {
	b := &bustle{engine: start(t, testOptions(t.TempDir()))}
	p := testPoint{Measurement: "m", Tags: map[string]string{"s": bustleKey(1, 2)}, Fields: map[string]any{"v": int64(5)}, Time: 3}
	mustPut(t, b.engine, p)
	b.acked[1][2][3].Store(5)
	if err := b.look(t.Context()); err != nil {
		t.Errorf("a good engine: %v", err)
	}
	b.acked[1][2][3].Store(6)
	if b.look(t.Context()) == nil {
		t.Error("a stale read is not found")
	}
	twice := &segment.Block{
		Runs: []segment.Run{{Key: []byte("s\x01w\x00\xff"), Rows: 2}}, Times: []int64{1, 1},
		Columns: []segment.Column{{Name: "v", Kind: segment.KindInt, Numbers: []uint64{1, 2}}},
	}
	if readBustle(twice, map[string]map[int64]int64{}) == nil {
		t.Error("a point that comes twice is not found")
	}
}

// The checks that a build with invariants makes find what they are for.
func TestInvariantsFindWhatIsWrong(t *testing.T) {
	for name, violate := range map[string]func(t *testing.T, e *Engine){
		"a sequence in an older generation's range": func(t *testing.T, e *Engine) {
			c := newController(t, vfs.OS, nil)
			insert(t, c, 7, at("a", 1, 1))
			freeze(t, c)
			c.mustFollowLocked(7)
		},
		"a memtable that counts wrong": func(t *testing.T, e *Engine) {
			m := newMemtable(1, 64<<20)
			m.applied.rows = 1
			e.allShards()[0].mustAddUp(m)
		},
		"a floor above what is not flushed": func(t *testing.T, e *Engine) { e.mustStayBelow([]uint64{1 << 40, 1 << 40}) },
		"a ledger that misses a segment": func(t *testing.T, e *Engine) {
			sealAll(t, e)
			size := e.store.L0Bytes()
			e.tier.controller.Retire(size)
			defer e.tier.controller.Register(size)
			e.mustCover()
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, testOptions(t.TempDir()))
			mustPut(t, e, at("a", 1, 1), at("b", 1, 1))
			defer func() {
				if recover() == nil {
					t.Error("not found")
				}
			}()
			violate(t, e)
		})
	}
}
