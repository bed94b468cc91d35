package pagecache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// weir is a model of a gateway under overload, in virtual time and steps of 10 ms: clients that make 10 times what the
// drain can take, keep five batches each, and obey Retry-After. It is seeded, so that every run is the same. It compares
// policies; it doesn't predict a machine's figures.
type weir struct {
	weirSetup
	clock   *handClock
	random  *rand.Rand
	policy  policy
	clients []weirClient

	step       int
	filling    int64 // bytes in the active memtable
	capBytes   int64 // of it
	flushes    []weirFlush
	registered int64
	jobBytes   int64 // inputs of the compaction job that runs
	jobDone    int64
	waiters    []*weirWrite

	admitted  []float64 // bytes in each second
	waits     []time.Duration
	refusals  int
	first     int // returns that were a write's first
	firstGood int // of these the admitted ones
}

// weirSetup is what a scenario varies.
type weirSetup struct {
	clients int
	seconds int
	hold    time.Duration
	halted  func(second int) bool                   // whether compaction stands still
	offered func(client int, second int) int64      // bytes per second
	batch   func(client int) int64                  // bytes
	address func(client int) string                 // whom a client counts as
	starts  func(client int, random *rand.Rand) int // step
}

type weirClient struct {
	buffered int64
	nextTry  int // step
	waiting  bool
	refusals int // of the batch that is its first
	admitted float64
	offered  float64
}

type weirFlush struct {
	end       int // step
	sizeBytes int64
	settle    func()
}

type weirWrite struct {
	client int
	since  int // step
	place  *Place
}

// policy is the gate under test.
type policy interface {
	// reserve takes room for a seal.
	reserve(sizeBytes int64) (settle func(), ok bool)
	// join lets a write wait that needs a seal; else it is refused.
	join(w *weir, client int) (place *Place, retryAfter time.Duration)
	// admitted tells of a write that got its room, without waiting if place is nil.
	admitted(w *weir, client int, place *Place)
	// giveUp ends a wait.
	giveUp(w *weir, place *Place) (retryAfter time.Duration)
	nextCap() int64
	jobBytes(random *rand.Rand) int64
	drained(mergedBytes, retiredBytes int64)
}

const (
	weirStep    = 10 * time.Millisecond
	weirDrain   = 200_000 // bytes in a step
	weirBatch   = 1_000_000
	weirSegment = 8 * weirBatch
	weirTier    = 8 * weirSegment

	weirWarmUp = 60 // seconds
	weirHold   = 2 * time.Second
)

// overload is 200 clients that each make 1 MB/s, 10 times the drain, for 300 s.
func overload() weirSetup {
	return weirSetup{
		clients: 200, seconds: 300, hold: weirHold,
		halted:  func(int) bool { return false },
		offered: func(int, int) int64 { return weirBatch },
		batch:   func(int) int64 { return weirBatch },
		address: func(client int) string { return fmt.Sprintf("client %d", client) },
		starts:  func(client int, _ *rand.Rand) int { return client / 2 },
	}
}

// policyMaker makes the policy of a run.
type policyMaker func(clock *handClock, random *rand.Rand, hold time.Duration) policy

// simulate runs a scenario through a policy.
func simulate(setup weirSetup, make policyMaker) *weir {
	clock, random := newHandClock(), rand.New(rand.NewPCG(1, 2))
	w := &weir{weirSetup: setup, clock: clock, random: random, policy: make(clock, random, setup.hold)}
	w.clients = slices.Repeat([]weirClient{{}}, setup.clients)
	for i := range w.clients {
		w.clients[i].nextTry = setup.starts(i, random)
	}
	w.admitted = slices.Repeat([]float64{0}, setup.seconds)
	w.capBytes = w.policy.nextCap()
	for w.step = range setup.seconds * 100 {
		w.clock.Advance(weirStep)
		w.flush()
		if !w.halted(w.step / 100) {
			w.compact()
		}
		w.pump()
		for i := range w.clients {
			w.serve(i)
		}
	}
	return w
}

func (w *weir) flush() {
	for len(w.flushes) > 0 && w.flushes[0].end <= w.step {
		w.flushes[0].settle()
		w.registered += w.flushes[0].sizeBytes
		w.flushes = w.flushes[1:]
	}
}

// compact merges what the policy takes in a job, and frees it in one lump at its end.
func (w *weir) compact() {
	if w.jobBytes == 0 {
		w.jobBytes = min(w.registered, w.policy.jobBytes(w.random))
	}
	if w.jobBytes == 0 {
		return
	}
	w.jobDone += weirDrain
	retired := int64(0)
	if w.jobDone >= w.jobBytes {
		retired = w.jobBytes
		w.registered -= retired
		w.jobBytes, w.jobDone = 0, 0
	}
	w.policy.drained(weirDrain, retired)
}

