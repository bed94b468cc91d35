package shard

import (
	"context"
	"time"

	"go.uber.org/zap"

	"lineweir/segment"
)

// housekeepLoop asks for seals by age and by the log's pressure, watches the disk, and lets the log be trimmed, until
// ctx ends.
func (e *Engine) housekeepLoop(ctx context.Context) {
	ticker := time.NewTicker(housekeepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			e.wantAged(now)
			if e.log.Stats().Bytes > e.options.WAL.MaxBytes/2 {
				e.wantPinning()
			}
			if e.state.trimFailing.Load() {
				e.trimLog() // a full log takes no write that would cause the next flush
			}
			e.store.Reclaim()
			e.watchDisk()
			e.settleDropsAgain()
			e.advanceFloors()
			e.kick()
			if invariants {
				e.mustCover()
			}
		}
	}
}

// wantAged asks for a seal of every memtable that is older than the limit.
func (e *Engine) wantAged(now time.Time) {
	for _, s := range e.allShards() {
		if s.ShouldFlush(now) {
			e.want(s)
		}
	}
}

// wantPinning asks for a seal of the shard that holds the oldest sequence, so that the log can be trimmed.
func (e *Engine) wantPinning() {
	var pinning *shardState
	oldest := uint64(0)
	for _, s := range e.allShards() {
		if sequence := s.MinUnflushedWALSeq(); sequence != 0 && (oldest == 0 || sequence < oldest) {
			oldest, pinning = sequence, s
		}
	}
	if pinning != nil && pinning.FrozenCount() == 0 {
		e.want(pinning)
	}
}

// watchDisk looks at the free space, on which diskLow decides.
func (e *Engine) watchDisk() {
	free, err := e.options.FS.FreeBytes(e.options.DataDir)
	if e.state.diskUnknown.Swap(err != nil) != (err != nil) {
		e.logger.Warn("free disk space", zap.Bool("known", err == nil), zap.Error(err))
	}
	if err != nil {
		return
	}
	e.state.free.Store(free)
	if low := e.diskLow(); e.state.diskWasLow.Swap(low) != low {
		e.logger.Warn("disk space", zap.Bool("low", low), zap.Int64("free_bytes", free),
			zap.Int64("reserve_bytes", e.options.DiskReserveBytes))
	}
}

// advanceFloors writes an edit of floors alone when the log could be trimmed by it, so that an idle shard pins nothing.
func (e *Engine) advanceFloors() {
	if e.log.Stats().Files <= logFilesMin || e.mayRegister() != nil {
		return
	}
	floors := e.floorsWithout(nil, nil)
	if lowest(floors) <= lowest(e.store.Floors()) {
		return
	}
	if _, err := e.store.Apply(segment.Edit{Floors: floors, Shards: len(floors), Log: e.log.ID()}, func() {}); err != nil {
		e.failedEdit(err)
		e.logger.Error("write floors", zap.Error(err))
		return
	}
	e.trimLog()
}

// logFilesMin is the number of files that a log always has, beside its spare: the one in use.
const logFilesMin = 1
