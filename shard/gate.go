package shard

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"
)

// gateLoop seals wanted shards as room comes, and commits writes that wait, until ctx ends.
func (e *Engine) gateLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var told gateLog
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.background.kicks:
		case <-timer.C:
		}
		e.commitMu.Lock()
		next := e.pumpLocked()
		e.commitMu.Unlock()
		timer.Reset(next)
		e.turns.CatchUp()
		e.logGate(&told, time.Now())
	}
}

// gateLog is what the log tells of the gate.
type gateLog struct {
	held bool
	last time.Time // when writes were held back
}

// gateLogQuiet is how long no write must be held back before the log says that it is over: under overload each seal
// ends a state that the next write brings back.
const gateLogQuiet = 10 * time.Second

// note takes in whether writes are held back now, and reports whether that begins or is over.
func (g *gateLog) note(holding bool, now time.Time) (begins, ends bool) {
	if holding {
		begins, g.held, g.last = !g.held, true, now
		return begins, false
	}
	ends = g.held && now.Sub(g.last) >= gateLogQuiet
	g.held = g.held && !ends
	return false, ends
}

// logGate writes a line when the gate begins to hold writes back, and when that is over.
func (e *Engine) logGate(told *gateLog, now time.Time) {
	shards := e.allShards()
	holding := slices.IndexFunc(shards, func(s *shardState) bool { return s.holding.Load() })
	begins, ends := told.note(holding >= 0, now)
	if begins {
		b := &blockage{cause: e.causeOf(shards[holding].Fill()), shard: holding}
		e.logger.Warn("writes that need a seal are held back",
			zap.String("cause", b.cause), zap.String("detail", b.detail(e)))
	}
	if ends {
		e.logger.Info("writes are admitted again")
	}
}

// pumpLocked grants seals and commits the writes that can go then. Those who wait go in the order of the line; a shard
// that wants a seal which nobody in the line waits for, because of its age, the log, or writes that were refused, has
// its turn when its wish is the older one. It returns when to look again even if nothing happens.
func (e *Engine) pumpLocked() time.Duration {
	p := &pump{engine: e, next: time.Hour}
	p.sealWanted(e.headSince())
	p.commitLine()
	p.sealWanted(math.MaxInt64)
	return p.next
}

// pump is one look at all who wait.
type pump struct {
	engine *Engine
	// tierShut is set when the tier has no room for a seal: later ones, which may be smaller, do not overtake.
	tierShut bool
	next     time.Duration
}

// fitsAfterShut is how many of the line are looked at once no more seals are to be had: those that fit need none.
const fitsAfterShut = 64

// commitLine commits the writes that wait, in order. The first commits in the critical section of its own seals.
func (p *pump) commitLine() {
	e := p.engine
	kept, looked := e.waiters[:0], 0
	for i, w := range e.waiters {
		if looked >= fitsAfterShut {
			kept = append(kept, e.waiters[i:]...)
			break
		}
		blocked, err := e.tryCommitLocked(w, p)
		if blocked == nil {
			e.doneWaiting(w, err)
			continue
		}
		w.blocked.Store(blocked)
		kept = append(kept, w)
		if p.tierShut || blocked.cause == CauseWALFull {
			looked++
		}
	}
	clear(e.waiters[len(kept):]) // the array must not keep their batches
	e.waiters = kept
}

// doneWaiting hands a write its outcome.
func (e *Engine) doneWaiting(w *write, err error) {
	if err == nil {
		e.turns.Serve(w.place)
	} else {
		e.turns.Leave(w.place)
	}
	w.err = err
	close(w.done)
}

// headSince is since when the first of the line waits, in Unix nanoseconds; the end of time if nobody does.
func (e *Engine) headSince() int64 {
	if len(e.waiters) == 0 {
		return math.MaxInt64
	}
	return e.waiters[0].since.UnixNano()
}

