package shard

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/segment"
)

// runHeld lives five lives in which the files of the measurement "o" can't be written, and one in which they can.
func (w *work) runHeld() {
	panics := &atomic.Int64{}
	w.wrap = func(fsys vfs.FS) vfs.FS { return panickingOn(fsys, "o", panics) }
	var group sync.WaitGroup
	group.Go(func() {
		panics.Store(always)
		w.life(3, w.heldFirst)
		w.life(3, w.heldSecond)
		w.life(2, w.heldThird) // the number of shards can't change yet
		w.life(3, w.heldFourth)
		panics.Store(0)
		w.life(2, w.heldLast)
	})
	group.Wait()
}

// putHeld writes what may be refused because its measurement is held.
func (w *work) putHeld(e *Engine, series string, times ...int64) {
	if !w.alive.Load() {
		return
	}
	for _, t := range times {
		err := w.record.put(e, w.record.point("o", series, t), w.record.point("o", "shared", t))
		if refused := (*PointError)(nil); !errors.As(err, &refused) {
			w.note(err)
		}
	}
}

// isHeld requires that something is held, if nothing else has gone wrong.
func (w *work) isHeld(e *Engine) {
	if w.alive.Load() && len(w.errs) == 0 && held(e) == 0 && e.FailedReadOnly() == nil {
		w.stands("nothing is held: %+v", e.Status().Shards)
	}
}

// heldFirst holds rows of several memtables, beside others that are flushed and merged, and is killed.
func (w *work) heldFirst(e *Engine) {
	for n := range int64(3) {
		w.put(e, "m", fmt.Sprintf("s%d", n), n, n+day)
		w.putHeld(e, fmt.Sprintf("s%d", n), n, n+5)
	}
	w.seal(e)
	w.isHeld(e)
	w.burst(e)
	w.seal(e)
	w.putHeld(e, "s0", 0)
	w.put(e, "m", "s1", 0, 1)
	w.seal(e)
	w.compact(e)
	w.put(e, "m", "s2", 2)
	w.kill()
}

// heldSecond takes the rows from the log again, adds newer ones of the same points, and holds all of it.
func (w *work) heldSecond(e *Engine) {
	w.putHeld(e, "s0", 0, 1, 7)
	w.put(e, "m", "s1", 3)
	w.seal(e)
	w.isHeld(e)
	w.put(e, "n", "s1", 3)
	w.seal(e)
	w.kill()
}

// heldThird is closed while rows are held.
func (w *work) heldThird(e *Engine) {
	w.put(e, "m", "s1", 4)
	w.seal(e)
	w.isHeld(e)
}

// heldFourth drops what is held, holds later rows, and is killed.
func (w *work) heldFourth(e *Engine) {
	w.put(e, "m", "s1", 5)
	w.drop(e, "o")
	if rows := held(e); rows > 0 && len(w.errs) == 0 {
		w.stands("%d rows are held after the drop", rows)
	}
	w.putHeld(e, "s0", 1, 2)
	w.put(e, "m", "s0", 6)
	w.seal(e)
	w.isHeld(e)
	w.kill()
}

// heldLast writes what was held.
func (w *work) heldLast(e *Engine) {
	w.put(e, "o", "s0", 1)
	w.put(e, "m", "s1", 7)
	w.seal(e)
	w.compact(e)
}

// I1, I5, I9, I12 and I14 while a measurement can't be written: whatever one call does, and if the power goes soon
// after, no held row is lost, and none is stored twice.
func TestEveryCallFailsOnceWhileRowsAreHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := scenario{run: (*work).runHeld, part: true}
		found, err := s.survey()
		if err != nil {
			t.Fatalf("the work on a good disk: %v", err)
		}
		r := newFaultReport()
		plans := found.plans(*faultsLong)
		s.failEach(t, plans, r)
		t.Logf("%d plans, %d of them met no call; failed calls: %v%v", len(plans), r.missed, r.fates, r.calls)
		if r.calls["segment manifest/ sync"] == 0 && !raceEnabled {
			t.Error("no edit with a hold was made to fail")
		}
	})
}

// The same when the power goes before any call that changes something.
func TestACrashAtEveryCallWhileRowsAreHeld(t *testing.T) {
	skipUnderRace(t)
	bubble(t, func(t *testing.T) {
		r := &crashReport{calls: tally{}, shares: map[share]int{}}
		r.crashEach(t, scenario{run: (*work).runHeld, part: true}, func(op vfs.Op, number int) []share {
			if number%2 != 0 && placeOf(op.Path) != "manifest/" && !*faultsLong {
				return nil
			}
			return sharesAt(op, number)
		})
		t.Logf("power cuts before one of %d calls, by what they leave: %v%v", r.changing, r.shares, r.calls)
		if r.calls["segment manifest/ sync"] == 0 {
			t.Error("no power cut before the sync of an edit")
		}
	})
}

// A restart that knows nothing of the holds loses what was held, and one that knows no floor stores rows twice: so the
// test above could fail.
func TestHoldsProtectWhatIsHeld(t *testing.T) {
	forget := func(e *Engine) error {
		for _, s := range e.allShards() {
			edit := segment.Edit{Holds: []segment.ShardHolds{{Shard: s.shard}}}
			if _, err := e.store.Apply(edit, func() {}); err != nil {
				return err
			}
		}
		return nil
	}
	lower := func(e *Engine) error {
		for _, s := range e.allShards() {
			holds := slices.Clone(e.store.Holds(s.shard))
			for i := range holds {
				holds[i].Measurement = "good"
			}
			edit := segment.Edit{Holds: []segment.ShardHolds{{Shard: s.shard, Holds: holds}}}
			if _, err := e.store.Apply(edit, func() {}); err != nil {
				return err
			}
		}
		return nil
	}
	for name, test := range map[string]struct {
		spoil func(*Engine) error
		lost  bool
		twice bool
	}{
		"as it is":           {func(*Engine) error { return nil }, false, false},
		"without its holds":  {forget, true, false},
		"holds of the wrong": {lower, true, true},
	} {
		o, panics := broken(t)
		e := start(t, o)
		for n := range int64(20) {
			mustPut(t, e, of("bad", fmt.Sprint(n), n), of("good", fmt.Sprint(n), n))
		}
		sealAll(t, e)
		shutdown(t, e)
		panics.Store(0)
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(test.spoil(e), e.Recover(t.Context())); err != nil {
			t.Fatal(err)
		}
		if lost := len(rowsOf(t, e, "bad")) < 20; lost != test.lost {
			t.Errorf("%s: rows are lost: %t, want %t", name, lost, test.lost)
		}
		if err := checkMeasurementCopies(e, "bad", "good"); (err != nil) != test.twice {
			t.Errorf("%s: rows are stored twice: %v, want %t", name, err, test.twice)
		}
		shutdown(t, e)
	}
}
