package suite

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"lineweir/load"
)

// maximumWriters of the closed loop are so few that none is refused.
const maximumWriters = 16

// firstSource is the address of the first client of a run with an address for each.
var firstSource = netip.AddrFrom4([4]byte{127, 0, 1, 1})

// findMaximum measures what a closed loop is answered while the tier stays at its soft limit.
func (b *bench) findMaximum(ctx context.Context) error {
	return b.with(ctx, b.form.weir(), true, func(s *server) error {
		_, err := b.closedLoop(ctx, s)
		return err
	})
}

// closedLoop sets the maximum and the seals that go with it.
func (b *bench) closedLoop(ctx context.Context, s *server) (*load.Report, error) {
	o := b.options(s)
	o.Target.Source = firstSource
	o.Pace = load.Pace{Writers: maximumWriters, Duration: b.form.closed}
	var from *status
	var fromAt time.Duration
	show := o.Progress
	o.Progress = func(p load.Progress) {
		if from == nil && p.Elapsed >= b.form.settle {
			from, _ = s.status(ctx) // it is asked again until it answers
			fromAt = p.Elapsed
		}
		if show != nil {
			show(p)
		}
	}
	report, err := b.load(ctx, o)
	if err != nil {
		return nil, err
	}
	now, err := s.status(ctx)
	if err != nil || from == nil {
		return nil, errors.Join(err, errors.New("the status was not answered during the run"))
	}
	b.maximum = between(report, filled(report, whole(b.form.settle)), whole(b.form.closed)).goodput()
	if b.maximum == 0 && b.form.short { // a machine that stood still for seconds
		b.maximum = float64(report.Totals.Acknowledged) / report.Run.Seconds
	}
	b.seals = float64(now.flushes()-from.flushes()) / max(1, report.Run.Seconds-fromAt.Seconds())
	if !(b.maximum > 0) {
		return nil, errors.New("nothing was acknowledged")
	}
	return report, nil
}

// sealsMin is how many seals per second the drain has to sustain, so that the grain of pacing is fine.
const sealsMin = 50

// measureSteady finds the maximum, and what clients see of the server just below it.
func measureSteady(ctx context.Context, b *bench) (*outcome, error) {
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	err := b.with(ctx, b.form.weir(), true, func(s *server) error {
		closed, err := b.closedLoop(ctx, s)
		if err != nil {
			return err
		}
		o := b.options(s)
		o.Target.Source = firstSource
		o.Pace.Rate, o.Pace.Duration = 0.95*b.maximum, b.form.steady
		steady, err := b.load(ctx, o)
		if err != nil {
			return err
		}
		judged := between(steady, whole(b.form.settle), whole(b.form.steady))
		out.goodput["closed"], out.goodput["steady"] = goodputOf(closed), goodputOf(steady)
		out.figures = Figures{
			"maximum_points_per_second": b.maximum, "seals_per_second": b.seals,
			"closed_p99_seconds": closed.Admitted.P99, "steady_p99_seconds": steady.Admitted.P99,
			"steady_max_seconds": steady.Admitted.Max, "steady_refusals": float64(steady.Totals.Refusals),
			"steady_goodput_share": judged.goodput() / (0.95 * b.maximum),
		}
		if !b.form.short && b.seals < sealsMin {
			return fmt.Errorf("the drain sustains %.0f seals/s, want at least %d: the configuration shows nothing",
				b.seals, sealsMin)
		}
		return nil
	})
	return out, err
}

// overload are options at multiples of the maximum, each writer a client of its own.
func (b *bench) overload(s *server, profile load.Profile) load.Options {
	o := b.options(s)
	o.Target.Source = firstSource
	o.Pace.Rate, o.Pace.Profile, o.Pace.Duration = b.maximum, profile, 0
	return o
}

func measureOverload(ctx context.Context, b *bench) (*outcome, error) {
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	started, err := startServer(ctx, b.binary, b.root, b.form.weir())
	if err != nil {
		return nil, err
	}
	err = started.limitDrain(ctx, b.form.drainPerSecond)
	if err == nil {
		err = b.overloadOf(ctx, started, out)
	}
	err = errors.Join(err, started.end()) // which writes all that is in memory into segments
	if err == nil {
		var rows int64
		rows, err = started.storedRows(ctx)
		out.figures["stored_twice_rows"] = float64(rows) - out.figures["read_rows"]
	}
	return out, errors.Join(err, started.remove())
}

// crowdMax bounds how many writers there are.
const crowdMax = 1500

// crowd is how many writers keep up at 10 × though each of their writes is held as long as may be. With fewer, a write
// would be late because its client still waited for the one before: that would measure the queues of the clients.
func (b *bench) crowd() int {
	batchesHeld := overloadFactor * b.maximum / float64(b.form.batch) * hold.Seconds()
	return min(crowdMax, max(b.form.writers, int(1.25*batchesHeld)))
}

