package pagecache

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Controller keeps the ledger of the L0 tier and grants seals from it. It is safe for concurrent use. Whatever only
// asks, from MaySeal to Ledger, reads the published state and takes no lock; a change takes one small mutex.
type Controller struct {
	softFraction float64
	retry        retryBounds
	now          func() time.Time
	random       func() float64 // uniform in [0, 1)

	published atomic.Pointer[state]
	listeners atomic.Pointer[[]func()]

	mu   sync.Mutex // never held while a listener runs
	open map[*Reservation]struct{}
}

// Ledger is a moment of the tier's account.
type Ledger struct {
	CapacityBytes       int64
	SoftBytes           int64
	RegisteredBytes     int64   // of L0 segments
	ReservedBytes       int64   // of seals whose flush has not settled
	HighestBytes        int64   // highest sum of the two since the start
	ForcedBytes         int64   // taken in without asking: force-seals, and what didn't fit at recovery or settlement
	ForcedCount         int64   // how often
	OverReservations    int64   // flushes larger than their reservation; a bug of the estimate
	MergedBytes         int64   // of RegisteredBytes: merged by the job that runs, and free at its end
	DrainBytesPerSecond float64 // 0 while unknown, stalled or paused
	Stalled             bool
	Paused              bool // compaction is
}

// NewController returns a controller of an empty tier. Options that don't pass Validate are a bug.
func NewController(o Options) *Controller {
	if err := o.Validate(); err != nil {
		panic(fmt.Sprintf("BUG: %v", err))
	}
	o = o.withDefaults()
	c := &Controller{
		softFraction: o.SoftFraction,
		retry:        retryBounds{min: o.RetryAfterMin, max: o.RetryAfterMax},
		now:          o.Now,
		random:       o.Random,
		open:         map[*Reservation]struct{}{},
	}
	c.listeners.Store(&[]func(){})
	c.published.Store(&state{
		capacityBytes: o.CapacityBytes,
		softBytes:     int64(float64(o.CapacityBytes) * o.SoftFraction),
		owedAt:        o.Now(),
	})
	return c
}

