package shard

import (
	"slices"
	"sync"
	"testing"

	"lineweir/internal/vfs"
)

// recoveries are power cuts from which to recover, each before another kind of call: a group of the log is torn, a file
// of it is half made, files of segments have names that no edit knows, an edit is torn, a checkpoint is half made. The
// short form takes the first two.
var recoveries = []string{
	"wal wal/ sync", "segment manifest/ sync", "segment manifest/ rename",
	"wal wal/ writeat", "wal wal/ rename", "wal wal/ syncdir", "wal wal/ remove", "wal wal/ truncate",
	"segment l0/ sync", "segment l0/ rename", "segment l0/ syncdir", "segment l0/ remove",
	"segment l1/ sync", "segment l1/ rename", "segment l1/ syncdir", "segment l1/ remove",
	"segment manifest/ writeat", "segment manifest/ syncdir", "segment manifest/ remove",
}

// restart is a process that recovers, with another number of shards than before, writes, and stops.
func (w *work) restart() {
	var group sync.WaitGroup
	group.Go(func() { w.life(2, func(e *Engine) { w.put(e, "m", "s1", 0, day) }) })
	group.Wait()
}

// The second fault: while the engine recovers from a power cut, each call of the file system fails once, and the power
// goes again before each that changes something.
func TestADisturbedRecoveryLosesNothing(t *testing.T) {
	skipUnderRace(t)
	bubble(t, func(t *testing.T) {
		failed := newFaultReport()
		crashed := &crashReport{calls: tally{}, shares: map[share]int{}}
		for _, c := range chooseRecoveries(t) {
			s := scenario{left: c, run: (*work).restart}
			found, err := s.survey()
			if err != nil {
				t.Fatalf("a recovery on a good disk, %s: %v", c, err)
			}
			t.Logf("%s: the recovery calls the disk from %d places", c, len(found.order))
			s.failEach(t, found.plans(*faultsLong), failed)
			crashed.crashEach(t, s, func(op vfs.Op, number int) []share {
				if thinned(number) {
					return nil
				}
				return sharesAt(op, number)
			})
		}
		t.Logf("calls that failed in recoveries: %v%v", failed.fates, failed.calls)
		t.Logf("power cuts in recoveries, by what they leave: %v%v", crashed.shares, crashed.calls)
		if failed.calls["segment quarantine/ rename"] == 0 && *faultsLong {
			t.Error("no recovery moved anything to quarantine")
		}
	})
}

// chooseRecoveries cuts the power before the calls that recoveries names, in the middle of the work, when there is
// something of everything.
func chooseRecoveries(t *testing.T) []*powerCut {
	t.Helper()
	s := scenario{run: (*work).run}
	found, err := s.survey()
	if err != nil {
		t.Fatal(err)
	}
	total, seen := found.tally(), tally{}
	kinds, shares := recoveries[:2], []share{anyShare}
	if *faultsLong {
		kinds, shares = recoveries, []share{nothing, anyShare, anyShare + 1}
	}
	cuts, _, err := s.cutPower(func(*work) {}, func(op vfs.Op, _ int) []share {
		seen.add(op)
		kind := kindOf(op)
		if !slices.Contains(kinds, kind) || seen[kind] != (total[kind]+1)/2 {
			return nil
		}
		return shares
	})
	if err != nil || len(cuts) != len(kinds)*len(shares) {
		t.Fatalf("%d power cuts for %d kinds: %v", len(cuts), len(kinds), err)
	}
	return cuts
}
