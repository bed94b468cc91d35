package shard

import (
	"context"
	"errors"
	"time"
)

// Write makes the batch durable and visible, or refuses it and leaves no trace of it. payload is the text that
// Options.Decode turns back into the batch; Write keeps it until it returns. A batch that needs a seal which can't be
// had is answered within Admission.MaxWait.
//
// Errors: *BackpressureError, *TooLargeError, ErrSchemaChanged (parse again), or the context's error if it ends before
// the commit; after the commit the context has no say.
func (e *Engine) Write(ctx context.Context, b *Batch, payload []byte) error {
	if b.points == 0 {
		return e.Unavailable()
	}
	w := newWrite(b, payload)
	if err := e.commit(ctx, w); err != nil {
		var refused *BackpressureError
		if errors.As(err, &refused) {
			e.RecordRefusal(refused)
		}
		return err
	}
	if err := w.ticket.Wait(); err != nil {
		return e.outcomeUnknown(w, err)
	}
	e.apply(w)
	e.admission.admitted.Add(1)
	return nil
}

// commit assigns the sequence and hands the frame to the log, after waiting for seals if it must.
func (e *Engine) commit(ctx context.Context, w *write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.notTaking(); err != nil {
		return err
	}
	if err := e.tooLarge(w.batch); err != nil {
		return err
	}
	if err := e.stall(ctx, w); err != nil {
		return err
	}
	waits, err := e.commitOrQueue(w)
	if err != nil {
		return err
	}
	if !waits {
		e.turns.Take(w.client, w.needBytes())
		return nil
	}
	e.kick()
	return e.wait(ctx, w)
}

// commitOrQueue commits the write, lets it wait in the line, or refuses it.
func (e *Engine) commitOrQueue(w *write) (waits bool, err error) {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	blocked, err := e.tryCommitLocked(w, nil)
	if blocked == nil || err != nil {
		return false, err
	}
	if err := e.enqueueLocked(w, blocked); err != nil {
		return false, err
	}
	return true, nil
}

// stall slows a write that needs a seal while the tier is between its soft and its hard limit.
func (e *Engine) stall(ctx context.Context, w *write) error {
	for i := range w.parts {
		fill := e.allShards()[w.parts[i].shard].Fill()
		if !SealRequired(fill, w.parts[i].need) {
			continue
		}
		if delay := e.stallDelay(); delay > 0 {
			return sleep(ctx, delay)
		}
	}
	return nil
}

// stallDelay is the controller's, by the larger fill of the tier and of all memtables together.
func (e *Engine) stallDelay() time.Duration {
	var used int64
	for _, s := range e.allShards() {
		used += s.TotalMemory()
	}
	return e.tier.controller.StallDelay(used, e.memtablesMaxBytes())
}

// memtablesMaxBytes is what the memtables of all shards take at most, active and frozen.
func (e *Engine) memtablesMaxBytes() int64 {
	return int64(len(e.allShards())*(1+e.options.Memtable.FrozenMax)) * e.options.Memtable.MaxBytes
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// wait holds the write until the gate commits it, the longest wait is over, or the client has left.
func (e *Engine) wait(ctx context.Context, w *write) error {
	defer func() {
		e.admission.waiting.Add(-1)
		e.admission.waitingBytes.Add(-w.sizeBytes())
	}()
	timer := time.NewTimer(e.options.Admission.hold() - time.Since(w.since))
	defer timer.Stop()
	select {
	case <-w.done:
		e.admission.waited.Add(1)
		return w.err
	case <-timer.C:
		return e.giveUp(w, nil)
	case <-ctx.Done():
		return e.giveUp(w, ctx.Err())
	}
}

// giveUp takes a write out of the line, unless the gate was faster. A client that is still there is told when to come
// back, and keeps its place.
func (e *Engine) giveUp(w *write, left error) error {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	select {
	case <-w.done:
		e.admission.waited.Add(1)
		return w.err
	default:
	}
	e.removeWaiterLocked(w)
	if left != nil {
		e.turns.Leave(w.place)
		return left
	}
	return e.backpressure(w.blocked.Load(), e.turns.Refuse(w.place, e.sealsOf(w)))
}

// apply inserts a durable write into its memtables. Nothing refuses it, and nobody can cancel it.
func (e *Engine) apply(w *write) {
	for i := range w.parts {
		p := &w.parts[i]
		s := e.allShards()[p.shard]
		if err := s.apply(p.memtable, w.batch, p.need, w.sequence); err != nil {
			panic("BUG: a durable write met a flushed memtable: " + err.Error())
		}
		if SealRequired(s.Fill(), smallestNeed()) {
			e.rotateFull(s)
		}
	}
}

// rotateFull seals a memtable that an insert has filled while the tier is below its soft limit; else it stays full for
// the next write's check.
func (e *Engine) rotateFull(s *shardState) {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	fill := s.Fill()
	ledger := e.tier.controller.Ledger()
	room := ledger.RegisteredBytes+ledger.ReservedBytes+fill.active.bytes() <= ledger.SoftBytes
	if room && SealRequired(fill, smallestNeed()) && e.mayStillSeal(fill) {
		e.trySealLocked(s)
	}
}

// outcomeUnknown gives up a committed write whose frame the log could not make durable.
func (e *Engine) outcomeUnknown(w *write, err error) error {
	for i := range w.parts {
		p := &w.parts[i]
		e.allShards()[p.shard].cancel(p.memtable, p.need)
	}
	refused := e.refusal(CauseOutcomeUnknown, err.Error())
	e.RecordRefusal(refused)
	return refused
}