// pump commits those who wait, in order, as far as there is room, and ends waits that took too long.
func (w *weir) pump() {
	for len(w.waiters) > 0 && w.fit(w.waiters[0].client) {
		w.admit(w.waiters[0].client, w.waiters[0].place, w.waited(w.waiters[0]))
		w.waiters = w.waiters[1:]
	}
	w.waiters = slices.DeleteFunc(w.waiters, func(waiter *weirWrite) bool {
		if w.waited(waiter) < w.hold {
			return false
		}
		w.refuse(waiter.client, w.policy.giveUp(w, waiter.place))
		return true
	})
}

func (w *weir) waited(waiter *weirWrite) time.Duration {
	return time.Duration(w.step-waiter.since) * weirStep
}

// fit makes room for a client's batch in the active memtable, by a seal if it takes one.
func (w *weir) fit(client int) bool {
	size := w.batch(client)
	if w.filling == 0 || w.filling+size <= w.capBytes {
		return true
	}
	settle, ok := w.policy.reserve(w.filling)
	if ok {
		w.flushes = append(w.flushes, weirFlush{end: w.step + 10, sizeBytes: w.filling, settle: settle})
		w.filling, w.capBytes = 0, w.policy.nextCap()
	}
	return ok
}

// serve lets a client make its bytes, and try if it is time.
func (w *weir) serve(i int) {
	client, size := &w.clients[i], w.batch(i)
	made := w.offered(i, w.step/100) / 100
	client.offered += float64(made)
	client.buffered = min(client.buffered+made, 5*size)
	if client.waiting || w.step < client.nextTry || client.buffered < size {
		return
	}
	if w.filling > 0 && w.filling+size > w.capBytes && len(w.waiters) > 0 || !w.fit(i) {
		w.join(i)
		return
	}
	w.admit(i, nil, 0)
}

func (w *weir) join(i int) {
	place, retryAfter := w.policy.join(w, i)
	if place == nil {
		w.refuse(i, retryAfter)
		return
	}
	waiter := &weirWrite{client: i, since: w.step, place: place}
	at, _ := slices.BinarySearchFunc(w.waiters, waiter, func(a, b *weirWrite) int { return before(a.place, b.place) })
	w.waiters = slices.Insert(w.waiters, at, waiter)
	w.clients[i].waiting = true
}

func (w *weir) refuse(i int, retryAfter time.Duration) {
	client := &w.clients[i]
	w.count(client, false)
	client.refusals++
	client.waiting, client.nextTry = false, w.step+int(retryAfter/weirStep)
	if w.step/100 >= weirWarmUp {
		w.refusals++
	}
}

func (w *weir) admit(i int, place *Place, waited time.Duration) {
	client, size := &w.clients[i], w.batch(i)
	w.policy.admitted(w, i, place)
	w.count(client, true)
	client.waiting, client.refusals = false, 0
	client.buffered -= size
	w.filling += size
	w.admitted[w.step/100] += float64(size)
	if w.step/100 >= weirWarmUp {
		client.admitted += float64(size)
		w.waits = append(w.waits, waited)
	}
}

// count notes how the first return of a write ends.
func (w *weir) count(client *weirClient, good bool) {
	if client.refusals != 1 || w.step/100 < weirWarmUp {
		return
	}
	w.first++
	if good {
		w.firstGood++
	}
}

// onOff is a gate that knows its bound and nothing else.
type onOff struct {
	level  int64
	answer time.Duration
}

func (p *onOff) reserve(sizeBytes int64) (func(), bool) {
	if p.level+sizeBytes > weirTier {
		return nil, false
	}
	p.level += sizeBytes
	return func() {}, true
}

func (p *onOff) join(*weir, int) (*Place, time.Duration) { return nil, p.answer }
func (p *onOff) admitted(*weir, int, *Place)             {}
func (p *onOff) giveUp(*weir, *Place) time.Duration      { return p.answer }
func (p *onOff) nextCap() int64                          { return weirSegment }
func (p *onOff) jobBytes(random *rand.Rand) int64        { return weirSegment * (2 + random.Int64N(3)) }
func (p *onOff) drained(_ int64, retiredBytes int64)     { p.level -= retiredBytes }
func onOffFor(d time.Duration) policyMaker {
	return func(*handClock, *rand.Rand, time.Duration) policy { return &onOff{answer: d} }
}

// paceful is ours: a Controller and Turns, used as the engine does.
type paceful struct {
	controller *Controller
	turns      *Turns
}

