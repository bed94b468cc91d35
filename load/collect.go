package load

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// attempt is one try to write a batch. Times are since the begin of the run.
type attempt struct {
	client   int
	batch    batch
	try      int           // counts from 1
	returned bool          // the batch was refused once, and this attempt is its return
	first    time.Duration // when the batch was to be sent for the first time
	intended time.Duration // when this attempt was to be sent
	begun    time.Duration
	finished time.Duration
	answer   answer
}

// answersMax bounds how many different answers are told apart.
const answersMax = 64

// answerKey is what answers are counted by.
type answerKey struct {
	status int
	cause  string
}

// collector counts what happens. Clients share it.
type collector struct {
	schedule *schedule
	closed   bool // points are offered when they are sent
	verify   bool // fates are kept

	mu         sync.Mutex
	totals     Totals
	admitted   *latency
	refused    *latency
	age        *latency
	answers    map[answerKey]int64
	retryAfter map[int]int64 // by seconds
	steps      []stepCounts
	clients    []ClientCounts
	series     *series
	fates      fates
	lastCause  string // of a refusal
}

// stepCounts are of the answers that came during a step of the profile.
type stepCounts struct {
	acknowledged, refusals int64
	admitted, refused      *latency
}

// runDigits is the precision of the times of a run.
const runDigits = 3

func newCollector(p *plan, clients int, verify bool) *collector {
	c := &collector{
		schedule: p.schedule, closed: p.closed, verify: verify,
		admitted: newLatency(runDigits), refused: newLatency(runDigits), age: newLatency(runDigits),
		answers: map[answerKey]int64{}, retryAfter: map[int]int64{},
		clients: make([]ClientCounts, clients), series: newSeries(),
	}
	for range p.schedule.steps {
		c.steps = append(c.steps, stepCounts{admitted: newLatency(secondDigits), refused: newLatency(secondDigits)})
	}
	return c
}

// begin counts an attempt before it is sent.
func (c *collector) begin(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	second := c.series.at(a.begun)
	second.Sent += int64(a.batch.points)
	if a.try > 1 {
		c.totals.Retries++
		return
	}
	c.totals.Batches++
	c.offerLocked(a.client, a.batch)
	if c.closed {
		second.Offered += int64(a.batch.points)
	}
}

// offerLocked counts a batch once, when it is sent or it is known that it won't be.
func (c *collector) offerLocked(client int, b batch) {
	c.totals.Offered += int64(b.points)
	c.clients[client].Offered += int64(b.points)
}

// record counts the answer to an attempt.
func (c *collector) record(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.series.record(a)
	if c.verify {
		c.fates.settle(a.batch.number, a.answer.outcome)
	}
	c.countAnswer(a.answer)
	step := &c.steps[c.schedule.step(a.finished)]
	took := a.finished - a.intended
	switch a.answer.outcome {
	case acknowledged:
		c.totals.Acknowledged += int64(a.batch.points)
		c.totals.AcknowledgedBytes += int64(a.batch.bytes)
		c.totals.Admissions++
		c.clients[a.client].Acknowledged += int64(a.batch.points)
		step.acknowledged += int64(a.batch.points)
		c.admitted.record(took)
		c.age.record(a.finished - a.first)
		step.admitted.record(took)
	case refused:
		c.lastCause = a.answer.cause
		c.totals.Refusals++
		c.totals.Refused += int64(a.batch.points)
		c.clients[a.client].Refusals++
		step.refusals++
		c.refused.record(took)
		step.refused.record(took)
	default:
		c.totals.Failures++
	}
	if a.returned {
		c.totals.FirstReturns++
		if a.answer.outcome == acknowledged {
			c.totals.FirstReturnsAdmitted++
		}
	}
}

func (c *collector) countAnswer(a answer) {
	key := answerKey{a.status, a.cause}
	if _, known := c.answers[key]; !known && len(c.answers) >= answersMax {
		key = answerKey{0, "others"}
	}
	c.answers[key]++
	if a.told {
		c.retryAfter[int(a.retryAfter/time.Second)]++
	}
}

// overflow counts a batch that a client dropped because it was held back for too long.
func (c *collector) overflow(client int, b batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offerLocked(client, b)
	c.totals.Overflowed += int64(b.points)
}

// giveUp counts a batch whose return the end of the run prevented.
func (c *collector) giveUp(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.GivenUp += int64(a.batch.points)
}

// unsent counts a batch that was due and never sent: in the buffer of a client that a refusal held back, or late.
func (c *collector) unsent(client int, b batch, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offerLocked(client, b)
	if held {
		c.totals.HeldBack += int64(b.points)
		return
	}
	c.totals.Late += int64(b.points)
}

// sampleProcess adds what the server's process used to its second; nil: it could not be measured.
func (c *collector) sampleProcess(at time.Duration, sample *ProcessSample) {
	if sample == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.series.at(at).Process = sample
}

// samplePressure adds how far the server held back to its second; nil: it did not tell.
func (c *collector) samplePressure(at time.Duration, sample *PressureSample) {
	if sample == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	second := c.series.at(at)
	second.Pressure = sample.worse(second.Pressure)
}

// fatesBytes is how much memory the fates of the batches take.
func (c *collector) fatesBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(cap(c.fates.packed))
}

// fill moves all counts into a report. The run is over.
func (c *collector) fill(r *Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.series.sumUp()
	r.Totals, r.Clients, r.Seconds = c.totals, c.clients, c.series.seconds
	r.Admitted, r.Refused, r.Age = c.admitted.summary(), c.refused.summary(), c.age.summary()
	for key, count := range c.answers {
		r.Answers = append(r.Answers, AnswerCount{key.status, key.cause, count})
	}
	slices.SortFunc(r.Answers, func(a, b AnswerCount) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Cause, b.Cause))
	})
	for _, seconds := range slices.Sorted(maps.Keys(c.retryAfter)) {
		r.RetryAfter = append(r.RetryAfter, RetryAfterCount{seconds, c.retryAfter[seconds]})
	}
	for i, step := range c.schedule.steps {
		counts := &c.steps[i]
		r.Steps = append(r.Steps, StepReport{
			Rate: step.rate, Seconds: (step.end - step.begin).Seconds(), Acknowledged: counts.acknowledged,
			Refusals: counts.refusals, Admitted: counts.admitted.summary(), Refused: counts.refused.summary(),
		})
	}
}