// update makes one change and publishes it.
func (c *Controller) update(change func(s *state, now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	next := *c.published.Load()
	next.advance(now)
	change(&next, now)
	next.conclude(c.openBytesLocked(), now)
	c.published.Store(&next)
}

// openBytesLocked derives what is reserved. A counter beside the reservations could drift from them; there are only a
// few per shard.
func (c *Controller) openBytesLocked() int64 {
	sum := int64(0)
	for r := range c.open {
		sum += r.sizeBytes
	}
	return sum
}

// MaySeal reports whether a reservation of sizeBytes would be granted now. It changes nothing.
func (c *Controller) MaySeal(sizeBytes int64) bool {
	return c.published.Load().maySeal(sizeBytes, c.now())
}

// Reserve grants room for a flush of at most sizeBytes, or refuses, in one step. A refusal leaves no trace but the
// knowledge that the drain is needed, and once that is known it costs as much as MaySeal.
func (c *Controller) Reserve(sizeBytes int64) (*Reservation, bool) {
	mustNotBeNegative("reserve", sizeBytes)
	if s := c.published.Load(); s.pressed() && !s.maySeal(sizeBytes, c.now()) {
		return nil, false
	}
	var granted *Reservation
	c.update(func(s *state, now time.Time) {
		if s.maySeal(sizeBytes, now) {
			above := s.above(sizeBytes)
			granted = c.openLocked(sizeBytes, above, s.grant(above))
		} else if sizeBytes <= s.capacityBytes {
			s.refuse(sizeBytes)
		}
	})
	return granted, granted != nil
}

// ReserveForced takes room without asking, for a force-seal or recovery. It may take the tier beyond its bound, is
// counted, and owes the pacing nothing.
func (c *Controller) ReserveForced(sizeBytes int64) *Reservation {
	mustNotBeNegative("reserve by force", sizeBytes)
	var granted *Reservation
	c.update(func(s *state, _ time.Time) {
		s.force(sizeBytes)
		granted = c.openLocked(sizeBytes, 0, 0)
	})
	return granted
}

func (c *Controller) openLocked(sizeBytes int64, above, owed float64) *Reservation {
	r := &Reservation{controller: c, sizeBytes: sizeBytes, above: above, owed: owed}
	c.open[r] = struct{}{}
	return r
}

// Register takes in a segment that is there when the store opens. One that doesn't fit is counted as forced.
func (c *Controller) Register(sizeBytes int64) {
	mustNotBeNegative("register", sizeBytes)
	c.update(func(s *state, _ time.Time) {
		if !s.fits(sizeBytes) {
			s.force(sizeBytes)
		}
		s.registered += sizeBytes
	})
}

// Retire gives back the bytes of a segment that has left L0. Its pages must be gone from the Cache.
func (c *Controller) Retire(sizeBytes int64) {
	mustNotBeNegative("retire", sizeBytes)
	c.update(func(s *state, _ time.Time) {
		s.registered -= sizeBytes
		s.merged = max(0, s.merged-sizeBytes)
		if s.level() < 0 {
			panic(fmt.Sprintf("BUG: retire %d bytes, %d more than the ledger holds", sizeBytes, -s.level()))
		}
	})
	c.notify()
}

// Flushed takes in that a memtable of sizeBytes was flushed. busy is how long that took, divided by the number of
// shards that flush beside each other.
func (c *Controller) Flushed(sizeBytes int64, busy time.Duration) {
	c.update(func(s *state, _ time.Time) { s.flush = s.flush.addFlush(sizeBytes, busy) })
}

// Drained takes in that compaction merged sizeBytes of L0 while its job ran for busy, waits for its rate limit
// included. Zero bytes are busy time without progress. Call it several times in a long job: between two calls no more
// time than stallAfter, 10 s, should pass.
func (c *Controller) Drained(sizeBytes int64, busy time.Duration) {
	mustNotBeNegative("drain", sizeBytes)
	c.update(func(s *state, now time.Time) { s.drained(sizeBytes, max(0, busy), now) })
	c.notify()
}

// JobEnded takes in that no compaction job runs: what the last one has merged and not retired is no progress.
func (c *Controller) JobEnded() { c.update(func(s *state, _ time.Time) { s.merged = 0 }) }

// SetPaused takes in that compaction was paused, or goes on. While it is paused nothing drains, and everybody knows.
func (c *Controller) SetPaused(paused bool) {
	c.update(func(s *state, _ time.Time) { s.paused = paused })
	c.notify()
}

// Grain is the cap of the next memtable, at most maxBytes: above the soft limit what drains in 50 ms, but at least
// 1 MiB. Grants come one memtable at a time, so it is the grain of the pacing.
func (c *Controller) Grain(maxBytes int64) int64 { return c.published.Load().grain(maxBytes, c.now()) }

// Stalled reports that the drain is needed, because the tier is above its soft limit or a reservation found no room,
// and has not progressed for 10 s, though there are L0 segments.
func (c *Controller) Stalled() bool { return c.published.Load().stalled(c.now()) }

// NextGrant says in what time a reservation of sizeBytes will be granted, if nothing changes before. False means that
// time alone won't bring it: wait for OnChange.
func (c *Controller) NextGrant(sizeBytes int64) (time.Duration, bool) {
	return c.published.Load().nextGrant(sizeBytes, c.now())
}

// ExpectedWait predicts when a reservation of sizeBytes will be granted, if aheadBytes are granted to others before:
// the time to drain the room that is missing, or to pace off what is owed, whichever is longer. Reservations are
// expected to settle as the latest ones did. It is an hour where nobody can tell.
func (c *Controller) ExpectedWait(aheadBytes, sizeBytes int64) time.Duration {
	return c.published.Load().expectedWait(aheadBytes, sizeBytes, c.now())
}

// RetryAfter is ExpectedWait as a client is told: jittered by a quarter, in whole seconds, at least 1 and
// RetryAfterMin, at most RetryAfterMax, and at most 10 s while the drain rate is unknown or the drain is stalled.
func (c *Controller) RetryAfter(aheadBytes, sizeBytes int64) time.Duration {
	return c.retryAfterWait(c.ExpectedWait(aheadBytes, sizeBytes))
}

// retryAfterWait is the Retry-After for a predicted wait.
func (c *Controller) retryAfterWait(predicted time.Duration) time.Duration {
	bounds := c.retry
	if c.published.Load().drainRate(c.now()) == 0 {
		bounds = bounds.whileStalled()
	}
	return retryAfter(predicted, bounds, c.random(), c.random())
}

// StallDelay is how long a write that needs a seal is slowed down: not at all up to the soft limit, then linearly to
// StallDelayMax at the hard limit, by the larger fill of the tier and the memtables' memory.
func (c *Controller) StallDelay(memtableBytes, memtableMaxBytes int64) time.Duration {
	s := c.published.Load()
	fill := max(fraction(s.level(), s.capacityBytes), fraction(memtableBytes, memtableMaxBytes))
	return stallDelay(fill, c.softFraction)
}

// CheckCapacity returns an error that wraps ErrTierFull or ErrMemoryFull when the tier or the memtables' memory has
// reached its bound.
func (c *Controller) CheckCapacity(memtableBytes, memtableMaxBytes int64) error {
	s := c.published.Load()
	return checkCapacity(s.level(), s.capacityBytes, memtableBytes, memtableMaxBytes)
}

// OnChange adds a listener that is called whenever room may have appeared or grants may come sooner: after Settle,
// Release, Retire and Drained, on their goroutine and without a lock of the controller. It should only wake someone.
func (c *Controller) OnChange(listener func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	listeners := append([]func(){}, *c.listeners.Load()...)
	listeners = append(listeners, listener)
	c.listeners.Store(&listeners)
}

func (c *Controller) notify() {
	for _, listener := range *c.listeners.Load() {
		listener()
	}
}

// Ledger returns the present account.
func (c *Controller) Ledger() Ledger {
	s, now := c.published.Load(), c.now()
	return Ledger{
		CapacityBytes:       s.capacityBytes,
		SoftBytes:           s.softBytes,
		RegisteredBytes:     s.registered,
		ReservedBytes:       s.reserved,
		HighestBytes:        s.counts.highestBytes,
		ForcedBytes:         s.counts.forcedBytes,
		ForcedCount:         s.counts.forcedCount,
		OverReservations:    s.counts.overReservations,
		MergedBytes:         min(s.merged, s.registered),
		DrainBytesPerSecond: s.drainRate(now),
		Stalled:             s.stalled(now),
		Paused:              s.paused,
	}
}
