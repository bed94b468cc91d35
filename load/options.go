package load

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
)

// Bounds of a run.
const (
	WritersMax     = 4096
	BatchMax       = 1_000_000 // points
	SeriesMax      = 1_000_000_000
	RateMax        = 1e9 // points per second
	DurationMax    = 24 * time.Hour
	MemoryBytesMin = 16 << 20
)

// Options say what a run sends, where to and how fast.
type Options struct {
	Label       string // names the run in a report; empty: the server's name
	Note        string // what a reader should know, for instance the durability of the server
	Version     string // of the program
	Target      Target
	Workload    Workload
	Pace        Pace
	Refusals    Refusals
	ServerPID   int   // process whose CPU time and memory are measured; 0: none
	Verify      bool  // read back what was acknowledged
	MemoryBytes int64 // bound of bodies, buffers and what verification keeps

	// Progress is called about four times a second, from one goroutine; nil: nobody looks.
	Progress func(Progress)
}

// Workload says what is written.
type Workload struct {
	Shape         string        // ShapeTSBS, ShapeTelegraf or ShapeCardinality; without a File
	File          string        // line protocol that is replayed
	FilePrecision time.Duration // unit of the file's times
	Series        int           // of a shape
	Batch         int           // points of a body
	Seed          uint64
	Start         time.Time     // of the first point
	Interval      time.Duration // between points of a series; behind a round of a file
}

// Pace says how fast and how long.
type Pace struct {
	Writers  int           // clients that send side by side, each one batch at a time
	Rate     float64       // points per second of all writers together; 0: each sends when it was answered
	Duration time.Duration // of the run; with a Profile it follows from it
	Points   int64         // end after so many; 0: no such end
	Profile  Profile       // multiples of Rate; nil: Rate throughout
}

// Policy says what a client does with a refused batch.
type Policy string

// The policies.
const (
	Obey  Policy = "obey"  // waits as long as Retry-After says
	Retry Policy = "retry" // comes back after Refusals.Delay, whatever the server says
	Drop  Policy = "drop"  // gives the batch up
)

// Refusals says what clients do when they are refused.
type Refusals struct {
	Policy Policy
	Delay  time.Duration // before coming back, where Retry-After does not tell it
	Buffer int           // due batches that a client keeps while it is held back; older ones are dropped
}

// DefaultOptions is a modest run against a server at its standard address.
func DefaultOptions() Options {
	return Options{
		Target: Target{URL: "http://127.0.0.1:8086", API: APIV1, Database: "load", Timeout: 30 * time.Second},
		Workload: Workload{
			Shape: ShapeTSBS, FilePrecision: time.Nanosecond, Series: 4000, Batch: 5000, Seed: 1,
			Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Interval: 10 * time.Second,
		},
		Pace:        Pace{Writers: 4, Duration: 30 * time.Second},
		Refusals:    Refusals{Policy: Obey, Delay: 100 * time.Millisecond, Buffer: 10},
		MemoryBytes: 256 << 20,
	}
}

// Validate returns every problem at once.
func (o *Options) Validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	problems = append(problems, o.Target.validate(o.Pace.Writers)...)
	o.Workload.check(check)
	o.Pace.check(check)
	check(slices.Contains([]Policy{Obey, Retry, Drop}, o.Refusals.Policy),
		"the policy for refusals is %q, must be obey, retry or drop", o.Refusals.Policy)
	check(o.Refusals.Delay >= time.Millisecond, "the retry delay is %v, must be at least 1ms", o.Refusals.Delay)
	check(o.Refusals.Buffer >= 1, "a client's buffer is %d batches, must be at least 1", o.Refusals.Buffer)
	check(o.ServerPID >= 0, "the process id of the server is %d", o.ServerPID)
	check(o.MemoryBytes >= MemoryBytesMin, "the memory is %d bytes, must be at least %d", o.MemoryBytes, MemoryBytesMin)
	return errors.Join(problems...)
}

func (w *Workload) check(check func(ok bool, format string, args ...any)) {
	if w.File == "" {
		check(slices.Contains(shapeNames, w.Shape), "the shape is %q, must be one of %v", w.Shape, shapeNames)
		check(w.Series >= 1 && w.Series <= SeriesMax,
			"the number of series is %d, must be 1 to %d", w.Series, SeriesMax)
	}
	units := []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second}
	check(slices.Contains(units, w.FilePrecision), "the unit of the file's times is %v", w.FilePrecision)
	check(w.Batch >= 1 && w.Batch <= BatchMax, "a batch has %d points, must be 1 to %d", w.Batch, BatchMax)
	check(w.Interval >= 1 && w.Interval <= 24*time.Hour, "the interval is %v, must be 1ns to 24h", w.Interval)
	first, last := time.Unix(0, timeMin), time.Unix(0, math.MaxInt64).AddDate(-100, 0, 0)
	check(!w.Start.Before(first) && !w.Start.After(last),
		"the start is %s, must be from %s to %s", w.Start.UTC().Format(time.RFC3339),
		first.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))
}

func (p *Pace) check(check func(ok bool, format string, args ...any)) {
	check(p.Writers >= 1 && p.Writers <= WritersMax, "there are %d writers, must be 1 to %d", p.Writers, WritersMax)
	check(p.Rate >= 0 && p.Rate <= RateMax, "the rate is %v points/s, must be 0 to %v", p.Rate, RateMax)
	check(p.Points >= 0, "the number of points is %d", p.Points)
	check(len(p.Profile) == 0 || p.Rate > 0, "a profile needs a rate that its steps are multiples of")
	check(p.duration() > 0 && p.duration() <= DurationMax,
		"the run lasts %v, must be more than 0 and at most %v", p.duration(), DurationMax)
}

// duration is how long the run lasts at most.
func (p *Pace) duration() time.Duration {
	if len(p.Profile) > 0 {
		return p.Profile.duration()
	}
	return p.Duration
}

// sourceOf returns the address that a client sends from; the zero address leaves it to the system.
func (t *Target) sourceOf(client int) netip.Addr {
	if !t.Source.IsValid() {
		return netip.Addr{}
	}
	if t.OneSource {
		return t.Source
	}
	octets := t.Source.As4()
	number := uint32(octets[1])<<16 | uint32(octets[2])<<8 | uint32(octets[3])
	number += uint32(client)
	return netip.AddrFrom4([4]byte{octets[0], byte(number >> 16), byte(number >> 8), byte(number)})
}
