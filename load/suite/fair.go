package suite

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"lineweir/load"
)

// The modest client asks for a tenth of the maximum, a fifth of its equal share; the greedy one for 100 × that.
const (
	modestFactor  = 0.1
	greedyFactor  = 100 * modestFactor
	modestWriters = 8
)

// Addresses of the two clients; the writers of each share one.
var (
	modestSource = netip.AddrFrom4([4]byte{127, 0, 2, 1})
	greedySource = netip.AddrFrom4([4]byte{127, 0, 3, 1})
)

func measureFairness(ctx context.Context, b *bench) (*outcome, error) {
	out := &outcome{figures: Figures{}, goodput: map[string][]int64{}}
	err := b.with(ctx, b.form.weir(), true, func(s *server) error { return b.besideGreedy(ctx, s, out) })
	if err != nil {
		return out, err
	}
	return out, b.with(ctx, b.form.weir(), true, func(s *server) error { return b.amongEquals(ctx, s, out) })
}

// besideGreedy loads with both clients at once. The greedy one begins first, so that the tier is full when the modest
// one comes.
func (b *bench) besideGreedy(ctx context.Context, s *server, out *outcome) error {
	greedy := b.oneClient(s, greedySource, greedyFactor)
	greedy.Workload.Start = greedy.Workload.Start.AddDate(1, 0, 0) // points of its own
	greedy.Pace.Duration = b.form.settle + b.form.fair
	modest := b.oneClient(s, modestSource, modestFactor)
	modest.Pace.Writers, modest.Progress = modestWriters, nil

	begun := make(chan struct{})
	var once sync.Once
	show := greedy.Progress
	greedy.Progress = func(p load.Progress) {
		if p.Elapsed >= b.form.settle {
			once.Do(func() { close(begun) })
		}
		if show != nil {
			show(p)
		}
	}
	var modestReport *load.Report
	var modestErr error
	var beside sync.WaitGroup
	ended := make(chan struct{})
	beside.Go(func() {
		select {
		case <-begun:
			modestReport, modestErr = b.load(ctx, modest)
		case <-ended:
			modestErr = errors.New("the run of the greedy client ended early")
		}
	})
	greedyReport, greedyErr := b.load(ctx, greedy)
	close(ended)
	beside.Wait()
	if err := errors.Join(greedyErr, modestErr); err != nil {
		return err
	}
	out.goodput["greedy"], out.goodput["modest"] = goodputOf(greedyReport), goodputOf(modestReport)
	out.figures["modest_share"] = modestReport.Goodput()
	out.figures["modest_p99_seconds"] = modestReport.Admitted.P99
	out.figures["modest_refusals"] = float64(modestReport.Totals.Refusals)
	out.figures["greedy_points_per_second"] = float64(greedyReport.Totals.Acknowledged) / greedyReport.Run.Seconds
	out.figures["greedy_refusals"] = float64(greedyReport.Totals.Refusals)
	return nil
}

// oneClient are options of writers that share an address.
func (b *bench) oneClient(s *server, source netip.Addr, factor float64) load.Options {
	o := b.options(s)
	o.Target.Source, o.Target.OneSource = source, true
	o.Pace.Rate, o.Pace.Duration = factor*b.maximum, b.form.fair
	return o
}

// amongEquals loads with as many clients as the form has writers, each with the same demand.
func (b *bench) amongEquals(ctx context.Context, s *server, out *outcome) error {
	report, err := b.load(ctx, b.overload(s, load.Profile{{Factor: overloadFactor, Duration: b.form.fair}}))
	if err != nil {
		return err
	}
	out.goodput["equals"] = goodputOf(report)
	out.figures["jain"] = report.Jain()
	return nil
}
