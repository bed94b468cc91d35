package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"lineweir/load"
)

// Options say what is shown and how.
type Options struct {
	Binary   string   // the lineweir that is started
	Version  string   // of this program
	Short    bool     // the short form
	Only     []string // names of scenarios; empty: all
	Dir      string   // where records are written; "": nowhere
	Seed     uint64
	Out      io.Writer           // the table and what leads to it
	Progress func(load.Progress) // nil: nobody looks
}

// ErrMissed says that a gate was missed.
var ErrMissed = errors.New("a gate was missed")

// ErrUsage says that the options make no sense; nothing was started.
var ErrUsage = errors.New("the options make no sense")

// scenario measures one fresh server, or several one after the other.
type scenario struct {
	name     string
	about    string
	relative bool // its rates are multiples of the sustainable maximum
	measure  func(context.Context, *bench) (*outcome, error)
}

// scenarios in the order in which they run.
var scenarios = []scenario{
	{Maximum, "closed loop, then an open loop at 95 % of what it found", true, measureSteady},
	{Overload, "10 × the maximum; read back and counted afterwards", true, measureOverload},
	{Fits, "single points while compaction is paused and the tier is full", false, measureFits},
	{Recovery, "10 × the maximum, compaction paused on the way", true, measureRecovery},
	{Metastability, "10 × the maximum, then 0.8 ×", true, measureMetastability},
	{Fairness, "one client beside another at 100 × its demand; then equals", true, measureFairness},
	{Refusals, "the CPU that refusals and admissions take", false, measureRefusals},
	{Memory, "slow clients and writers flat out, no limit of the drain", false, measureMemory},
}

// Names are those of the scenarios.
func Names() []string {
	var names []string
	for i := range scenarios {
		names = append(names, scenarios[i].name)
	}
	return names
}

// outcome is what a scenario measured.
type outcome struct {
	figures Figures
	goodput map[string][]int64 // acknowledged points of each second, by run
}

// bench is what the scenarios of one invocation share.
type bench struct {
	form     *form
	binary   string
	version  string
	seed     uint64
	root     string // directory of all servers
	progress func(load.Progress)
	maximum  float64 // points per second; 0: not measured yet
	seals    float64 // per second at the maximum
	fills    int     // runs that filled a tier, each with points of its own days
}

// Validate returns every problem at once, each an ErrUsage.
func (o *Options) Validate() error {
	var problems []error
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			problems = append(problems, fmt.Errorf("%w: there is no scenario %q, only %s",
				ErrUsage, name, strings.Join(Names(), ", ")))
		}
	}
	if o.Dir != "" {
		if info, err := os.Stat(o.Dir); err != nil || !info.IsDir() {
			problems = append(problems, fmt.Errorf("%w: %s is no directory", ErrUsage, o.Dir))
		}
	}
	return errors.Join(problems...)
}

// Run measures the scenarios, one after the other, and prints figure, gate and verdict. Its error is ErrMissed if any
// gate was missed, also for want of a figure. A scenario that fails does not keep the others from running; the end of
// ctx does.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "lineweir-suite-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	b := &bench{
		form: long(), binary: o.Binary, version: o.Version, seed: o.Seed, root: root, progress: o.Progress,
	}
	if o.Short {
		b.form = short()
	}
	p := printer{to: o.Out}
	p.head(b)
	var records []*Record
	for i := range scenarios {
		s := &scenarios[i]
		if len(o.Only) > 0 && !slices.Contains(o.Only, s.name) {
			continue
		}
		record := b.run(ctx, s)
		if ctx.Err() != nil {
			return fmt.Errorf("scenario %s: %w", s.name, context.Cause(ctx))
		}
		p.scenario(record)
		records = append(records, record)
		if o.Dir != "" {
			if err := record.writeInto(o.Dir); err != nil {
				return err
			}
		}
	}
	results := judgeAll(records)
	p.table(results)
	return errors.Join(p.err, missed(results))
}

// run measures one scenario. What fails is part of its record.
func (b *bench) run(ctx context.Context, s *scenario) *Record {
	record := b.newRecord(s)
	begun := time.Now()
	measured, err := b.measure(ctx, s)
	record.Seconds = time.Since(begun).Seconds()
	if err != nil {
		record.Failure = err.Error()
	}
	if measured != nil {
		measured.figures.finite()
		record.Figures, record.Goodput = measured.figures, measured.goodput
	}
	record.Maximum, record.Seals = b.maximum, b.seals
	return record
}

func (b *bench) measure(ctx context.Context, s *scenario) (*outcome, error) {
	if s.relative && b.maximum == 0 {
		if err := b.findMaximum(ctx); err != nil {
			return nil, fmt.Errorf("find the sustainable maximum: %w", err)
		}
	}
	return s.measure(ctx, b)
}

// with starts a server for what is measured, and stops it; limited: its drain is that of the form.
func (b *bench) with(ctx context.Context, s settings, limited bool, measure func(*server) error) error {
	started, err := startServer(ctx, b.binary, b.root, s)
	if err != nil {
		return err
	}
	if limited {
		err = started.limitDrain(ctx, b.form.drainPerSecond)
	}
	if err == nil {
		err = measure(started)
	}
	return errors.Join(err, started.stop())
}

// load runs once and looks at what no run may show: a refusal that says too little, or a tier above its bound.
func (b *bench) load(ctx context.Context, o load.Options) (*load.Report, error) {
	report, err := load.Run(ctx, o)
	if report == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return report, errors.Join(err, checkRefusals(report))
}

// goodputOf is the acknowledged points of each second.
func goodputOf(r *load.Report) []int64 {
	points := make([]int64, len(r.Seconds))
	for i := range r.Seconds {
		points[i] = r.Seconds[i].Acknowledged
	}
	return points
}

// whole is a duration in whole seconds, as the seconds of a report are counted.
func whole(d time.Duration) int { return int(d / time.Second) }
