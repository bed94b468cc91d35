package shard

import (
	"sync/atomic"
	"time"

	"lineweir/pagecache"
)

// admission counts what became of writes.
type admission struct {
	admitted     atomic.Int64
	waited       atomic.Int64
	waiting      atomic.Int64
	waitingBytes atomic.Int64
	refused      map[string]*atomic.Int64 // by cause; the map never changes
	recent       refusals
	waits        map[string]*atomic.Int64 // by the cause for which they began; so does this one
}

func newAdmission() *admission {
	a := &admission{refused: map[string]*atomic.Int64{}, waits: map[string]*atomic.Int64{}}
	for _, cause := range Causes() {
		a.refused[cause] = new(atomic.Int64)
		a.waits[cause] = new(atomic.Int64)
	}
	return a
}

// wait counts a write that begins to wait.
func (a *admission) wait(cause string, sizeBytes int64) {
	a.waits[cause].Add(1)
	a.waiting.Add(1)
	a.waitingBytes.Add(sizeBytes)
}

// RecordRefusal counts a refusal. Write counts its own; callers that refuse before Write count theirs here.
func (e *Engine) RecordRefusal(err *BackpressureError) {
	e.admission.refused[err.Cause].Add(1)
	e.admission.recent.add(&Refusal{
		Time: time.Now(), Cause: err.Cause, Detail: err.Detail, RetryAfterSeconds: int(err.RetryAfter / time.Second),
	})
}

// Admit tells from published snapshots whether Write is worth a try: nil when the batch fits, or may wait for the seal
// that it needs; a *BackpressureError when it would be refused; a *TooLargeError when it never fits. It takes no lock
// but that of the line, and that only for a batch that needs a seal which can't be had at once.
func (e *Engine) Admit(b *Batch) error {
	if err := e.Unavailable(); err != nil {
		return err
	}
	if err := e.tooLarge(b); err != nil {
		return err
	}
	var blocked *blockage
	var sizeBytes int64
	var seals pagecache.Seals
	for shard, need := range b.needs {
		sizeBytes += need.bytes()
		s := e.allShards()[shard]
		fill := s.Fill()
		if need.rows == 0 || !SealRequired(fill, need) {
			continue
		}
		seals.SizeBytes += fill.active.bytes()
		seals.FlushBytes += fill.flushBytes()
		if !e.mayStillSeal(fill) {
			blocked = e.block(s, e.causeOf(fill))
		}
	}
	if blocked == nil {
		return nil
	}
	if retryAfter, ok := e.turns.Ask(b.Client, sizeBytes, seals); !ok {
		return e.backpressure(blocked, retryAfter)
	}
	return nil
}

// mayStillSeal reports that a seal of a shard with that fill would be granted now.
func (e *Engine) mayStillSeal(fill *Fill) bool {
	return fill.frozen < fill.frozenMax && e.tier.gate.MaySeal(fill.active.bytes())
}

// sealsOf returns the seals that a write needs.
func (e *Engine) sealsOf(w *write) (seals pagecache.Seals) {
	for i := range w.parts {
		if fill := e.allShards()[w.parts[i].shard].Fill(); SealRequired(fill, w.parts[i].need) {
			seals.SizeBytes += fill.active.bytes()
			seals.FlushBytes += fill.flushBytes()
		}
	}
	return seals
}

// backpressure makes the refusal of a write that is blocked.
func (e *Engine) backpressure(b *blockage, retryAfter time.Duration) *BackpressureError {
	return &BackpressureError{Cause: b.cause, Detail: b.detail(e), RetryAfter: retryAfter}
}

// Blocked returns a *BackpressureError while every shard waits for a seal and the turn of a client's write that needs
// about so many bytes in memtables is too far away to wait for; else nil. It takes no lock but that of the line.
func (e *Engine) Blocked(client string, sizeBytes int64) error {
	var seals pagecache.Seals
	for _, s := range e.allShards() {
		if !s.holding.Load() {
			return nil
		}
		fill := s.Fill()
		seals.SizeBytes += fill.active.bytes()
		seals.FlushBytes += fill.flushBytes()
	}
	if retryAfter, ok := e.turns.Ask(client, sizeBytes, seals); !ok {
		return e.backpressure(&blockage{cause: e.causeOf(e.allShards()[0].Fill()), shard: 0}, retryAfter)
	}
	return nil
}
