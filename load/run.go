package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// How long what has begun may go on behind the end of a run.
const (
	tailDuration     = 2 * time.Second // for batches that are late
	interruptedGrace = 3 * time.Second // for requests on their way when the run is interrupted
)

// Shares of Options.MemoryBytes.
const (
	corpusShare   = 2 // half: bodies made ahead, and their index
	buffersShare  = 2 // the other half during the run: buffers of clients
	fatesShare    = 8
	verifierShare = 4 // after the run: what was seen
)

// errMemoryFull ends a run whose record of batches has no more room.
var errMemoryFull = errors.New(EndedByMemory)

// run is what the parts of one run share.
type run struct {
	options  *Options
	corpus   *corpus
	plan     *plan
	maker    *bodyMaker
	collect  *collector
	report   *Report
	verifier *verifier // nil: nothing is verified
	server   *processGauge
	tester   *processGauge
	pressure *pressureGauge
	connect  func(client int) sender
	started  time.Time
}

// Run loads the target and returns what was measured; also when ctx ended it early, and also beside an error of the
// verification. With any other error nothing was measured.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{options: &o}
	r.connect = func(client int) sender { return newHTTPSender(&o.Target, o.Target.sourceOf(client)) }
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.close()
	r.drive(ctx)
	return r.report, r.verify(ctx)
}

// prepare does all that can fail before anything is sent.
func (r *run) prepare(ctx context.Context) error {
	o := r.options
	server, err := probe(ctx, &o.Target)
	if err != nil {
		return err
	}
	if r.corpus, err = buildCorpus(ctx, o.Workload, r.corpusOptions()); err != nil {
		return err
	}
	buffers := int64(o.Pace.Writers) * bufferBytes(r.corpus, o.Target.Gzip)
	if buffers > o.MemoryBytes/buffersShare {
		return fmt.Errorf("%w: the buffers of %d writers need %d bytes, more than %d",
			ErrMemory, o.Pace.Writers, buffers, o.MemoryBytes/buffersShare)
	}
	r.plan = newPlan(r.corpus, &o.Pace)
	r.collect = newCollector(r.plan, o.Pace.Writers, o.Verify)
	r.report = newReport(o, r.corpus)
	r.report.Run.Server = printable(server)
	r.report.Label = cmp.Or(o.Label, r.report.Run.Server)
	if r.maker, err = newBodyMaker(r.corpus, o.Target.Gzip); err != nil {
		return err
	}
	if o.Target.Create {
		if err = createDatabase(ctx, &o.Target); err != nil {
			return err
		}
	}
	if err = r.prepareVerifier(ctx); err != nil {
		return err
	}
	return r.prepareGauges(ctx)
}

func (r *run) corpusOptions() corpusOptions {
	o := corpusOptions{bytesMax: r.options.MemoryBytes / corpusShare, linesMax: r.options.Pace.Points}
	if r.options.Verify {
		o.lineBytes = indexEntryBytes
	}
	if pace := &r.options.Pace; pace.Rate > 0 {
		due := newSchedule(pace).points(pace.duration()) + 1
		if o.linesMax == 0 || due < o.linesMax {
			o.linesMax = due
		}
	}
	return o
}

func (r *run) prepareVerifier(ctx context.Context) error {
	if !r.options.Verify {
		return nil
	}
	var err error
	if r.verifier, err = newVerifier(&r.options.Target, r.corpus); err != nil {
		return err
	}
	known, err := r.verifier.holdsPoints(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnread, err)
	}
	if known {
		r.warn("the database held points of these measurements and times before: that they are there proves little")
	}
	return nil
}

func (r *run) prepareGauges(ctx context.Context) error {
	if r.options.ServerPID != 0 {
		gauge, err := newProcessGauge(r.options.ServerPID)
		if err != nil {
			return err
		}
		r.server = gauge
	}
	if gauge, err := newProcessGauge(os.Getpid()); err == nil { // where it can't be measured, it is left out
		r.tester = gauge
	}
	r.pressure = newPressureGauge(ctx, &r.options.Target)
	return nil
}

func (r *run) close() {
	if r.pressure != nil {
		r.pressure.close()
	}
}

func (r *run) warn(format string, args ...any) {
	r.report.Warnings = append(r.report.Warnings, fmt.Sprintf(format, args...))
}

