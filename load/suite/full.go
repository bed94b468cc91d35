package suite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"lineweir/load"
)

// fillLimit bounds how long a tier may take to fill.
const fillLimit = 3 * time.Minute

// fill pauses compaction and writes batches until one is refused for want of room in the tier.
func (b *bench) fill(ctx context.Context, s *server, batch int) error {
	if err := s.pause(ctx, true); err != nil {
		return err
	}
	err := s.poll(ctx, fillLimit, "a write is refused", func() (bool, error) {
		report, err := b.load(ctx, b.fillOptions(s, batch))
		if err != nil || !refusedByTier(report) {
			return false, err
		}
		return b.staysFull(ctx, s)
	})
	if err != nil {
		return fmt.Errorf("fill the tier with batches of %d: %w", batch, err)
	}
	return nil
}

// staysFull tells whether a shard is still blocked when all reservations are settled: they are of the worst case, and
// give room back.
func (b *bench) staysFull(ctx context.Context, s *server) (bool, error) {
	var now *status
	err := s.poll(ctx, fillLimit, "all reservations are settled", func() (settled bool, err error) {
		now, err = s.status(ctx)
		return err == nil && now.Tier.ReservedBytes == 0, err
	})
	return err == nil && now.blocked() > 0, err
}

// causeTier is the cause of refusals for want of room in the tier.
const causeTier = "l0_full"

func refusedByTier(r *load.Report) bool {
	return slices.ContainsFunc(r.Answers, func(a load.AnswerCount) bool { return a.Cause == causeTier })
}

// block fills the tier and every memtable to its last row: with ever smaller batches, down to one point.
func (b *bench) block(ctx context.Context, s *server, batch int) error {
	return s.poll(ctx, fillLimit, "every shard is blocked", func() (bool, error) {
		for _, size := range []int{batch, batch / 10, 1} {
			if err := b.fill(ctx, s, size); err != nil {
				return false, err
			}
		}
		now, err := s.status(ctx)
		return err == nil && now.blocked() == len(now.Shards), err
	})
}

// fillOptions write new points for a moment, and come back soon when refused: not every refusal is for want of room in
// the tier.
func (b *bench) fillOptions(s *server, batch int) load.Options {
	b.fills++
	o := b.options(s)
	o.Workload.Batch = batch
	o.Workload.Start = o.Workload.Start.AddDate(2, 0, b.fills)
	o.Pace = load.Pace{Writers: 4, Points: int64(max(fillBatches*batch, seriesCount)), Duration: time.Second}
	o.Refusals = load.Refusals{Policy: load.Retry, Delay: 2 * time.Millisecond, Buffer: 1}
	if batch == 1 { // the next point may be of another shard, where it fits
		o.Refusals.Policy = load.Drop
	}
	return o
}

// fillBatches bound what is made for one moment of filling.
const fillBatches = 16

// fewSegments are so few of a measurement that compaction leaves them be for a while.
const fewSegments = 3

// empty lets compaction go on until it has nothing left to do, with memtables that are empty.
func (b *bench) empty(ctx context.Context, s *server) error {
	if err := s.pause(ctx, false); err != nil {
		return err
	}
	drained := func() (bool, error) {
		now, err := s.status(ctx)
		return err == nil && now.Tier.Segments <= fewSegments && now.blocked() == 0, err
	}
	if err := s.poll(ctx, fillLimit, "the tier is drained", drained); err != nil {
		return err
	}
	if _, err := s.ask(ctx, http.MethodPost, "/api/seal?wait=true", ""); err != nil {
		return err
	}
	return s.poll(ctx, fillLimit, "the tier is drained", drained)
}

// sharply makes the gate shut where the tier has no room for another memtable, with hardly any pacing before: paced
// grants, which come while the drain stands still too, would open it now and then.
const sharply = "page_cache.soft_fraction=0.99"

// pointBytes is more than what a point of the workload takes in a memtable, by its worst case.
const pointBytes = 1000

// measureFits writes single points with the gate open and shut, in turn. The memtables have room for all of them.
func measureFits(ctx context.Context, b *bench) (*outcome, error) {
	fits := b.form.fits
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	err := b.with(ctx, serverSettings(fits.tierBytes, fits.memtableBytes, sharply), false, func(s *server) error {
		var open, shut []float64
		for range fits.rounds {
			report, err := b.singlePoints(ctx, s)
			if err != nil {
				return err
			}
			open = append(open, report.Admitted.P99)
			if report, err = b.singlePointsShut(ctx, s); err != nil {
				return err
			}
			shut = append(shut, report.Admitted.P99)
		}
		out.figures = Figures{
			"open_p99_seconds": median(open), "shut_p99_seconds": median(shut),
			"fits_p99_ratio": median(shut) / median(open), "rounds": float64(fits.rounds),
		}
		return nil
	})
	return out, err
}

// singlePoints writes points that fit.
func (b *bench) singlePoints(ctx context.Context, s *server) (*load.Report, error) {
	fits := b.form.fits
	o := b.options(s)
	o.Workload.Batch = 1
	o.Pace = load.Pace{Writers: 4, Rate: fits.rate, Duration: fits.round}
	return b.load(ctx, o)
}

