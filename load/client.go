package load

import (
	"context"
	"time"
)

// client sends its batches one at a time. All its times are since the begin of the run.
type client struct {
	id       int
	plan     *plan
	claim    func() int64 // number of the next batch
	stride   int64        // from a batch of this client to its next, where they are due
	ahead    *ahead
	sender   sender
	refusals Refusals
	clock    func() time.Duration
	contexts contexts
	collect  *collector

	pending  batch         // begun by prepare
	more     bool          // there is one
	held     bool          // a refusal held the client back, and it has not caught up yet
	heldFrom time.Duration // when that refusal came
	freed    time.Duration // when the last attempt ended
}

// contexts end the parts of a run in turn.
type contexts struct {
	pace  context.Context // ends with the schedule: nothing comes back after it
	tail  context.Context // ends a little later, or when interrupted: nothing is begun after it
	flush context.Context // ends when what is on its way is cut off
}

// run sends until there is nothing left to send or the time is over. The first batch is prepared already.
func (c *client) run() {
	defer c.sender.close()
	more := c.more
	for more {
		b, made := c.pending, c.ahead.take()
		if c.overflows(b) {
			c.collect.overflow(c.id, b)
			more = c.prepare()
			continue
		}
		intended, ok := c.await(b)
		if !ok {
			c.abandon(b)
			return
		}
		more = c.prepare()
		if !c.deliver(b, made, intended) {
			if more {
				c.ahead.take()
				c.abandon(c.pending)
			}
			return
		}
	}
}

// prepare begins to make the next batch; false: there is none.
func (c *client) prepare() bool {
	for {
		b, ok := c.plan.batch(c.claim())
		if !ok {
			return false
		}
		if !c.overflows(b) {
			c.pending = b
			c.ahead.start(b)
			return true
		}
		c.collect.overflow(c.id, b)
	}
}

// overflows tells whether a client that is held back has no room for the batch: as many newer ones are due as it
// keeps.
func (c *client) overflows(b batch) bool {
	return c.held && !c.plan.closed && c.plan.isDue(b.number+int64(c.refusals.Buffer)*c.stride, c.clock())
}

// await sleeps until the batch is to be sent, and returns from when on it counts.
func (c *client) await(b batch) (intended time.Duration, ok bool) {
	switch {
	case c.plan.closed:
		intended = c.clock()
	case c.held && b.due <= c.freed:
		intended = c.freed - max(0, c.heldFrom-b.due) // what was late before the refusal stays so
	default:
		c.held = false
		intended = b.due
	}
	if c.held && c.contexts.pace.Err() != nil {
		return 0, false // only what was late without a refusal is sent after the end
	}
	return intended, c.sleep(c.contexts.tail, intended)
}

// deliver sends a batch until it is taken or given up. It returns false when the run is over.
func (c *client) deliver(b batch, made *body, intended time.Duration) bool {
	first := b.due
	if c.plan.closed {
		first = intended
	}
	a := attempt{client: c.id, batch: b, first: first, intended: intended}
	refusals := 0
	for {
		a.try++
		a.begun = c.clock()
		c.collect.begin(&a)
		a.answer = c.sender.send(c.contexts.flush, made.wire)
		a.finished = c.clock()
		wait, again := c.refusals.comeBack(a.answer)
		c.collect.record(&a)
		c.freed = a.finished
		if !again {
			return true
		}
		a.returned = false
		if a.answer.outcome == refused {
			refusals++
			a.returned = refusals == 1
			c.hold(a.finished)
		}
		a.intended = a.finished + wait
		if !c.sleep(c.contexts.pace, a.intended) {
			c.collect.giveUp(&a)
			return false
		}
	}
}

// hold notes that a refusal came.
func (c *client) hold(at time.Duration) {
	if !c.held {
		c.held, c.heldFrom = true, at
	}
}

// comeBack tells whether a batch is sent again, and after which wait.
func (r *Refusals) comeBack(a answer) (time.Duration, bool) {
	again := a.outcome == refused || a.outcome == unknown
	if !again || r.Policy == Drop {
		return 0, false
	}
	if r.Policy == Obey && a.told {
		return max(a.retryAfter, time.Millisecond), true
	}
	return r.Delay, true
}

// abandon counts what was due and is not sent any more, from a batch on.
func (c *client) abandon(b batch) {
	end := min(c.clock(), c.plan.schedule.end())
	for ok := !c.plan.closed; ok && b.due < end; b, ok = c.plan.batch(b.number + c.stride) {
		c.collect.unsent(c.id, b, c.held)
	}
}

// sleep waits until a moment of the run; false: ctx ended before.
func (c *client) sleep(ctx context.Context, until time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	wait := until - c.clock()
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