// drive sends until the end of the run, and fills the report.
func (r *run) drive(ctx context.Context) {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	clients := r.newClients()
	r.started = time.Now()
	ends, cancel := r.contexts(running)
	defer cancel()

	var sending, watching sync.WaitGroup
	for _, c := range clients {
		c.contexts = ends
		sending.Go(c.run)
	}
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	watching.Go(func() { r.watch(watched, stop) })
	sending.Wait()
	elapsed := time.Since(r.started)
	unwatch()
	watching.Wait()
	r.finish(ctx, elapsed, context.Cause(running))
}

// contexts makes the ends of the run. An interrupt ends pace and tail at once, and cuts off after a while what is still
// on its way.
func (r *run) contexts(running context.Context) (contexts, func()) {
	end := r.started.Add(r.plan.schedule.end())
	late := end
	if !r.plan.closed {
		late = end.Add(tailDuration)
	}
	pace, cancelPace := context.WithDeadline(running, end)
	tail, cancelTail := context.WithDeadline(running, late)
	flush, cancelFlush := context.WithCancel(context.WithoutCancel(running))
	var grace *time.Timer
	stopped := make(chan struct{})
	unhook := context.AfterFunc(running, func() {
		grace = time.AfterFunc(interruptedGrace, cancelFlush)
		close(stopped)
	})
	return contexts{pace, tail, flush}, func() {
		if !unhook() {
			<-stopped
			grace.Stop()
		}
		cancelPace()
		cancelTail()
		cancelFlush()
	}
}

// newClients makes the clients, each with its first body.
func (r *run) newClients() []*client {
	o := r.options
	clients := make([]*client, o.Pace.Writers)
	var shared atomic.Int64
	for id := range clients {
		c := &client{
			id: id, plan: r.plan, stride: int64(o.Pace.Writers), ahead: newAhead(r.maker),
			sender: r.connect(id), refusals: o.Refusals,
			clock: func() time.Duration { return time.Since(r.started) }, collect: r.collect,
		}
		c.claim = func() int64 { return shared.Add(1) - 1 }
		if !r.plan.closed {
			c.claim = strided(int64(id), c.stride)
		}
		clients[id] = c
	}
	for _, c := range clients {
		c.more = c.prepare()
	}
	for _, c := range clients {
		if c.more {
			c.ahead.wait()
		}
	}
	return clients
}

// strided yields first, first+stride, and so on.
func strided(first, stride int64) func() int64 {
	next := first - stride
	return func() int64 {
		next += stride
		return next
	}
}

// finish makes the report of a run that is over.
func (r *run) finish(ctx context.Context, elapsed time.Duration, cause error) {
	report := r.report
	r.collect.fill(report)
	report.Started = r.started.UTC()
	report.Run.Seconds = elapsed.Seconds()
	r.offeredSeconds()
	switch {
	case errors.Is(cause, errMemoryFull):
		report.Run.Ended = EndedByMemory
	case ctx.Err() != nil:
		report.Run.Ended = EndedByInterrupt
	case r.options.Pace.Points > 0 && elapsed < r.plan.schedule.end():
		report.Run.Ended = EndedByPoints
	default:
		report.Run.Ended = EndedByTime
	}
	if r.server != nil {
		report.Server = r.server.report()
	}
	if r.tester != nil {
		report.Tester = r.tester.report()
	}
	if r.pressure != nil {
		report.Pressure = &r.pressure.report
	}
	if report.Totals.Late > 0 {
		r.warn("%s points were due and never sent, because all writers still waited for answers: the latencies are "+
			"lower than what more writers would have seen", grouped(report.Totals.Late))
	}
}

// offeredSeconds spreads what was due over the seconds. Without a rate, points were offered when they were sent.
func (r *run) offeredSeconds() {
	if r.plan.closed {
		return
	}
	seconds := r.report.Seconds
	for i := range seconds {
		begin := time.Duration(i) * time.Second
		seconds[i].Offered = r.plan.offered(begin+time.Second) - r.plan.offered(begin)
	}
}

// verify reads back what was acknowledged.
func (r *run) verify(ctx context.Context) error {
	if r.verifier == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: interrupted", ErrUnread)
	}
	verified, err := r.verifier.verify(ctx, r.plan, &r.collect.fates, r.options.MemoryBytes/verifierShare)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnread, err)
	}
	r.report.Verified = verified
	if !verified.Sound() {
		return fmt.Errorf("%w: %d points missing, %d double, %d altered, %d stored though refused", ErrUnsound,
			verified.Missing, verified.Double, verified.Altered, verified.RefusedStored)
	}
	return nil
}
