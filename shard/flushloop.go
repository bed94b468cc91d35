package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"lineweir/segment"
)

// flushState is how the flushes of a shard went.
type flushState struct {
	wake chan struct{} // has an entry when a memtable was frozen

	mu        sync.Mutex
	flushes   int64
	failures  int64
	inARow    int // failures since the last success
	lastError error
}

// last returns the error of the last flush, or nil.
func (f *flushState) last() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastError
}

// failedInARow counts the failures since the last success.
func (f *flushState) failedInARow() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inARow
}

// flushFailuresNamed is the number of failures in a row after which the log calls the flush stuck.
const flushFailuresNamed = 3

const (
	flushRetryMin = 100 * time.Millisecond
	flushRetryMax = 5 * time.Second
)

func (f *flushState) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// record notes the outcome of a flush and returns how many have failed in a row.
func (f *flushState) record(err error) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.flushes++
		f.inARow, f.lastError = 0, nil
		return 0
	}
	f.failures++
	f.inARow++
	f.lastError = err
	return f.inARow
}

// flushLoop flushes the shard's frozen memtables, oldest first, until ctx ends or the engine may flush nothing any
// more.
func (e *Engine) flushLoop(ctx context.Context, s *shardState) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.flush.wake:
		case <-s.retryIn():
		}
		if s.FrozenCount() == 0 && !e.retryHeld(s) {
			return
		}
		for s.FrozenCount() > 0 && ctx.Err() == nil {
			if !e.flushOldest(ctx, s) {
				return
			}
		}
	}
}

// flushOldest flushes one memtable, or waits before the next try. It returns false when no flush may follow.
func (e *Engine) flushOldest(ctx context.Context, s *shardState) bool {
	started, size := time.Now(), s.frozenHeadBytes()
	results, err := s.FlushFrozenWith(e.registerWith(s))
	if errors.Is(err, segment.ErrDropped) {
		return true // while it was written; the next try leaves that out
	}
	inARow := s.flush.record(err)
	switch {
	case err == nil:
		e.tier.controller.Flushed(size, time.Since(started)/time.Duration(len(e.allShards())))
		e.flushed(s, results, time.Since(started))
		return true
	case errors.Is(err, ErrPoisoned):
		return false
	case unknownOutcome(err):
		e.failed(err)
		return false
	}
	e.logFlushFailure(s, err, inARow)
	retry := min(flushRetryMin<<min(inARow-1, 10), flushRetryMax)
	return sleep(ctx, retry) == nil
}

func (e *Engine) logFlushFailure(s *shardState, err error, inARow int) {
	log := e.logger.Warn
	if inARow >= flushFailuresNamed {
		log = e.logger.Error
	}
	log("flush failed; the memtable stays readable and the flush is tried again",
		zap.Int("shard", s.shard), zap.Int("in_a_row", inARow), zap.Error(err))
}

// flushed lets go of what the flush made superfluous, and wakes whoever it may help.
func (e *Engine) flushed(s *shardState, results []FlushResult, took time.Duration) {
	var rows, bytes int64
	for _, r := range results {
		rows += r.Rows
		bytes += r.Meta.SizeBytes
	}
	e.kick() // room in the frozen queue; what follows may take a while
	e.logger.Debug("flushed", zap.Int("shard", s.shard), zap.Int("segments", len(results)), zap.Int64("rows", rows),
		zap.Int64("bytes", bytes), zap.Duration("took", took))
	e.refreshHeld()
	e.trimLog()
	e.watchDisk() // what was in memory has become free space that is gone
	e.tier.compactor.Wake()
}

func (e *Engine) trimLog() {
	floor := e.store.Horizon()
	e.schema.forgetDrops(floor)
	lock, err := e.removal.log.acquire()
	if err != nil {
		e.state.trimFailing.Store(true) // and the lock has told
		return
	}
	defer lock.Close()
	err = e.log.Trim(floor)
	if !e.state.trimFailing.Swap(err != nil) && err != nil {
		e.logger.Warn("the write-ahead log can't be trimmed; it is tried again", zap.Error(err))
	}
}

// registerWith returns the function that makes a flush's segments part of the tier: pages into the cache, then one
// manifest edit with all floors; in the moment of publication the ledger is settled and the memtable released.
func (e *Engine) registerWith(s *shardState) func([]FlushResult, func()) error {
	return func(results []FlushResult, release func()) error {
		if err := e.mayRegister(); err != nil {
			return err
		}
		if err := e.settleDrops(); err != nil {
			return err
		}
		m := s.flight.memtable
		edit := segment.Edit{Floors: e.floorsWithout(s, m), Shards: len(e.allShards()), Log: e.log.ID()}
		edit.Holds = e.changedHolds(s, edit.Floors[s.shard])
		size := int64(0)
		for _, r := range results {
			edit.Add = append(edit.Add, r.Meta)
			edit.Databases = appendNew(edit.Databases, r.Meta.Database)
			size += r.Meta.SizeBytes
		}
		if err := e.cachePages(results); err != nil {
			return err
		}
		_, err := e.store.Apply(edit, func() {
			s.flight.shareReservation(size)
			m.reservation.Settle(size)
			release()
			if invariants {
				e.mustStayBelow(edit.Floors)
			}
		})
		if err != nil && !errors.Is(err, segment.ErrOutcomeUnknown) {
			e.dropPages(results)
		}
		return err
	}
}

// appendNew appends the name if it isn't the last one; names arrive in order.
func appendNew(names []string, name string) []string {
	if len(names) > 0 && names[len(names)-1] == name {
		return names
	}
	return append(names, name)
}

// mayRegister refuses when the log failed: a memtable may then hold the place of rows that are not durable.
func (e *Engine) mayRegister() error {
	if e.hasFailed() {
		return ErrPoisoned
	}
	return nil
}

// cachePages writes the pages of new segments through to the page cache.
func (e *Engine) cachePages(results []FlushResult) error {
	for _, r := range results {
		if err := e.cacheFile(r); err != nil {
			e.dropPages(results)
			return fmt.Errorf("page cache: %w", err)
		}
	}
	return nil
}

func (e *Engine) cacheFile(r FlushResult) error {
	file, err := r.file.Open()
	if err != nil {
		return err
	}
	return errors.Join(e.tier.cache.WriteThrough(r.Meta.ID, file, r.Meta.SizeBytes), file.Close())
}

func (e *Engine) dropPages(results []FlushResult) {
	for _, r := range results {
		e.tier.cache.Retire(r.Meta.ID, r.Meta.SizeBytes)
	}
}

// floorsWithout derives every shard's floor as it is once the memtable's segments are registered: all of a shard's
// points at or below its floor are in segments. No floor passes what the log has synced.
func (e *Engine) floorsWithout(flushing *shardState, m *Memtable) []uint64 {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	durable, known := e.ddl.unsettled.below(e.durableSequence()), e.store.Floors()
	floors := make([]uint64, len(e.allShards()))
	for i, s := range e.allShards() {
		except := m
		if s != flushing {
			except = nil
		}
		s.mu.Lock()
		oldest := s.minUnflushedLocked(except)
		s.mu.Unlock()
		floors[i] = durable
		if oldest != 0 {
			floors[i] = min(oldest-1, durable)
		}
		if i < len(known) { // a replay is behind floors that it has not reached
			floors[i] = max(floors[i], known[i])
		}
	}
	return floors
}

// durableSequence is the last sequence that is on disk and was handed to the memtables, or will be by a commit that
// they know of.
func (e *Engine) durableSequence() uint64 {
	if e.recovery.running.Load() {
		return e.recovery.sequence.Load()
	}
	return e.log.SyncedSequence()
}