// singlePointsShut writes them while the gate is shut, from before the first to after the last. Where it opened on the
// way, because room was found that was reserved at first, the tier is filled again. None of the points may be refused.
func (b *bench) singlePointsShut(ctx context.Context, s *server) (report *load.Report, err error) {
	err = s.poll(ctx, fillLimit, "the gate stays shut", func() (bool, error) {
		if err := b.fill(ctx, s, b.form.fits.fillBatch); err != nil {
			return false, err
		}
		before, err := s.status(ctx)
		if err != nil {
			return false, err
		}
		points := b.form.fits.rate * b.form.fits.round.Seconds()
		if room := float64(before.roomBytes()); room < points*pointBytes {
			return false, fmt.Errorf("the fuller memtable has room for %.0f bytes, want it for %.0f points", room, points)
		}
		if report, err = b.singlePoints(ctx, s); err != nil {
			return false, err
		}
		after, err := s.status(ctx)
		return err == nil && after.blocked() > 0 && after.flushes() == before.flushes(), err
	})
	if err != nil {
		return nil, err
	}
	if report.Totals.Refusals > 0 {
		return nil, fmt.Errorf("%d writes that fit were refused", report.Totals.Refusals)
	}
	return report, b.empty(ctx, s)
}

// median is of a list that is not empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// measureRefusals compares the server's CPU time of an admission, all that follows from it included, with that of a
// refusal. Of both the reciprocal is what a server at full CPU could do per second.
func measureRefusals(ctx context.Context, b *bench) (*outcome, error) {
	flat := b.form.flat
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	var admitted, unread, parsed *load.Report
	err := b.with(ctx, serverSettings(flat.tierBytes, flat.memtableBytes), false, func(s *server) (err error) {
		admitted, err = b.load(ctx, b.flatOut(s, flat.batch))
		return err
	})
	if err != nil {
		return nil, err
	}
	// Without a hold no refusal waits, and none is paid for by a pause. One shard fills to its last row: of two, one would
	// keep room for half of every batch that the other refuses.
	atOnce := serverSettings(flat.tierBytes, flat.memtableBytes, sharply, "admission.max_wait=0s", "shards=1")
	err = b.with(ctx, atOnce, false, func(s *server) error {
		err := b.block(ctx, s, flat.batch)
		if err != nil {
			return err
		}
		if unread, err = b.load(ctx, b.flatOut(s, flat.batch)); err != nil {
			return err
		}
		parsed, err = b.load(ctx, b.flatOut(s, parsedBatch))
		return err
	})
	if err != nil {
		return nil, err
	}
	if admitted.Server == nil || unread.Server == nil || parsed.Server == nil {
		return nil, errors.New("the CPU time of the server can't be had")
	}
	out.figures = refusalFigures(admitted, unread, parsed, float64(flat.batch))
	return out, nil
}

// refusalFigures compares an unread refusal with an admission of the same body, and a parsed one with the admission of
// as many points as it has.
func refusalFigures(admitted, unread, parsed *load.Report, batch float64) Figures {
	admissions := float64(admitted.Totals.Admissions)
	admissionCPU := cpuPer(admitted, admitted.Totals.Admissions)
	unreadCPU, parsedCPU := cpuPer(unread, unread.Totals.Refusals), cpuPer(parsed, parsed.Totals.Refusals)
	return Figures{
		"unread_ratio":                 admissionCPU / unreadCPU,
		"parsed_ratio":                 admissionCPU * parsedBatch / batch / parsedCPU,
		"admission_cpu_seconds":        admissionCPU,
		"unread_refusal_cpu_seconds":   unreadCPU,
		"parsed_refusal_cpu_seconds":   parsedCPU,
		"admissions_per_second":        admissions / admitted.Run.Seconds,
		"unread_refusals_per_second":   float64(unread.Totals.Refusals) / unread.Run.Seconds,
		"parsed_refusals_per_second":   float64(parsed.Totals.Refusals) / parsed.Run.Seconds,
		"admitted_while_shut":          float64(unread.Totals.Admissions + parsed.Totals.Admissions),
		"failures_of_unread_refusals":  float64(unread.Totals.Failures),
		"body_bytes":                   float64(admitted.Totals.AcknowledgedBytes) / max(1, admissions),
		"server_cores_while_admitting": admitted.Server.CPUSeconds / admitted.Run.Seconds,
		"server_cores_while_refusing":  unread.Server.CPUSeconds / unread.Run.Seconds,
	}
}

// parsedBatch is so small that its body stays below admission.unread_refusal_bytes and is parsed before it is refused.
const parsedBatch = 100

// flatOut are options of writers that send as fast as they are answered, and come back at once when refused.
func (b *bench) flatOut(s *server, batch int) load.Options {
	o := b.options(s)
	o.Workload.Batch = batch
	o.Workload.Start = o.Workload.Start.AddDate(1, 0, 0)
	o.Pace = load.Pace{Writers: maximumWriters, Duration: b.form.flat.run / 2}
	o.Refusals = load.Refusals{Policy: load.Retry, Delay: time.Millisecond, Buffer: bufferBatches}
	return o
}

// cpuTick is the unit in which CPU time is known, in seconds.
const cpuTick = 0.01

// cpuPer is the server's CPU time for each of what it answered, in seconds.
func cpuPer(r *load.Report, count int64) float64 {
	return max(cpuTick, r.Server.CPUSeconds) / float64(max(1, count))
}
