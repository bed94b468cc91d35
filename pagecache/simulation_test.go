package pagecache

import (
	"math"
	"testing"
	"time"
)

// weir is a small model of a gateway under overload, in steps of 10 ms: clients that make 10 times what the drain can
// take, keep five batches each, and obey Retry-After. It compares policies; it doesn't predict a machine's figures.
type weir struct {
	clock   *handClock
	policy  policy
	halted  func(second int) bool // whether compaction stands still
	clients []weirClient

	step       int
	filling    int64 // bytes in the active memtable
	flushes    []weirFlush
	registered int64
	jobBytes   int64 // inputs of the compaction job that runs
	jobDone    int64

	admitted []float64 // bytes in each second
	refusals int
}

type weirClient struct {
	buffered int64
	nextTry  int // step
}

type weirFlush struct {
	end    int // step
	settle func()
}

// policy is the gate under test.
type policy interface {
	seal(sizeBytes int64) (settle func(), ok bool)
	retryAfter(w *weir) time.Duration
	drained(mergedBytes, retiredBytes int64)
}

const (
	weirSeconds = 300
	weirWarmUp  = 60
	weirStep    = 10 * time.Millisecond
	weirDrain   = 200_000 // bytes in a step
	weirBatch   = 1_000_000
	weirSegment = 8 * weirBatch
	weirTier    = 8 * weirSegment
)

func (w *weir) run() {
	w.clients = make([]weirClient, 200)
	for i := range w.clients {
		w.clients[i].nextTry = i / 2 // within the first second
	}
	w.admitted = make([]float64, weirSeconds)
	for w.step = range weirSeconds * 100 {
		w.clock.Advance(weirStep)
		w.flush()
		if !w.halted(w.step / 100) {
			w.compact()
		}
		for i := range w.clients {
			w.serve(&w.clients[i])
		}
	}
}

func (w *weir) flush() {
	for len(w.flushes) > 0 && w.flushes[0].end <= w.step {
		w.flushes[0].settle()
		w.flushes = w.flushes[1:]
		w.registered += weirSegment
	}
}

// compact merges up to four segments in a job and frees them in one lump at its end.
func (w *weir) compact() {
	if w.jobBytes == 0 {
		w.jobBytes = min(w.registered, 4*weirSegment)
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

func (w *weir) serve(client *weirClient) {
	client.buffered = min(client.buffered+weirBatch/100, 5*weirBatch)
	if w.step < client.nextTry || client.buffered < weirBatch {
		return
	}
	if w.filling+weirBatch > weirSegment && !w.seal() {
		w.refusals++
		client.nextTry = w.step + int(w.policy.retryAfter(w)/weirStep)
		return
	}
	w.filling += weirBatch
	client.buffered -= weirBatch
	w.admitted[w.step/100] += weirBatch
}

func (w *weir) seal() bool {
	settle, ok := w.policy.seal(weirSegment)
	if ok {
		w.flushes = append(w.flushes, weirFlush{end: w.step + 10, settle: settle})
		w.filling = 0
	}
	return ok
}

// sentAway is what those clients will bring that were refused and aren't back yet.
func (w *weir) sentAway() int64 {
	sum := int64(0)
	for i := range w.clients {
		if w.clients[i].nextTry > w.step {
			sum += weirBatch
		}
	}
	return sum
}

// goodput is the admitted share of what could drain, and the variation of the seconds.
func (w *weir) goodput() (share, variation float64) {
	seconds := w.admitted[weirWarmUp:]
	sum, squares := 0.0, 0.0
	for _, bytes := range seconds {
		sum += bytes
		squares += bytes * bytes
	}
	mean := sum / float64(len(seconds))
	return mean / (weirDrain * 100), math.Sqrt(squares/float64(len(seconds))-mean*mean) / mean
}

// onOff is a gate that knows its bound and nothing else.
type onOff struct {
	level  int64
	answer time.Duration
}

func (p *onOff) seal(sizeBytes int64) (func(), bool) {
	if p.level+sizeBytes > weirTier {
		return nil, false
	}
	p.level += sizeBytes
	return func() {}, true
}

func (p *onOff) retryAfter(*weir) time.Duration      { return p.answer }
func (p *onOff) drained(_ int64, retiredBytes int64) { p.level -= retiredBytes }

// controlled is the gate with a Controller.
type controlled struct {
	controller *Controller
	ahead      func(w *weir) int64
}

func (p *controlled) seal(sizeBytes int64) (func(), bool) {
	r, ok := p.controller.Reserve(sizeBytes)
	return func() { r.Settle(sizeBytes) }, ok
}

func (p *controlled) retryAfter(w *weir) time.Duration {
	return p.controller.RetryAfter(p.ahead(w), weirSegment)
}

func (p *controlled) drained(mergedBytes, retiredBytes int64) {
	p.controller.Retire(retiredBytes)
	p.controller.Drained(mergedBytes, weirStep)
}

func TestGoodputUnderOverload(t *testing.T) {
	nobody := func(*weir) int64 { return 0 }
	always := func(int) bool { return false }
	thirtySeconds := func(second int) bool { return second >= 120 && second < 150 }
	tests := []struct {
		name   string
		policy func(clock *handClock) policy
		halted func(second int) bool
		least  float64 // goodput
		most   float64
	}{
		{"on/off, Retry-After 1", onOffFor(time.Second), always, 0.9, 1.05},
		{"on/off, Retry-After 10", onOffFor(10 * time.Second), always, 0.1, 0.5},
		{"controller", controlledBy(nobody), always, 0.95, 1.05},
		{"controller, told who was sent away", controlledBy((*weir).sentAway), always, 0.95, 1.05},
		{"drain halted for 30 s: on/off, Retry-After 1", onOffFor(time.Second), thirtySeconds, 0.7, 0.95},
		{"drain halted for 30 s: controller", controlledBy(nobody), thirtySeconds, 0.8, 0.95},
		{"drain halted for 30 s: told", controlledBy((*weir).sentAway), thirtySeconds, 0.8, 0.95},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			clock := newHandClock()
			w := &weir{clock: clock, policy: test.policy(clock), halted: test.halted}
			w.run()
			share, variation := w.goodput()
			batches := share * weirDrain * 100 / weirBatch * (weirSeconds - weirWarmUp)
			t.Logf("goodput %.2f, variation %.2f, refusals per batch %.1f",
				share, variation, float64(w.refusals)/batches)
			if share < test.least || share > test.most {
				t.Errorf("goodput is %.2f of the drain, want %.2f to %.2f", share, test.least, test.most)
			}
			if gate, ok := w.policy.(*controlled); ok && gate.controller.Ledger().HighestBytes > weirTier {
				t.Errorf("%+v was beyond the bound", gate.controller.Ledger())
			}
		})
	}
}

func onOffFor(answer time.Duration) func(*handClock) policy {
	return func(*handClock) policy { return &onOff{answer: answer} }
}

func controlledBy(ahead func(*weir) int64) func(*handClock) policy {
	return func(clock *handClock) policy {
		return &controlled{NewController(Options{CapacityBytes: weirTier, Now: clock.Now}), ahead}
	}
}
