package shard

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"lineweir/internal/vfs"
)

// outage cuts the power before calls that change something: between two such calls a crash finds the same.
type outage struct {
	work  *work
	wants func(op vfs.Op, number int) []share // shares of the power cut before a call; none: go on

	mu    sync.Mutex
	calls int
	cuts  []*powerCut
}

func (o *outage) decide(op vfs.Op) fate {
	if !changes(op) {
		return works
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.wants(op, o.calls) {
		o.cuts = append(o.cuts, newPowerCut(o.work, o.calls, op, s))
	}
	o.calls++
	return works
}

// cutPower does the work, cutting the power where wants says, and returns what was found and how many calls there were.
func (s scenario) cutPower(
	prepare func(*work), wants func(vfs.Op, int) []share,
) (cuts []*powerCut, calls int, err error) {
	o := &outage{wants: wants}
	o.work = s.newWork(o.decide)
	prepare(o.work)
	s.run(o.work)
	return o.cuts, o.calls, errors.Join(append(o.work.errs, o.work.broken...)...)
}

// passes bounds the memory that power cuts take: each pass does the work once more and takes a part of them.
const passes = 8

// I1, I4, I9, I12 and I14: whenever the power goes, and whatever the disk has of what was not synced, all that was
// acknowledged is there, nothing that was refused, the rest as a whole or not at all, and nothing twice.
func TestACrashAtEveryCall(t *testing.T) {
	skipUnderRace(t)
	bubble(t, func(t *testing.T) {
		r := &crashReport{calls: tally{}, shares: map[share]int{}}
		for pass := range passes {
			seen := tally{} // by kind, so that none is passed over when threads run in another order
			r.crashEach(t, scenario{run: (*work).run}, func(op vfs.Op, number int) []share {
				seen.add(op)
				if (seen[kindOf(op)]-1)%passes != pass {
					return nil
				}
				return sharesAt(vfs.Op{}, number)
			})
		}
		t.Logf("%d calls change something", r.changing)
		t.Logf("power cuts before them, by what they leave: %v%v", r.shares, r.calls)
		for _, call := range essentialCalls {
			op := vfs.Op{Name: call[strings.LastIndexByte(call, ' ')+1:], Flag: os.O_CREATE}
			if changes(op) && r.calls[call] == 0 {
				t.Errorf("no power cut before %s", call)
			}
		}
	})
}

// sharesAt are the power cuts before a call: of each kind in the long form, of one kind in turn in the short one.
func sharesAt(_ vfs.Op, number int) []share {
	if *faultsLong {
		return []share{nothing, everythingWritten, anyShare, anyShare + 1, anyShare + 2, anyShare + 3}
	}
	return []share{share(number % 3)}
}

// crashReport counts what was done to the program.
type crashReport struct {
	calls    tally
	shares   map[share]int
	changing int
}

// crashEach verifies what every power cut leaves.
func (r *crashReport) crashEach(t *testing.T, s scenario, wants func(vfs.Op, int) []share) {
	cuts, n, err := s.cutPower(func(*work) {}, wants)
	if err != nil {
		t.Fatal(err)
	}
	r.changing = max(r.changing, n)
	for i, c := range cuts {
		if i%20 == 0 {
			emptyPools()
		}
		if err := c.verify(); err != nil {
			t.Error(err)
		}
		r.calls.add(c.op)
		r.shares[min(c.share, anyShare)]++
	}
}