func ours(clock *handClock, random *rand.Rand, hold time.Duration) policy {
	c := NewController(Options{CapacityBytes: weirTier, Now: clock.Now, Random: random.Float64})
	return &paceful{controller: c, turns: NewTurns(c, hold)}
}

func (p *paceful) reserve(sizeBytes int64) (func(), bool) {
	r, ok := p.controller.Reserve(sizeBytes)
	return func() { r.Settle(sizeBytes) }, ok
}

func (p *paceful) join(w *weir, client int) (*Place, time.Duration) {
	return p.turns.Join(w.address(client), w.batch(client), Seals{SizeBytes: w.filling})
}

func (p *paceful) admitted(w *weir, client int, place *Place) {
	if place == nil {
		p.turns.Take(w.address(client), w.batch(client))
		return
	}
	p.turns.Serve(place)
}

func (p *paceful) giveUp(w *weir, place *Place) time.Duration {
	return p.turns.Refuse(place, Seals{SizeBytes: w.filling})
}
func (p *paceful) nextCap() int64            { return p.controller.Grain(weirSegment) }
func (p *paceful) jobBytes(*rand.Rand) int64 { return weirTier / 8 } // half of the span, as the engine

func (p *paceful) drained(mergedBytes, retiredBytes int64) {
	if retiredBytes > 0 {
		p.controller.Retire(retiredBytes)
	}
	p.controller.Drained(mergedBytes, weirStep)
	if retiredBytes > 0 {
		p.controller.JobEnded()
	}
}

// figures are those of the table, without the first minute.
type figures struct {
	goodput     float64 // ÷ what could drain
	refusals    float64 // for each admitted write
	p99Wait     time.Duration
	variation   float64 // of the bytes of a second
	starved     float64 // share of seconds below 5 % of the mean
	jain        float64
	firstReturn float64 // share of writes that were admitted when they came back the first time
}

func (w *weir) figures() figures {
	seconds := w.admitted[weirWarmUp:]
	mean, deviation := meanOf(seconds)
	f := figures{
		goodput: mean / (weirDrain * 100), variation: deviation / mean,
		refusals:    float64(w.refusals) / float64(max(1, len(w.waits))),
		firstReturn: float64(w.firstGood) / float64(max(1, w.first)),
	}
	for _, bytes := range seconds {
		if bytes < mean/20 {
			f.starved += 1 / float64(len(seconds))
		}
	}
	slices.Sort(w.waits)
	if len(w.waits) > 0 {
		f.p99Wait = w.waits[len(w.waits)*99/100]
	}
	all := make([]float64, len(w.clients))
	for i := range w.clients {
		all[i] = w.clients[i].admitted
	}
	f.jain = jain(all)
	return f
}

func meanOf(values []float64) (mean, deviation float64) {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	mean = sum / float64(len(values))
	return mean, math.Sqrt(max(0, squares/float64(len(values))-mean*mean))
}

// jain is Jain's index of fairness: 1 when all have the same.
func jain(values []float64) float64 {
	mean, deviation := meanOf(values)
	return mean * mean / (mean*mean + deviation*deviation)
}

// recovery is how many seconds after the end of a halt a whole second is at 90 % of what drains for the first time.
func (w *weir) recovery(end int) int {
	for second := end; second < len(w.admitted); second++ {
		if w.admitted[second] >= 0.9*weirDrain*100 {
			return second - end + 1
		}
	}
	return len(w.admitted)
}

const tableHead = "policy                         goodput  refusals/admit  p99 wait   CV    below 5 %  Jain   first return"

func (f figures) row(name string) string {
	return fmt.Sprintf("%-30s %6.2f  %12.2f  %10s  %5.2f  %6.0f %%  %6.3f  %6.2f",
		name, f.goodput, f.refusals, f.p99Wait.Round(time.Millisecond), f.variation, 100*f.starved, f.jain, f.firstReturn)
}

