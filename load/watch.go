package load

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// How often the server's status is read and progress is shown, and in how many of these steps processes are measured.
const (
	watchInterval = 250 * time.Millisecond
	processEvery  = 4
)

// Progress is where a run is.
type Progress struct {
	Elapsed, Planned time.Duration
	Offered          float64 // points per second since the last Progress
	Acknowledged     float64
	Refused          float64 // points of refused attempts per second
	P99              time.Duration
	Cause            string // of the last refusal
	Pressure         *PressureSample
}

// columnsMax is the longest line of Progress: a longer one would be broken on a terminal of 80 columns, and not be
// overwritten by the next.
const columnsMax = 79

// String is one line, with as much of what matters less as there is room for.
func (p Progress) String() string {
	elapsed := fmt.Sprintf("%4.0fs", p.Elapsed.Seconds())
	if p.Planned > 0 {
		elapsed += fmt.Sprintf("/%.0fs", p.Planned.Seconds())
	}
	points := fmt.Sprintf("%s of %s points/s", scaled(p.Acknowledged), scaled(p.Offered))
	if p.Refused > 0 {
		points += fmt.Sprintf(", %s refused", scaled(p.Refused))
	}
	parts := []string{elapsed, points, "p99 " + briefly(p.P99), p.Cause}
	if p.Pressure != nil && p.Pressure.CapacityBytes > 0 {
		parts = append(parts, fmt.Sprintf("tier %d %%", 100*p.Pressure.LevelBytes/p.Pressure.CapacityBytes))
		if p.Pressure.Waiting > 0 {
			parts = append(parts, fmt.Sprintf("%d wait", p.Pressure.Waiting))
		}
	}
	line := ""
	for _, part := range parts {
		if longer := line + "  " + part; part != "" && utf8.RuneCountInString(longer) <= columnsMax {
			line = longer
		}
	}
	return strings.TrimPrefix(line, "  ")
}

// watch measures the server and shows progress until ctx ends, and then measures a last time.
func (r *run) watch(ctx context.Context, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	var last Totals
	var lastAt time.Duration
	for step := 1; ctx.Err() == nil; step++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		at := time.Since(r.started)
		if step%processEvery == 0 || ctx.Err() != nil {
			// What was used counts for the second that it was used in.
			r.collect.sampleProcess(at-watchInterval, r.sampleProcesses(at))
		}
		pressure := r.samplePressure(ctx)
		r.collect.samplePressure(at, pressure)
		if r.collect.fatesBytes() > r.options.MemoryBytes/fatesShare {
			stop(errMemoryFull)
		}
		if r.options.Progress == nil {
			continue
		}
		p := r.collect.progress(r.plan, at, &last, lastAt)
		p.Planned, p.Pressure, lastAt = r.options.Pace.duration(), pressure, at
		r.options.Progress(p)
	}
}

// sampleProcesses returns the sample of the server. A server that has gone can't be measured, and isn't.
func (r *run) sampleProcesses(at time.Duration) *ProcessSample {
	if r.tester != nil {
		_, _ = r.tester.sample(at) // this process is here
	}
	if r.server == nil {
		return nil
	}
	sample, err := r.server.sample(at)
	if err != nil {
		return nil
	}
	return sample
}

// samplePressure returns nil where the status can't be had, which for a server that is loaded is no surprise. The last
// sample is taken when ctx has ended already.
func (r *run) samplePressure(ctx context.Context) *PressureSample {
	if r.pressure == nil {
		return nil
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	sample, err := r.pressure.sample(ctx)
	if err != nil {
		return nil
	}
	return sample
}

// progress returns what happened since the last call.
func (c *collector) progress(p *plan, at time.Duration, last *Totals, lastAt time.Duration) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	perSecond := func(count int64) float64 { return float64(count) / max((at-lastAt).Seconds(), 1e-3) }
	shown := Progress{
		Elapsed: at, Acknowledged: perSecond(c.totals.Acknowledged - last.Acknowledged),
		Refused: perSecond(c.totals.Refused - last.Refused), Offered: perSecond(c.totals.Offered - last.Offered),
		P99: c.series.p99(),
	}
	if !p.closed {
		shown.Offered = perSecond(p.offered(at) - p.offered(lastAt))
	}
	if shown.Refused > 0 {
		shown.Cause = c.lastCause
	}
	*last = c.totals
	return shown
}
