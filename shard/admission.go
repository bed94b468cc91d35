package shard

import (
	"sync/atomic"
	"time"
)

// admission counts what became of writes.
type admission struct {
	admitted     atomic.Int64
	waited       atomic.Int64
	waiting      atomic.Int64
	waitingBytes atomic.Int64
	refused      map[string]*atomic.Int64 // by cause; the map never changes
	recent       refusals
}

func newAdmission() *admission {
	a := &admission{refused: map[string]*atomic.Int64{}}
	for _, cause := range Causes() {
		a.refused[cause] = new(atomic.Int64)
	}
	return a
}

// RecordRefusal counts a refusal. Write counts its own; callers that refuse before Write count theirs here.
func (e *Engine) RecordRefusal(err *BackpressureError) {
	e.admission.refused[err.Cause].Add(1)
	e.admission.recent.add(&Refusal{
		Time: time.Now(), Cause: err.Cause, Detail: err.Detail, RetryAfterSeconds: int(err.RetryAfter / time.Second),
	})
}

// Admit tells from published snapshots, without taking a lock, whether Write is worth a try: nil when the batch fits,
// or may wait for the seal that it needs; a *BackpressureError when it would be refused; a *TooLargeError when it
// never fits.
func (e *Engine) Admit(b *Batch) error {
	if err := e.Unavailable(); err != nil {
		return err
	}
	if err := e.tooLarge(b); err != nil {
		return err
	}
	for shard, need := range b.needs {
		s := e.allShards()[shard]
		fill := s.Fill()
		if need.rows == 0 || !SealRequired(fill, need) || e.mayStillSeal(fill) {
			continue
		}
		blocked := e.block(s, e.causeOf(fill))
		if e.expectedWait(s) > e.options.Admission.MaxWait {
			return e.backpressure(blocked)
		}
	}
	return nil
}

// mayStillSeal reports that a seal of a shard with that fill would be granted now.
func (e *Engine) mayStillSeal(fill *Fill) bool {
	return fill.frozen < fill.frozenMax && e.tier.gate.MaySeal(fill.active.bytes())
}

// expectedWait predicts when the tier has room for the shard's seal: after those that were wanted earlier.
func (e *Engine) expectedWait(s *shardState) time.Duration {
	if fill := s.Fill(); fill.frozen >= fill.frozenMax {
		return 0 // a flush frees the slot; how soon is not known
	}
	return e.tier.controller.ExpectedWait(e.aheadBytes(s))
}

// aheadBytes returns what the tier must take before a write to the shard has its turn: for seals that were wanted
// earlier, for the memtables that the writes fill which wait already, and for the shard's own seal.
func (e *Engine) aheadBytes(s *shardState) (ahead, own int64) {
	since, fill := s.wanted.Load(), s.Fill()
	queued := s.queued.Load()
	ahead = queued - queued%fill.caps.bytes // what follows fits in the memtable that the next seal makes
	for _, other := range e.allShards() {
		if wanted := other.wanted.Load(); other != s && wanted != 0 && wanted < since {
			ahead += other.Fill().active.bytes()
		}
	}
	return ahead, fill.active.bytes()
}

// backpressure makes the refusal of a write that is blocked.
func (e *Engine) backpressure(b *blockage) *BackpressureError {
	return &BackpressureError{
		Cause: b.cause, Detail: b.detail(e),
		RetryAfter: e.tier.controller.RetryAfter(e.aheadBytes(e.allShards()[b.shard])),
	}
}

// Blocked returns a *BackpressureError while every shard waits for a seal, else nil. It takes no lock.
func (e *Engine) Blocked() error {
	for _, s := range e.allShards() {
		if !s.holding.Load() {
			return nil
		}
	}
	return e.backpressure(&blockage{cause: e.causeOf(e.allShards()[0].Fill()), shard: 0})
}
