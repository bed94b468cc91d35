package shard

import (
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// faultsLong runs the long form of the tests that break things: every call in every way, instead of a choice.
var faultsLong = flag.Bool("faults.long", false, "fail and crash at every call in every way")

// thinned tells whether number n of a choice is left out under the race detector, where all takes ten times as long.
func thinned(n int) bool { return raceEnabled && n%29 != 0 }

// site is a place in the program that makes a call, with the functions above it, and the part of the data directory.
type site uint64

var siteSeed = maphash.MakeSeed()

func siteOf(op vfs.Op) site {
	var hash maphash.Hash
	hash.SetSeed(siteSeed)
	hash.WriteString(placeOf(op.Path))
	var stack [10]uintptr // enough for what is done, and mostly too little for the life in which it is
	for _, pc := range stack[:runtime.Callers(3, stack[:])] {
		maphash.WriteComparable(&hash, pc)
	}
	return site(hash.Sum64())
}

// callPlan names one call of the work and its fate.
type callPlan struct {
	number int // of the plan
	site   site
	nth    int // of the calls that the site makes
	op     vfs.Op
	fate   fate
}

func (p callPlan) String() string {
	return fmt.Sprintf("call %d of its kind, %s of %s: %s", p.nth, p.op.Name, p.op.Path, p.fate)
}

// survey counts the calls that the work makes, by site.
type survey struct {
	mu    sync.Mutex
	order []site
	calls map[site][]vfs.Op
}

func (s *survey) decide(op vfs.Op) fate {
	at := siteOf(op)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[at] == nil {
		s.order = append(s.order, at)
	}
	s.calls[at] = append(s.calls[at], op)
	return works
}

// plans are the calls to fail. The long form fails every call in every way; the short one the first or the middle call
// of each site, in one way, and writes half-way too.
func (s *survey) plans(long bool) []callPlan {
	var plans []callPlan
	for i, at := range s.order {
		calls := s.calls[at]
		for nth, op := range calls {
			for j, f := range fatesOf(op) {
				chosen := nth == (i%2)*(len(calls)/2) && (j == i/2%len(fatesOf(op)) || f == short)
				if long || chosen {
					plans = append(plans, callPlan{len(plans), at, nth, op, f})
				}
			}
		}
	}
	return plans
}

func (s *survey) tally() tally {
	all := tally{}
	for _, calls := range s.calls {
		for _, op := range calls {
			all.add(op)
		}
	}
	return all
}

// scenario is some work on a disk that somebody has left.
type scenario struct {
	left *powerCut // nil: an empty disk
	part bool      // of what a server does: nothing has to be merged, or removed for its age
	run  func(*work)
}

func (s scenario) newWork(decide func(vfs.Op) fate) *work {
	w := &work{disk: memory.New(), record: &record{}, decide: decide, calm: true}
	if s.left != nil {
		w.disk, w.record = crashOf(s.left.disk, nothing, 0), s.left.record.copy()
	}
	return w
}

// survey does the work on a good disk.
func (s scenario) survey() (*survey, error) {
	found := &survey{calls: map[site][]vfs.Op{}}
	w := s.newWork(found.decide)
	s.run(w)
	if s.left == nil && !s.part && !(w.merged && w.expired) {
		w.breaks("files of level 1 were merged: %t, were removed for their age: %t", w.merged, w.expired)
	}
	return found, errors.Join(append(w.errs, w.broken...)...)
}

// injection fails one call, and cuts the power some calls later.
type injection struct {
	plan  callPlan
	work  *work
	mu    sync.Mutex
	seen  int
	fired bool
	after int // calls that change something since then
	cuts  []*powerCut
}

// cutsAfter are the calls after a failure, or a kill, before which the power goes. In the short form there are two
// kinds, in turn.
func cutsAfter(p *callPlan) map[int]share {
	switch {
	case *faultsLong:
		return map[int]share{
			1: nothing, 2: anyShare, 4: everythingWritten, 8: nothing, 16: anyShare, 32: everythingWritten, 64: nothing,
			128: nothing, 256: nothing,
		}
	case p.fate == killed:
		return map[int]share{30: anyShare, 80: nothing}
	case p.number%2 == 0:
		return map[int]share{1: nothing, 25: everythingWritten}
	}
	return map[int]share{12: anyShare}
}

func (i *injection) decide(op vfs.Op) fate {
	at := siteOf(op)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fired && changes(op) {
		i.after++
		if s, cut := cutsAfter(&i.plan)[i.after]; cut {
			i.cuts = append(i.cuts, newPowerCut(i.work, i.after, op, s))
		}
	}
	if at == i.plan.site {
		i.seen++
	}
	if at != i.plan.site || i.seen-1 != i.plan.nth {
		return works
	}
	i.fired = true
	if i.plan.fate == killed {
		i.work.kill()
	}
	return i.plan.fate
}

// failOnce does the work while one call fails, and verifies what is left: after power cuts shortly after the failure,
// and for a process that is started again at the end.
func (s scenario) failOnce(p callPlan) (fired bool, err error) {
	running := goleak.IgnoreCurrent()
	i := &injection{plan: p}
	i.work = s.newWork(i.decide)
	s.run(i.work)
	if !i.fired {
		return false, nil
	}
	w := i.work
	for _, c := range i.cuts {
		if err := c.verify(); err != nil {
			w.breaks("%w", err)
		}
	}
	if err := verify(w.disk, w.record, 2); err != nil {
		w.breaks("after a restart: %w", err)
	}
	if err := goleak.Find(running); err != nil {
		w.breaks("%w", err)
	}
	return true, errors.Join(w.broken...)
}

// faultReport counts what was done to the program.
type faultReport struct {
	calls   tally
	fates   map[fate]int
	leftOut tally // known defects
	missed  int   // plans that met no call, because threads ran in another order
}

func newFaultReport() *faultReport {
	return &faultReport{calls: tally{}, fates: map[fate]int{}, leftOut: tally{}}
}

// failEach fails each planned call once.
func (s scenario) failEach(t *testing.T, plans []callPlan, r *faultReport) {
	for i, p := range plans {
		if i%10 == 0 {
			emptyPools()
		}
		if thinned(i) {
			continue
		}
		if why := knownDefect(p); why != "" {
			t.Logf("left out: %s: %s", p, why)
			r.leftOut.add(p.op)
			continue
		}
		fired, err := s.failOnce(p)
		if err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if !fired {
			r.missed++
			continue
		}
		r.calls.add(p.op)
		r.fates[p.fate]++
	}
}

// I1, I4, I5, I6, I9, I12, I13, I14 and I15: whatever one call of the file system does, and if the power goes soon
// after, nothing acknowledged is missing, nothing refused is there, what is unknown is there as a whole or not at all,
// nothing is stored twice, no goroutine is left, and the engine goes on, at the latest after a restart.
func TestEveryCallFailsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := scenario{run: (*work).run}
		found, err := s.survey()
		if err != nil {
			t.Fatalf("the work on a good disk: %v", err)
		}
		r := newFaultReport()
		plans := found.plans(*faultsLong)
		s.failEach(t, plans, r)
		t.Logf("%d places make the calls; %d plans, %d of them met no call", len(found.order), len(plans), r.missed)
		t.Logf("failed calls: %v%v", r.fates, r.calls)
		for _, call := range essentialCalls {
			if r.calls[call]+r.leftOut[call] == 0 && !raceEnabled {
				t.Errorf("no %s was made to fail", call)
			}
		}
		if r.missed > len(plans)/10 {
			t.Errorf("%d of %d plans met no call", r.missed, len(plans))
		}
	})
}

