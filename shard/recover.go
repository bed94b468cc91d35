package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/segment"
	"lineweir/wal"
)

// recovery counts what the replay has done.
type recovery struct {
	running  atomic.Bool
	sequence atomic.Uint64 // last frame that is wholly in the memtables
	frames   atomic.Int64
	rows     atomic.Int64
	skipped  atomic.Int64
	batch    *Batch // of the frame that is replayed
}

// Recover replays the log into the memtables, sealing and flushing as it goes, adopts the configured number of shards,
// and opens the engine for writes. Nothing gates it: it is how bytes get out. After an error, or when ctx ends, the
// engine must be shut down.
func (e *Engine) Recover(ctx context.Context) error {
	started := time.Now()
	covered := e.covered()
	e.recovery.running.Store(true)
	e.recovery.sequence.Store(e.store.Horizon())
	err := e.log.Replay(e.store.Horizon(), func(f wal.Frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return e.replayFrame(ctx, f, covered)
	})
	if err != nil {
		return fmt.Errorf("replay the write-ahead log: %w", err)
	}
	e.sequence = max(e.log.LastSequence(), e.store.MaxSequence(), highest(e.store.Floors()))
	if err := e.log.StartAt(e.sequence + 1); err != nil {
		return err
	}
	e.recovery.sequence.Store(e.sequence)
	if err := e.adoptShards(ctx); err != nil {
		return err
	}
	e.recovery.running.Store(false)
	e.recovery.batch = nil
	e.logger.Info("recovered", zap.Int64("frames", e.recovery.frames.Load()), zap.Int64("rows", e.recovery.rows.Load()),
		zap.Int64("rows_skipped", e.recovery.skipped.Load()), zap.Duration("took", time.Since(started)))
	e.watchDisk()
	e.refreshRetention()
	e.enter(stateReady, "")
	e.start()
	for _, s := range e.allShards() {
		s.flush.signal()
	}
	e.tier.compactor.Wake()
	return nil
}

func highest(floors []uint64) uint64 {
	if len(floors) == 0 {
		return 0
	}
	return slices.Max(floors)
}

// replayFrame inserts the rows of a frame that are not in segments yet.
func (e *Engine) replayFrame(ctx context.Context, f wal.Frame, covered []coverage) error {
	if f.Type == frameDrop {
		return e.replayDrop(f)
	}
	if f.Type != frameWrite {
		return fmt.Errorf("%w: frame %d has the unknown type %d", ErrCorrupt, f.Sequence, f.Type)
	}
	b, err := e.options.Decode(f.Payload, func(database string) *Batch {
		return e.newReplayBatch(database, f.Sequence)
	})
	if err != nil {
		return fmt.Errorf("%w: frame %d: %w", ErrCorrupt, f.Sequence, err)
	}
	w := newWrite(b, nil)
	e.recovery.skipped.Add(b.skipped)
	e.registerSchema(b)
	for _, p := range w.parts {
		var takes func(measurement string) bool
		if p.shard < len(covered) {
			takes = covered[p.shard].without(b.database, f.Sequence)
		}
		rows := b.rowsOf(p.shard, takes)
		e.recovery.skipped.Add(p.need.rows - rows)
		if rows == 0 {
			continue
		}
		if err := e.replayPart(ctx, &p, b, f.Sequence, takes); err != nil {
			return err
		}
		e.recovery.rows.Add(rows)
	}
	e.recovery.frames.Add(1)
	e.recovery.sequence.Store(f.Sequence)
	return e.flushOversized(ctx, w)
}

// flushOversized flushes what a frame has filled beyond the cap, as one can that an older configuration let in. The
// tier of today may never have room for such a seal. The frame is wholly in the memtables by then, so that the floor
// covers it.
func (e *Engine) flushOversized(ctx context.Context, w *write) error {
	for _, p := range w.parts {
		s := e.allShards()[p.shard]
		if fill := s.Fill(); !exceeds(fill.active, fill.caps) {
			continue
		}
		if err := e.flushAll(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// newReplayBatch returns a batch without limits: what was accepted once is accepted again, whatever the configuration
// says now.
func (e *Engine) newReplayBatch(database string, sequence uint64) *Batch {
	if e.recovery.batch == nil {
		limits := Limits{ColumnsPerMeasurement: math.MaxInt, MeasurementsPerBatch: math.MaxInt}
		e.recovery.batch = newBatch(e.schema, limits, len(e.allShards()))
	}
	e.recovery.batch.reset(database)
	e.recovery.batch.replayed = sequence
	return e.recovery.batch
}

// replayPart inserts the rows of one shard, after a seal and a flush where they do not fit.
func (e *Engine) replayPart(
	ctx context.Context, p *part, b *Batch, sequence uint64, takes func(measurement string) bool,
) error {
	s := e.allShards()[p.shard]
	if SealRequired(s.Fill(), p.need) {
		if err := e.flushAll(ctx, s); err != nil {
			return err
		}
	}
	return s.applyPart(s.reserve(p.need, sequence), b, p.need, sequence, takes)
}

// recoveryFlushTries is how often in a row a flush of a recovery may fail, a quarter of a minute with the waits
// between, before the start fails with it.
const recoveryFlushTries = 8

// flushAll seals the shard whatever the tier says, and flushes all that it holds. A flush that fails is tried again as
// flushLoop does it: what made it fail may pass, as a full disk does. But a start doesn't try for ever.
func (e *Engine) flushAll(ctx context.Context, s *shardState) error {
	e.forceSealShard(s)
	for s.FrozenCount() > 0 {
		if !e.flushOldest(ctx, s) || s.flush.failedInARow() >= recoveryFlushTries {
			return errors.Join(ctx.Err(), s.flush.last())
		}
	}
	return nil
}

// forceSealShard seals without asking the gate. The ledger counts what goes beyond the bound.
func (e *Engine) forceSealShard(s *shardState) SealOutcome {
	size := s.Fill().active.bytes()
	if s.Fill().active.rows == 0 {
		return SealNotNeeded
	}
	grant := e.tier.controller.ReserveForced(size)
	s.mu.Lock()
	s.active.reservation = grant
	s.rotateLocked(e.nextCap())
	s.mu.Unlock()
	s.granted()
	return Sealed
}

// adoptShards changes to the configured number of shards once the old shards hold nothing.
func (e *Engine) adoptShards(ctx context.Context) error {
	count := e.options.Shards
	if e.store.Shards() == count {
		return nil
	}
	for _, s := range e.allShards() {
		if err := e.flushAll(ctx, s); err != nil {
			return fmt.Errorf("flush before the number of shards changes: %w", err)
		}
		if s.HeldCount() > 0 {
			e.logger.Error("the number of shards stays as it is, because a measurement can't be written to files",
				zap.Int("shards", e.store.Shards()), zap.Int("configured", count))
			return nil
		}
	}
	if err := e.settleDrops(); err != nil {
		return err
	}
	floors := make([]uint64, count)
	for i := range floors {
		floors[i] = e.sequence
	}
	if _, err := e.store.Apply(segment.Edit{Floors: floors, Shards: count, Log: e.log.ID()}, func() {}); err != nil {
		return fmt.Errorf("adopt %d shards: %w", count, err)
	}
	e.logger.Info("number of shards adopted", zap.Int("shards", count))
	e.trimLog()
	return e.makeShards(count)
}