// sealWanted seals the shards that want it since before that and that nobody in the line needs sealed, oldest wish
// first.
func (p *pump) sealWanted(before int64) {
	e := p.engine
	for _, s := range e.wantedByAge() {
		if p.tierShut || s.wanted.Load() >= before {
			return
		}
		if e.neededByLine(s) {
			continue
		}
		outcome, retry := e.trySealLocked(s)
		if outcome != SealBlocked {
			continue
		}
		s.blocked.Store(true)
		p.next = min(p.next, retry)
		p.tierShut = s.Fill().frozen < s.Fill().frozenMax
	}
}

// neededByLine reports whether one of the first in the line waits for a seal of the shard.
func (e *Engine) neededByLine(s *shardState) bool {
	fill := s.Fill()
	for i, w := range e.waiters {
		if i == fitsAfterShut {
			return false
		}
		for j := range w.parts {
			if w.parts[j].shard == s.shard && SealRequired(fill, w.parts[j].need) {
				return true
			}
		}
	}
	return false
}

// wantedByAge returns the shards that want a seal, oldest wish first.
func (e *Engine) wantedByAge() []*shardState {
	var wanted []*shardState
	for _, s := range e.allShards() {
		if s.wanted.Load() != 0 {
			wanted = append(wanted, s)
		}
	}
	slices.SortFunc(wanted, func(a, b *shardState) int { return cmp.Compare(a.wanted.Load(), b.wanted.Load()) })
	return wanted
}

// trySealLocked seals one shard if the frozen queue and the tier have room, and else says when to try again.
func (e *Engine) trySealLocked(s *shardState) (SealOutcome, time.Duration) {
	fill := s.Fill()
	if fill.active.rows == 0 {
		s.forget()
		return SealNotNeeded, 0
	}
	if fill.frozen >= fill.frozenMax || e.state.refusal.Load() != nil {
		return SealBlocked, time.Hour
	}
	size := fill.active.bytes()
	grants, ok := e.reserve([]int64{size})
	if !ok {
		e.tier.compactor.Poke()
		return SealBlocked, e.nextGrant(size)
	}
	e.rotate(s, grants[0])
	return Sealed, 0
}

// nextGrantMin keeps the gate loop from spinning on a grant that is due.
const nextGrantMin = time.Millisecond

// nextGrant returns when a paced grant of that size is due; a change of the ledger wakes the loop in any case.
func (e *Engine) nextGrant(sizeBytes int64) time.Duration {
	if wait, ok := e.tier.controller.NextGrant(sizeBytes); ok {
		return max(wait, nextGrantMin)
	}
	return time.Hour
}

// enqueueLocked lets a blocked write wait in the line, if its turn is near enough and the memory of those who wait
// allows one more; else it returns the refusal.
func (e *Engine) enqueueLocked(w *write, blocked *blockage) error {
	place, retryAfter := e.turns.Join(w.client, w.needBytes(), e.sealsOf(w))
	if place == nil {
		return e.backpressure(blocked, retryAfter)
	}
	if !e.memoryAllows(w) {
		return e.backpressure(blocked, e.turns.Refuse(place, e.sealsOf(w)))
	}
	w.place, w.done = place, make(chan struct{})
	w.blocked.Store(blocked)
	at, _ := slices.BinarySearchFunc(e.waiters, w, func(a, b *write) int {
		if a.place.Before(b.place) {
			return -1
		}
		return 1
	})
	e.waiters = slices.Insert(e.waiters, at, w)
	e.admission.wait(blocked.cause, w.sizeBytes())
	return nil
}

// memoryAllows reports whether the memory of those who wait allows one more. One client may hold half of it.
func (e *Engine) memoryAllows(w *write) bool {
	bound, size := e.options.Admission.WaitingBytesMax, w.sizeBytes()
	total := e.admission.waitingBytes.Load() + size
	if total <= bound/2 {
		return true
	}
	own := size
	for _, other := range e.waiters {
		if other.client == w.client {
			own += other.sizeBytes()
		}
	}
	return total <= bound && own <= bound/2
}

// removeWaiterLocked takes a write that gives up out of the line, and hands its turn on.
func (e *Engine) removeWaiterLocked(w *write) {
	if i := slices.Index(e.waiters, w); i >= 0 {
		e.waiters = slices.Delete(e.waiters, i, i+1)
	}
	e.kick()
}
