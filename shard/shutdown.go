package shard

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"lineweir/segment"
)

// Drain refuses new writes and those that wait, so that a server can finish its requests before Shutdown.
func (e *Engine) Drain() {
	e.enter(stateDraining, "")
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	e.pumpLocked() // which refuses all who wait
}

// Shutdown drains: it refuses new writes, seals and flushes what the memtables hold, and closes. When ctx ends first,
// what is not flushed stays in the log for the next start. The engine can't be used afterwards.
func (e *Engine) Shutdown(ctx context.Context) error {
	mayFlush := e.background.cancel != nil && e.mayRegister() == nil
	e.Drain()
	var drained error
	if mayFlush {
		drained = e.forceSeal(true).Wait(ctx)
	}
	e.stop()
	if mayFlush && drained == nil {
		e.writeLastFloors()
	}
	e.enter(stateClosed, "")
	if err := e.closeFiles(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if drained != nil {
		return fmt.Errorf("the drain did not end in time, the next start replays the log: %w", drained)
	}
	return nil
}

// writeLastFloors notes that everything is in segments, so that the next start replays nothing.
func (e *Engine) writeLastFloors() {
	e.settleDropsAgain()
	floors := e.floorsWithout(nil, nil)
	if lowest(floors) <= lowest(e.store.Floors()) {
		return
	}
	if _, err := e.store.Apply(segment.Edit{Floors: floors, Shards: len(floors), Log: e.log.ID()}, func() {}); err != nil {
		e.logger.Error("write floors", zap.Error(err))
		return
	}
	e.trimLog()
}
