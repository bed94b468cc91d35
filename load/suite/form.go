package suite

import (
	"fmt"
	"runtime"
	"time"

	"lineweir/load"
)

// hold is admission.max_wait of the suite's servers: how long a write that needs a seal may wait.
const hold = 250 * time.Millisecond

// shards of the suite's servers, whatever the machine has.
const shards = 2

// overloadFactor is how many times the sustainable maximum an overload offers.
const overloadFactor = 10

// form is how large and how long everything is: of the real suite, or of its short form.
type form struct {
	short bool

	// The weir of most scenarios: the drain is far below what the CPU could do, the memtables are small.
	tierBytes      int64
	memtableBytes  int64
	drainPerSecond int64 // bytes of L0 files
	batch, writers int

	settle   time.Duration // at the begin of a run, not judged
	closed   time.Duration // of the closed loop that finds the maximum, with settle
	steady   time.Duration // at 95 % of it, with settle
	overload time.Duration // at 10 ×, with settle
	paused   pausedForm
	calm     calmForm
	fair     time.Duration // of each of the two runs, with settle
	fits     fitsForm
	flat     flatForm
}

// pausedForm is an overload during which compaction stands still.
type pausedForm struct{ before, paused, after time.Duration }

// calmForm is an overload and what comes after it: grace is how long the return may take.
type calmForm struct{ storm, grace, judged time.Duration }

// fitsForm is a server with memtables so large that much fits while the gate is shut.
type fitsForm struct {
	tierBytes, memtableBytes int64
	fillBatch                int // of which a memtable takes one and not two, whichever way series are spread
	rounds                   int
	round                    time.Duration
	rate                     float64 // of single points
}

// flatForm is a server without a limit of its drain.
type flatForm struct {
	tierBytes, memtableBytes, inFlightBytes int64
	batch, writers, slowClients             int
	run                                     time.Duration
}

// long is the form whose gates count.
func long() *form {
	return &form{
		tierBytes: 16 << 20, memtableBytes: 256 << 10, drainPerSecond: 1_200_000, batch: 100, writers: 128,
		settle: 5 * time.Second, closed: 25 * time.Second, steady: 15 * time.Second,
		overload: 125 * time.Second,
		paused:   pausedForm{before: 15 * time.Second, paused: 30 * time.Second, after: 30 * time.Second},
		calm:     calmForm{storm: 60 * time.Second, grace: 30 * time.Second, judged: 30 * time.Second},
		fair:     35 * time.Second,
		fits: fitsForm{
			tierBytes: 32 << 20, memtableBytes: 8 << 20, fillBatch: 14_000, rounds: 3, round: 8 * time.Second, rate: 250,
		},
		flat: flatForm{
			tierBytes: 64 << 20, memtableBytes: 8 << 20, inFlightBytes: 64 << 20, batch: 1000, writers: 64,
			slowClients: 1000, run: 20 * time.Second,
		},
	}
}

// short is the form of the tests.
func short() *form {
	return &form{
		short:     true,
		tierBytes: 1 << 20, memtableBytes: 64 << 10, drainPerSecond: 200_000, batch: 20, writers: 48,
		settle: time.Second, closed: 3 * time.Second, steady: 2 * time.Second, overload: 4 * time.Second,
		paused: pausedForm{before: time.Second, paused: time.Second, after: time.Second},
		calm:   calmForm{storm: time.Second, grace: time.Second, judged: time.Second},
		fair:   2 * time.Second,
		fits: fitsForm{
			tierBytes: 4 << 20, memtableBytes: 1 << 20, fillBatch: 1750, rounds: 1, round: time.Second, rate: 100,
		},
		flat: flatForm{
			tierBytes: 8 << 20, memtableBytes: 1 << 20, inFlightBytes: 16 << 20, batch: 500, writers: 64,
			slowClients: 200, run: 2 * time.Second,
		},
	}
}

// weir is the configuration of most scenarios.
func (f *form) weir() settings {
	return serverSettings(f.tierBytes, f.memtableBytes)
}

// serverSettings are those that all servers of the suite have, and more.
func serverSettings(tierBytes, memtableBytes int64, more ...string) settings {
	return settings{keys: append([]string{
		fmt.Sprintf("shards=%d", shards),
		fmt.Sprintf("page_cache.capacity=%dKiB", tierBytes>>10),
		fmt.Sprintf("memtable.max_bytes=%dKiB", memtableBytes>>10),
		"admission.max_wait=" + hold.String(),
		"memtable.frozen_max=4", // so that the tier holds writes back, and not a disk that is slow for a moment
	}, more...)}
}

// options are those of a run against a server, at first with as many writers and as large batches as the form has.
func (b *bench) options(s *server) load.Options {
	o := load.DefaultOptions()
	o.Version, o.Progress = b.version, b.progress
	if runtime.GOOS == "linux" { // elsewhere processes can't be measured
		o.ServerPID = s.pid()
	}
	o.Target.URL, o.Target.Database = s.url, "suite"
	o.Workload.Series, o.Workload.Batch, o.Workload.Seed = seriesCount, b.form.batch, b.seed
	o.Pace.Writers = b.form.writers
	o.Refusals.Buffer = bufferBatches
	return o
}

// seriesCount is how many series the suite writes.
const seriesCount = 400

// bufferBatches is what a client keeps while it is held back.
const bufferBatches = 4