// TestPoliciesUnderOverload is the table of the design's evidence: 200 clients × 1 MB/s against a drain of 20 MB/s, 8
// segments of 8 MB. On/off with a long fixed Retry-After starves the drain, which shows that the model can tell.
func TestPoliciesUnderOverload(t *testing.T) {
	table := []string{tableHead}
	run := func(name string, setup weirSetup, make policyMaker) (*weir, figures) {
		w := simulate(setup, make)
		f := w.figures()
		table = append(table, f.row(name))
		return w, f
	}
	_, short := run("on/off, Retry-After 1", overload(), onOffFor(time.Second))
	_, long := run("on/off, Retry-After 10", overload(), onOffFor(10*time.Second))
	mine, paced := run("paced, one fair line", overload(), ours)
	halt := overload()
	halt.halted = func(second int) bool { return second >= 120 && second < 150 }
	run("halt 30 s: on/off, 1", halt, onOffFor(time.Second))
	halted, haltedFigures := run("halt 30 s: paced", halt, ours)
	thousand := overload()
	thousand.clients = 1000
	thousand.offered = func(int, int) int64 { return weirBatch / 5 }
	_, many := run("1,000 clients: paced", thousand, ours)
	brief := overload()
	brief.clients, brief.hold = 128, 250*time.Millisecond
	brief.offered = func(int, int) int64 { return weirBatch * 200 / 128 }
	brief.batch = func(int) int64 { return weirBatch / 2 }
	_, briefly := run("128 clients, hold 250 ms: paced", brief, ours)
	t.Logf("\n%s\nrecovery after the halt: %d s", strings.Join(table, "\n"), halted.recovery(150))

	if short.goodput < 0.9 || short.variation < 0.15 {
		t.Errorf("on/off with 1 s: %+v, want its oscillation", short)
	}
	if long.goodput > 0.6 || long.starved < 0.3 {
		t.Errorf("on/off with 10 s: %+v, want it to starve the drain", long)
	}
	paced.meetsGates(t, "200 clients")
	many.meetsGates(t, "1,000 clients")
	briefly.meetsGates(t, "hold of 250 ms")
	if seconds := halted.recovery(150); seconds > 15 {
		t.Errorf("90 %% of the goodput %d s after the halt, want 15 at most", seconds)
	}
	if haltedFigures.goodput < 0.8 || haltedFigures.jain < 0.9 {
		t.Errorf("with a halt: %+v", haltedFigures)
	}
	for _, w := range []*weir{mine, halted} {
		if ledger := w.policy.(*paceful).controller.Ledger(); ledger.HighestBytes > weirTier {
			t.Errorf("%+v was beyond the bound", ledger)
		}
	}
}

// meetsGates holds the gates that the load suite holds on the real binary.
func (f figures) meetsGates(t *testing.T, name string) {
	t.Helper()
	if f.goodput < 0.9 || f.variation > 0.15 || f.starved > 0 || f.jain < 0.95 {
		t.Errorf("%s: %+v, want goodput 0.9, variation 0.15, no starved second, Jain 0.95", name, f)
	}
	if f.refusals > 2 || f.firstReturn < 0.5 || f.p99Wait > weirHold {
		t.Errorf("%s: %+v, want 2 refusals, first return 0.5, p99 %s", name, f, weirHold)
	}
}

// A client that wants less than its share gets it, beside another that wants a hundred times as much over as many
// connections. Counted as one client with the other, it does not, which shows that it is the line that gives it.
func TestAModestClientBesideAGreedyOne(t *testing.T) {
	const modest = 0
	setup := overload()
	setup.clients, setup.seconds = 101, 120
	setup.offered = func(int, int) int64 { return 2_000_000 } // a tenth of the drain each
	setup.batch = func(int) int64 { return weirBatch / 5 }
	setup.address = func(client int) string {
		if client == modest {
			return "modest"
		}
		return "greedy"
	}
	share := func(w *weir) float64 {
		offered := 2_000_000 * float64(setup.seconds-weirWarmUp)
		return w.clients[modest].admitted / offered
	}
	w := simulate(setup, ours)
	if got := share(w); got < 0.95 {
		t.Errorf("a modest client gets %.2f of what it wants, want 0.95", got)
	}
	if f := w.figures(); f.goodput < 0.9 {
		t.Errorf("goodput %.2f beside it, want 0.9", f.goodput)
	}
	setup.address = func(int) string { return "one" }
	if got := share(simulate(setup, ours)); got > 0.9 {
		t.Errorf("without a share of its own it gets %.2f: the test shows nothing", got)
	}
}

// Clients with small and with large writes get the same bytes.
func TestSmallWritesDoNotStarveLargeOnes(t *testing.T) {
	setup := overload()
	setup.clients, setup.seconds = 40, 180
	setup.offered = func(int, int) int64 { return 5_000_000 }
	setup.batch = func(client int) int64 {
		if client%2 == 0 {
			return 50_000
		}
		return 2_000_000
	}
	w := simulate(setup, ours)
	var small, large float64
	for i := range w.clients {
		if i%2 == 0 {
			small += w.clients[i].admitted
		} else {
			large += w.clients[i].admitted
		}
	}
	t.Logf("small writes %.0f MB, large ones %.0f MB, %+v", small/1e6, large/1e6, w.figures())
	if index := jain([]float64{small, large}); index < 0.95 {
		t.Errorf("Jain %.3f between small (%.0f) and large (%.0f), want 0.95", index, small, large)
	}
}
