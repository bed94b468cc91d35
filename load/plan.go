package load

import (
	"math"
	"time"
)

// plan numbers the batches of a run and says what each holds and when it is due. It changes nothing and is shared.
type plan struct {
	corpus   *corpus
	schedule *schedule
	closed   bool  // nothing is due: clients send as fast as they are answered
	points   int64 // the last batch ends here
}

// batch is one body of a run.
type batch struct {
	number int64
	body   int   // of the corpus
	shift  int64 // of its times
	before int64 // points of the run before it
	points int
	bytes  int // of its text
	due    time.Duration
}

func newPlan(c *corpus, p *Pace) *plan {
	points := p.Points
	if points == 0 {
		points = math.MaxInt64
	}
	// Times must stay within 19 digits.
	if rounds := (math.MaxInt64-c.start)/c.span - 1; rounds < points/c.lines() {
		points = max(1, rounds) * c.lines()
	}
	return &plan{corpus: c, schedule: newSchedule(p), closed: p.Rate == 0, points: points}
}

// batch returns a batch by its number, and false behind the last one.
func (p *plan) batch(number int64) (batch, bool) {
	bodies := int64(len(p.corpus.bodies))
	round, body := number/bodies, int(number%bodies)
	b := batch{
		number: number, body: body, shift: round * p.corpus.span,
		before: round*p.corpus.lines() + p.corpus.first[body],
	}
	if b.before >= p.points {
		return b, false
	}
	b.points = int(min(p.corpus.first[body+1]-p.corpus.first[body], p.points-b.before))
	b.bytes = p.corpus.bodies[body].length(b.points)
	ok := true
	if !p.closed {
		b.due, ok = p.schedule.due(b.before)
	}
	return b, ok
}

// isDue tells whether a batch exists and is due at a moment.
func (p *plan) isDue(number int64, at time.Duration) bool {
	b, ok := p.batch(number)
	return ok && b.due <= at
}

// offered is how many points are due before a moment.
func (p *plan) offered(at time.Duration) int64 { return min(p.schedule.points(at), p.points) }
