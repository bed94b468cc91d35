package shard

import (
	"context"
	"fmt"

	"go.uber.org/zap"
)

// Fence waits for the flushes that were outstanding when it was made, and for no later one.
type Fence struct {
	memtables []*Memtable
	failed    <-chan struct{} // closed when nothing is flushed any more
}

// Outstanding returns how many flushes the fence waits for.
func (f *Fence) Outstanding() int { return len(f.memtables) }

// Wait returns when all of them are registered, with the context's error, or with ErrPoisoned when a failure keeps the
// engine from flushing.
func (f *Fence) Wait(ctx context.Context) error {
	for _, m := range f.memtables {
		select {
		case <-m.flushed:
		case <-f.failed:
			return fmt.Errorf("generation %d is not flushed: %w", m.generation, ErrPoisoned)
		case <-ctx.Done():
			return fmt.Errorf("generation %d is not flushed yet: %w", m.generation, ctx.Err())
		}
	}
	return nil
}

// ForceSeal seals every shard that holds points, without asking the gate, and returns a fence for the flushes
// outstanding now. While the tier is above its bound it seals nothing more, but the fence still covers what is on its
// way.
func (e *Engine) ForceSeal(_ context.Context) (*Fence, error) {
	if state, reason := e.stateNow(); state != stateReady && state != CauseDiskLow {
		return nil, fmt.Errorf("no seal while the engine is %s: %s", state, reason)
	}
	return e.forceSeal(false), nil
}

// forceSeal seals all shards, and the fence covers every memtable that was frozen by then. At shutdown no bound holds
// it back.
func (e *Engine) forceSeal(shutdown bool) *Fence {
	fence := &Fence{failed: e.state.failed}
	e.commitMu.Lock()
	for _, s := range e.allShards() {
		ledger := e.tier.controller.Ledger()
		if shutdown || ledger.RegisteredBytes+ledger.ReservedBytes <= ledger.CapacityBytes {
			e.forceSealShard(s)
		}
		s.mu.Lock()
		fence.memtables = append(fence.memtables, s.frozen...)
		s.mu.Unlock()
		s.flush.signal()
	}
	e.commitMu.Unlock()
	e.kick()
	e.logger.Info("force-seal", zap.Int("outstanding_flushes", len(fence.memtables)))
	return fence
}
