package shard

import (
	"cmp"
	"context"
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

// pumpLocked grants seals to the shards that want one, oldest wish first, and commits the writes that can go then. It
// returns when to look again even if nothing happens.
func (e *Engine) pumpLocked() time.Duration {
	next := time.Hour
	for _, s := range e.wantedByAge() {
		outcome, retry := e.trySealLocked(s)
		if outcome == SealBlocked {
			s.blocked.Store(true)
			next = min(next, retry)
			if s.Fill().frozen < s.Fill().frozenMax {
				break // the tier is full: younger wishes do not overtake
			}
			continue
		}
		e.commitWaitersLocked(s)
	}
	for _, s := range e.allShards() {
		e.commitWaitersLocked(s)
	}
	return next
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

// commitWaitersLocked commits the writes that wait for the shard, in order, until one can't go.
func (e *Engine) commitWaitersLocked(s *shardState) {
	for len(s.waiters) > 0 {
		w := s.waiters[0]
		blocked, err := e.tryCommitLocked(w, true)
		if blocked != nil && blocked.shard == s.shard {
			return
		}
		s.waiters[0] = nil // the array must not keep its batch
		s.setWaitersLocked(s.waiters[1:])
		if blocked != nil {
			e.allShards()[blocked.shard].enqueueLocked(w)
			continue
		}
		w.err = err
		close(w.done)
	}
}

func (s *shardState) enqueueLocked(w *write) { s.setWaitersLocked(append(s.waiters, w)) }

// setWaitersLocked changes who waits, and publishes what they need.
func (s *shardState) setWaitersLocked(waiters []*write) {
	s.waiters = waiters
	bytes := int64(0)
	for _, w := range waiters {
		bytes += w.needOf(s.shard)
	}
	s.queued.Store(bytes)
}

// removeWaiterLocked takes a write that gives up out of its queue, and hands its turn on.
func (e *Engine) removeWaiterLocked(w *write) {
	for _, s := range e.allShards() {
		if i := slices.Index(s.waiters, w); i >= 0 {
			s.setWaitersLocked(slices.Delete(s.waiters, i, i+1))
		}
	}
	e.kick()
}
