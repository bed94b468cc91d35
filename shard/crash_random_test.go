package shard

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// misfortune lets calls fail, kills the process and cuts the power, at random.
type misfortune struct {
	work *work

	mu     sync.Mutex
	random *rand.Rand
	share  float64 // of calls that fail
	cuts   float64 // and before which the power goes
	only   bool    // calls that make something durable fail, and no other
	calls  int
	ended  bool // and all goes well from now on
	fates  map[string]int
}

func (m *misfortune) decide(op vfs.Op) fate {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	durable := op.Name == "sync" || op.Name == "syncdir" || op.Name == "rename"
	switch r := m.random.Float64(); {
	case m.ended || m.only && !durable:
		return works
	case r < m.share:
		fates := fatesOf(op)
		f := fates[m.random.IntN(len(fates))]
		m.fates[f.String()]++
		if f == killed {
			m.work.kill()
		}
		return f
	case r < m.share+m.cuts && changes(op):
		s := share(m.random.IntN(8))
		m.work.cut = newPowerCut(m.work, m.calls, op, s)
		m.fates["power cut"]++
		m.work.kill()
		return dead
	}
	return works
}

// I1, I4, I9 and I12: calls fail one after the other, processes are killed, the power goes more than once, and still
// nothing acknowledged is lost. A seed is one history.
func TestAnyNumberOfFaultsLosesNothing(t *testing.T) {
	skipUnderRace(t)
	seeds := uint64(45)
	if *faultsLong {
		seeds = 5000
	}
	bubble(t, func(t *testing.T) {
		fates := map[string]int{}
		total, histories := 0, 0
		for seed := range seeds {
			if seed%5 == 0 {
				emptyPools()
			}
			if thinned(int(seed)) {
				continue
			}
			kept, err := unlucky(seed, fates)
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			total += kept
			histories++
		}
		t.Logf("%d histories, %d acknowledged writes, none lost; faults: %v", histories, total, fates)
	})
}

func unlucky(seed uint64, fates map[string]int) (kept int, err error) {
	random := rand.New(rand.NewPCG(seed, 11))
	m := &misfortune{random: random, fates: fates}
	m.share, m.cuts = []float64{0.0005, 0.002, 0.01}[seed%3], []float64{0, 0.001}[seed/3%2]
	if seed%4 == 3 {
		m.share, m.cuts, m.only = 0.03, 0.005, true
	}
	m.work = &work{disk: memory.New(), record: &record{}, decide: m.decide}
	w := m.work
	w.run()
	m.ended = true
	w.run()
	for _, s := range []share{nothing, everythingWritten} {
		if err := newPowerCut(w, m.calls, vfs.Op{Name: "the end"}, s).verify(); err != nil {
			w.breaks("%w", err)
		}
	}
	if err := verify(w.disk, w.record, 2); err != nil {
		w.breaks("after a restart: %w", err)
	}
	return w.record.count(acknowledged), errors.Join(w.broken...)
}