// essentialCalls must have failed, by package, place and operation.
var essentialCalls = []string{
	"shard data/ mkdirall", "shard data/ lock", "shard data/ freebytes", "shard data/ close",
	"wal wal/ mkdirall", "wal wal/ readdir", "wal wal/ open", "wal wal/ size", "wal wal/ readat", "wal wal/ writeat",
	"wal wal/ sync", "wal wal/ syncdir", "wal wal/ rename", "wal wal/ remove", "wal wal/ truncate", "wal wal/ stat",
	"wal wal/ freebytes", "wal wal/ close",
	"segment manifest/ mkdirall", "segment manifest/ readdir", "segment manifest/ open", "segment manifest/ size",
	"segment manifest/ read", "segment manifest/ write", "segment manifest/ writeat", "segment manifest/ sync",
	"segment manifest/ syncdir", "segment manifest/ rename", "segment manifest/ remove", "segment manifest/ freebytes",
	"segment manifest/ close",
	"segment l0/ mkdirall", "segment l0/ readdir", "segment l0/ open", "segment l0/ write", "segment l0/ sync",
	"segment l0/ syncdir", "segment l0/ rename", "segment l0/ readat", "segment l0/ remove", "segment l0/ close",
	"segment l1/ mkdirall", "segment l1/ readdir", "segment l1/ open", "segment l1/ write", "segment l1/ sync",
	"segment l1/ syncdir", "segment l1/ rename", "segment l1/ readat", "segment l1/ remove", "segment l1/ close",
	"segment quarantine/ readdir",
}

// Writes and renames that report success and do nothing are found, so the test above could fail.
func TestASwallowedCallIsFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := scenario{run: (*work).run}
		found, err := s.survey()
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{
			"wal wal/ writeat", "segment manifest/ write", "segment manifest/ writeat", "segment l1/ rename",
		} {
			tried, err := s.swallowOne(found, call)
			if err == nil {
				t.Errorf("%s: %d calls swallowed, one at a time, and none was noticed", call, tried)
				continue
			}
			t.Logf("%s: found at the %d. swallowed call: %.200s", call, tried, err.Error())
		}
	})
}

// swallowOne swallows calls of one kind until that is noticed.
func (s scenario) swallowOne(found *survey, call string) (tried int, err error) {
	for _, at := range found.order {
		calls := found.calls[at]
		if kindOf(calls[0]) != call {
			continue
		}
		fired, err := s.failOnce(callPlan{0, at, len(calls) / 2, calls[0], swallow})
		if fired {
			tried++
		}
		if err != nil {
			return tried, err
		}
	}
	return tried, nil
}
