package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/segment"
)

// Retention. A database keeps its points for a time, its own or the configured one. Older points are refused at the
// door, and files of level 1 that hold nothing younger are removed; what is in memtables and in level 0 stays.
//
// How old a point is, is told by the lower of two clocks: the wall clock, and the newest point that a segment of the
// database holds. Neither is trusted alone: the former may be set wrong, the latter comes from clients. A step back of
// the wall clock makes both the door and the removal more lenient, a jump ahead is not believed for an hour and then
// can't go beyond the newest point, and nothing is removed in the first minutes, while a clock may not be set yet. So
// no clock removes a point that is younger than the newest one less the retention.
//
// Removing one file must not bring an older write of one of its points back: segment.View.Expired sees to that.

const (
	// RetentionMin is the shortest time that points may be kept, as in InfluxDB.
	RetentionMin = time.Hour
	// retentionInterval is how often the age of points is looked at.
	retentionInterval = time.Minute
	// retentionGrace is how long after the start nothing expires.
	retentionGrace = 10 * time.Minute
	// expiredFilesMax bounds what one edit removes.
	expiredFilesMax = 1000
)

// retention knows how long each database keeps its points, and since when a point is too old. Readers take no lock.
type retention struct {
	standard time.Duration // of databases that have none of their own; 0: for ever
	started  time.Time
	own      atomic.Pointer[map[string]time.Duration] // by database; ddl.mu is held by whoever changes it
	cutoffs  atomic.Pointer[cutoffs]

	mu    sync.Mutex
	clock steadyClock
}

// cutoffs are the times, in nanoseconds, before which points are too old.
type cutoffs struct {
	now        int64            // for databases that hold no segment
	byDatabase map[string]int64 // of databases that do, and that do not keep their points for ever
}

func newRetention(standard time.Duration) *retention {
	r := &retention{standard: standard, started: time.Now()}
	r.own.Store(&map[string]time.Duration{})
	r.cutoffs.Store(&cutoffs{now: segment.KeepsAll})
	return r
}

// of returns how long a database keeps its points; 0: for ever.
func (r *retention) of(database string) time.Duration {
	if own, ok := (*r.own.Load())[database]; ok {
		return own
	}
	return r.standard
}

// set changes what some databases have of their own.
func (r *retention) set(list []segment.Retention) {
	next := maps.Clone(*r.own.Load())
	for _, d := range list {
		next[d.Database] = d.Duration
	}
	r.own.Store(&next)
}

// forget makes databases keep points as is configured.
func (r *retention) forget(databases []string) {
	next := maps.Clone(*r.own.Load())
	for _, name := range databases {
		delete(next, name)
	}
	r.own.Store(&next)
}

// cutoff returns the time before which points of a database are refused.
func (r *retention) cutoff(database string) int64 {
	known := r.cutoffs.Load()
	if at, ok := known.byDatabase[database]; ok {
		return at
	}
	return before(known.now, r.of(database))
}

// before returns the time that lies a retention before another one.
func before(at int64, kept time.Duration) int64 {
	if kept == 0 || at < math.MinInt64+int64(kept) {
		return segment.KeepsAll
	}
	return at - int64(kept)
}

// refresh finds out anew since when points are too old. newest holds the time of the newest point of each database
// that has a segment.
func (r *retention) refresh(wall time.Time, elapsed time.Duration, newest map[string]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.observe(wall, elapsed)
	next := &cutoffs{now: r.clock.read(elapsed), byDatabase: map[string]int64{}}
	for database, at := range newest {
		if kept := r.of(database); kept != 0 {
			next.byDatabase[database] = before(min(at, next.now), kept)
		}
	}
	r.cutoffs.Store(next)
}

// expired is the cutoff of a database whose segments are looked at.
func (c *cutoffs) expired(database string) int64 {
	if at, ok := c.byDatabase[database]; ok {
		return at
	}
	return segment.KeepsAll
}

// Retention returns how long a database keeps its points, whether it exists or not; 0: for ever.
func (e *Engine) Retention(database string) time.Duration { return e.retention.of(database) }

// CreateRetention creates a database that keeps its points for a time, 0: for ever. One that exists must keep them for
// that very time, else the error is ErrRetentionConflict and nothing has changed.
func (e *Engine) CreateRetention(_ context.Context, database string, kept time.Duration) error {
	return e.changeRetention(database, kept, func() error {
		if e.schema.knows(database) && e.retention.of(database) != kept {
			return ErrRetentionConflict
		}
		return nil
	})
}

// AlterRetention changes how long a database keeps its points, 0: for ever. Errors: ErrDatabaseNotFound.
func (e *Engine) AlterRetention(_ context.Context, database string, kept time.Duration) error {
	return e.changeRetention(database, kept, func() error {
		if !e.schema.knows(database) {
			return ErrDatabaseNotFound
		}
		return nil
	})
}

// changeRetention makes a retention durable, and its database, unless refuse says why not.
func (e *Engine) changeRetention(database string, kept time.Duration, refuse func() error) error {
	if err := e.notChanging(); err != nil {
		return err
	}
	e.ddl.mu.Lock()
	defer e.ddl.mu.Unlock()
	if err := refuse(); err != nil {
		return err
	}
	list := []segment.Retention{{Database: database, Duration: kept}}
	edit := segment.Edit{Databases: []string{database}, Retention: list}
	err := e.settleDrops() // one of them may be of this database
	if err == nil {
		_, err = e.store.Apply(edit, func() { e.schema.addDatabase(database) })
	}
	if err != nil {
		e.failedEdit(err)
		return fmt.Errorf("set the retention of database %q: %w", database, err)
	}
	e.retention.set(list)
	e.refreshRetention()
	e.logger.Info("retention set", zap.String("database", database), zap.Duration("kept", kept))
	return nil
}

// refreshRetention finds out since when points are too old.
func (e *Engine) refreshRetention() {
	view := e.store.Acquire(nil)
	defer view.Release()
	now := time.Now()
	e.retention.refresh(now, now.Sub(e.retention.started), view.NewestTimes())
}

// retentionLoop removes what is too old, until ctx ends.
func (e *Engine) retentionLoop(ctx context.Context) {
	ticker := time.NewTicker(retentionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			e.refreshRetention()
			if now.Sub(e.retention.started) >= retentionGrace {
				e.expire()
			}
		}
	}
}

// expire removes the files of level 1 that hold nothing young enough.
func (e *Engine) expire() {
	if e.mayRegister() != nil {
		return
	}
	view := e.store.Acquire(nil)
	ids := view.Expired(e.retention.cutoffs.Load().expired)
	view.Release() // else it would hold the files that go
	for chunk := range slices.Chunk(ids, expiredFilesMax) {
		_, err := e.store.Apply(segment.Edit{Remove: chunk}, nil)
		if errors.Is(err, segment.ErrNotLive) {
			return // a merge was faster; next time
		}
		if err != nil {
			e.failedEdit(err)
			e.logger.Warn("files that are beyond their retention can't be removed; it is tried again", zap.Error(err))
			return
		}
		e.logger.Info("files beyond their retention removed", zap.Int("files", len(chunk)))
	}
}