// overloadOf loads the server and reads back what it acknowledged.
func (b *bench) overloadOf(ctx context.Context, s *server, out *outcome) error {
	o := b.overload(s, load.Profile{{Factor: overloadFactor, Duration: b.form.overload}})
	o.Pace.Writers = b.crowd()
	o.Verify = true
	report, err := b.load(ctx, o)
	if report == nil || report.Verified == nil {
		return err
	}
	if err != nil && !errors.Is(err, load.ErrUnsound) { // what is unsound is a figure
		return err
	}
	now, err := s.status(ctx)
	if err != nil {
		return err
	}
	out.goodput["overload"] = goodputOf(report)
	judged := between(report, filled(report, whole(b.form.settle)), whole(b.form.overload))
	commit := now.WAL.FsyncSeconds / max(1, float64(now.WAL.Fsyncs))
	verified := report.Verified
	out.figures = Figures{
		"bound_violations": violations(report, now), "tier_highest_bytes": float64(now.Tier.HighestBytes),
		"tier_capacity_bytes": float64(now.Tier.CapacityBytes), "tier_samples": samplesOf(report),
		"goodput_share":        judged.goodput() / b.maximum,
		"goodput_variation":    judged.variation(),
		"lowest_second_share":  judged.lowestShare(),
		"admitted_p99_seconds": report.Admitted.P99, "admitted_p50_seconds": report.Admitted.P50,
		"admitted_max_seconds": report.Admitted.Max, "admitted_p90_seconds": report.Admitted.P90,
		"median_second_p99_seconds": judged.medianP99(),
		"group_commit_seconds":      commit, "hold_and_commits_seconds": hold.Seconds() + 2*commit,
		"first_return_share": report.AdmittedAtFirstReturn(), "refusals_per_admission": report.RefusalsPerAdmission(),
		"writers": float64(o.Pace.Writers), "late_points": float64(report.Totals.Late),
		"refusals": float64(report.Totals.Refusals), "refused_p99_seconds": report.Refused.P99,
		"jain":                report.Jain(),
		"acknowledged_points": float64(verified.Acknowledged),
		"missing_points":      float64(verified.Missing + verified.Altered),
		"read_rows":           float64(verified.Rows), "refused_stored_points": float64(verified.RefusedStored),
	}
	if verified.RefusedStored > 0 {
		return fmt.Errorf("%d points are stored though they were refused", verified.RefusedStored)
	}
	return nil
}

func samplesOf(r *load.Report) float64 {
	if r.Pressure == nil {
		return 0
	}
	return float64(r.Pressure.Samples)
}

// recoveryRow is how many seconds in a row show that goodput is back.
const recoveryRow = 3

func measureRecovery(ctx context.Context, b *bench) (*outcome, error) {
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	paused := b.form.paused
	err := b.with(ctx, b.form.weir(), true, func(s *server) error {
		o := b.overload(s, load.Profile{{Factor: overloadFactor, Duration: paused.before + paused.paused + paused.after}})
		p := pauser{server: s, from: paused.before, until: paused.before + paused.paused, show: o.Progress}
		o.Progress = func(at load.Progress) { p.progress(ctx, at) }
		report, err := b.load(ctx, o)
		if err = errors.Join(err, p.err); err != nil {
			return err
		}
		if p.resumed == 0 && !b.form.short {
			return errors.New("the run ended before compaction went on")
		}
		if p.resumed == 0 { // a machine that stood still for a second
			p.resumed = o.Pace.Profile[0].Duration
		}
		resumed := whole(p.resumed)
		judged := between(report, resumed, whole(o.Pace.Profile[0].Duration))
		after, goodput := judged.recovery(recoveryRow, 0.9*b.maximum)
		out.goodput["paused"] = goodputOf(report)
		out.figures = Figures{
			"recovery_seconds": float64(after), "recovered_share": goodput / b.maximum,
			"paused_seconds":  (p.resumed - p.stopped).Seconds(),
			"refusals":        float64(report.Totals.Refusals),
			"goodput_paused":  between(report, whole(p.stopped)+1, resumed).goodput(),
			"after_share":     judged.goodput() / b.maximum,
			"retry_after_max": longestRetryAfter(report),
		}
		return nil
	})
	return out, err
}

func longestRetryAfter(r *load.Report) float64 {
	longest := 0
	for _, entry := range r.RetryAfter {
		longest = max(longest, entry.Seconds)
	}
	return float64(longest)
}

// pauser pauses compaction during a run. Its progress is called from one goroutine.
type pauser struct {
	server           *server
	from, until      time.Duration
	show             func(load.Progress)
	stopped, resumed time.Duration // when it was done; 0: not yet
	err              error
}

func (p *pauser) progress(ctx context.Context, at load.Progress) {
	switch {
	case p.stopped == 0 && at.Elapsed >= p.from:
		p.err = errors.Join(p.err, p.server.pause(ctx, true))
		p.stopped = at.Elapsed
	case p.resumed == 0 && at.Elapsed >= p.until:
		p.err = errors.Join(p.err, p.server.pause(ctx, false))
		p.resumed = at.Elapsed
	}
	if p.show != nil {
		p.show(at)
	}
}

func measureMetastability(ctx context.Context, b *bench) (*outcome, error) {
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	calm := b.form.calm
	err := b.with(ctx, b.form.weir(), true, func(s *server) error {
		o := b.overload(s, load.Profile{
			{Factor: overloadFactor, Duration: calm.storm}, {Factor: 0.8, Duration: calm.grace + calm.judged},
		})
		report, err := b.load(ctx, o)
		if err != nil {
			return err
		}
		judged := between(report, whole(calm.storm+calm.grace), whole(calm.storm+calm.grace+calm.judged))
		grace := between(report, whole(calm.storm), whole(calm.storm+calm.grace))
		out.goodput["storm"] = goodputOf(report)
		out.figures = Figures{
			"refused_share_after": judged.refusedShare(b.form.batch), "refused_share_grace": grace.refusedShare(b.form.batch),
			"after_goodput_share": judged.goodput() / (0.8 * b.maximum),
			"refusals":            float64(report.Totals.Refusals),
		}
		return nil
	})
	return out, err
}
