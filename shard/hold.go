package shard

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"lineweir/segment"
)

// Holds. A measurement whose file can't be written, not even plain, because the Parquet writer panics over its rows,
// must not keep the other measurements of its shard from their segments. So the flush goes on without it: the rows of
// the one measurement move to a memtable of their own, which is held, and the edit that registers the others records
// the hold beside the floor, which passes the held rows.
//
//	H1  A held row is in memory and in the log until it is in a segment: the log is kept from the lowest floor of all
//	    holds on (segment.Store.Horizon), and a replay inserts rows at or below the floor of their shard if, and only
//	    if, a hold says that they are in no segment. So none is lost and none is stored twice.
//	H2  A measurement's rows get into segments in their order: while older ones are held, newer ones of the same shard
//	    are held as well. Else the rank of the older ones would make them win.
//	H3  Holds are derived as floors are, from what the memtables hold, in the edit of each flush of the shard.
//	H4  What is held is bounded: points of a held measurement are refused, and a shard holds no more than its
//	    memtables may take. Beyond that its flush fails until the operator drops the measurement.
//
// Held memtables are tried again from time to time, at a force-seal, and after a restart by the flush of the memtables
// that the replay has filled. DROP MEASUREMENT gives them up.
//
// Rejected: to write the rows in another format, for which every reader would need a second codec for ever.

// holdRetry is the time between two tries to write what is held.
const holdRetry = 10 * time.Second

// flight is what a flush under way has come to.
type flight struct {
	memtable  *Memtable
	unwritten []*Memtable // one for each measurement that could not be written
}

// heldTable says why and since when the one measurement of a held memtable is held.
type heldTable struct {
	key   tableKey
	since time.Time
	cause string
}

// hold lets the flush go on without a measurement that can't be written. It refuses when that would hold too much, and
// for a memtable that is held already.
func (c *FlushController) hold(m *Memtable, key tableKey, cause error) bool {
	if m.held != nil {
		return false
	}
	unwritten := m.split(key)
	unwritten.held = &heldTable{key: key, since: time.Now(), cause: cause.Error()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heldBytesLocked()+unwritten.applied.bytes() > c.options.Memtable.MaxBytes*int64(1+c.options.Memtable.FrozenMax) {
		return false
	}
	c.flight.unwritten = append(c.flight.unwritten, unwritten)
	return true
}

// heldBytesLocked is what is held, and what the flush under way adds to it.
func (c *FlushController) heldBytesLocked() (bytes int64) {
	for _, m := range slices.Concat(c.held, c.flight.unwritten) {
		bytes += m.applied.bytes()
	}
	return bytes
}

// isBehindHeld tells whether older rows of a measurement are held.
func (c *FlushController) isBehindHeld(m *Memtable, key tableKey) bool {
	if m.held != nil {
		return false // they are written in order
	}
	return slices.ContainsFunc(c.heldMemtables(), func(other *Memtable) bool { return other.held.key == key })
}

// heldMemtables returns what is held, oldest first.
func (c *FlushController) heldMemtables() []*Memtable {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.held)
}

// HeldCount returns how many memtables are held.
func (c *FlushController) HeldCount() int { return len(c.heldMemtables()) }

// FlushHeldWith tries to write what is held, each measurement in its order, as FlushFrozenWith does. Errors: what
// keeps measurements held, or what made it end early.
func (c *FlushController) FlushHeldWith(register func([]FlushResult, func()) error) ([]FlushResult, error) {
	c.flushMu.Lock()
	defer c.flushMu.Unlock()
	failed := map[tableKey]error{}
	var all []FlushResult
	var errs []error
	for _, m := range c.heldMemtables() {
		if failed[m.held.key] != nil {
			continue
		}
		results, err := c.flush(m, register)
		all = append(all, results...)
		if err != nil {
			failed[m.held.key] = err
			errs = append(errs, err)
		}
		if err != nil && !errors.Is(err, ErrUnwritable) {
			break
		}
	}
	return all, errors.Join(errs...)
}

// unwrittenUpTo returns the lowest sequence of each measurement with rows at or below a floor that will be in no
// segment when the flush under way is registered.
func (c *FlushController) unwrittenUpTo(floor uint64) map[tableKey]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := slices.DeleteFunc(c.memtablesLocked(), func(m *Memtable) bool { return m == c.flight.memtable })
	return lowestUpTo(append(left, c.flight.unwritten...), floor)
}

// lowestUpTo returns the lowest sequence of each measurement with rows at or below a floor. The lock of the controller
// is held.
func lowestUpTo(memtables []*Memtable, floor uint64) map[tableKey]uint64 {
	lowest := map[tableKey]uint64{}
	for _, m := range memtables {
		if m.minSequence != 0 && m.minSequence <= floor {
			m.lowestUpTo(floor, lowest)
		}
	}
	return lowest
}

// split makes a memtable of one measurement, which shares its rows with m.
func (m *Memtable) split(key tableKey) *Memtable {
	one := newMemtable(m.generation, m.maxBytes)
	one.minSequence, one.maxSequence, one.oldest = m.minSequence, m.maxSequence, m.oldest
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := m.tables[key]
	one.tables[key] = t
	one.applied = t.used
	return one
}

// lowestUpTo lowers the entry of each measurement to the lowest sequence of its rows, if that is not above a floor.
func (m *Memtable) lowestUpTo(floor uint64, lowest map[tableKey]uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for key, t := range m.tables {
		for _, run := range t.runs {
			if known, ok := lowest[key]; run.sequence <= floor && (!ok || run.sequence < known) {
				lowest[key] = run.sequence
			}
		}
	}
}

// holdsOf derives the holds of a shard as they are once the flush under way is registered with a floor. A replay that
// has not come that far knows nothing of rows that are still to come, so what is recorded of them stands.
func (e *Engine) holdsOf(s *shardState, floor uint64) []segment.Hold {
	lowest := s.unwrittenUpTo(floor)
	if e.recovery.running.Load() {
		for _, h := range e.store.Holds(s.shard) {
			key, next := tableKey{h.Database, h.Measurement}, max(h.Floor, e.recovery.sequence.Load())+1
			if known, ok := lowest[key]; next <= floor && (!ok || next < known) {
				lowest[key] = next
			}
		}
	}
	holds := make([]segment.Hold, 0, len(lowest))
	for key, sequence := range lowest {
		holds = append(holds, segment.Hold{Database: key.database, Measurement: key.measurement, Floor: sequence - 1})
	}
	slices.SortFunc(holds, segment.Hold.Compare)
	return holds
}

// changedHolds is what an edit of a flush says of the shard's holds; nil if there are none and were none.
func (e *Engine) changedHolds(s *shardState, floor uint64) []segment.ShardHolds {
	holds := e.holdsOf(s, floor)
	if len(holds) == 0 && len(e.store.Holds(s.shard)) == 0 {
		return nil
	}
	return []segment.ShardHolds{{Shard: s.shard, Holds: holds}}
}

// shareReservation hands the tier's room for held rows over to their memtables; size is what the others take.
func (f *flight) shareReservation(size int64) {
	left := f.memtable.reservation.SizeBytes() - size
	for _, m := range f.unwritten {
		share := max(0, min(left, m.applied.bytes()))
		m.reservation = f.memtable.reservation.Split(share)
		left -= share
	}
}

// retryHeld tries what is held again. It returns false when no flush may follow.
func (e *Engine) retryHeld(s *shardState) bool {
	if s.HeldCount() == 0 {
		return true
	}
	started := time.Now()
	results, err := s.FlushHeldWith(e.registerWith(s))
	if len(results) > 0 || s.HeldCount() == 0 {
		e.flushed(s, results, time.Since(started))
	}
	switch {
	case err == nil, errors.Is(err, segment.ErrDropped):
		return true
	case errors.Is(err, ErrPoisoned):
		return false
	case unknownOutcome(err):
		e.failed(err)
		return false
	}
	s.flush.record(err)
	return true
}

// retryIn fires when what is held should be tried again.
func (c *FlushController) retryIn() <-chan time.Time {
	if c.HeldCount() == 0 {
		return nil
	}
	return time.After(holdRetry)
}

// refreshHeld refuses points of held measurements from now on, and takes those of others again.
func (e *Engine) refreshHeld() {
	held := map[tableKey]string{}
	for _, s := range e.allShards() {
		for _, m := range s.heldMemtables() {
			if len(m.tableKeys()) > 0 {
				held[m.held.key] = m.held.cause
			}
		}
	}
	before := e.schema.held.Swap(&held)
	for key, cause := range held {
		if before == nil || (*before)[key] == "" {
			e.logger.Error("a measurement can't be written to files; its points are refused, the others go on",
				zap.String("database", key.database), zap.String("measurement", key.measurement),
				zap.String("cause", cause))
		}
	}
}

// isHeld tells whether points of a measurement are refused because it can't be written to files.
func (s *schema) isHeld(key tableKey) bool {
	held := s.held.Load()
	return held != nil && (*held)[key] != ""
}

// coverage is what is in segments of a shard: everything up to the floor but for what is held.
type coverage struct {
	floor uint64
	holds []segment.Hold
}

// covered is what the manifest says of each shard.
func (e *Engine) covered() []coverage {
	floors := e.store.Floors()
	all := make([]coverage, len(floors))
	for i, floor := range floors {
		all[i] = coverage{floor: floor, holds: e.store.Holds(i)}
	}
	return all
}

// without tells which measurements of a database a replay takes from a frame: nil for all of them.
func (c *coverage) without(database string, sequence uint64) func(measurement string) bool {
	if sequence > c.floor {
		return nil
	}
	return func(measurement string) bool {
		return slices.ContainsFunc(c.holds, func(h segment.Hold) bool {
			return h.Database == database && h.Measurement == measurement && sequence > h.Floor
		})
	}
}

// rowsOf counts the rows of a shard's part, of all measurements or those that takes says yes to.
func (b *Batch) rowsOf(shard int, takes func(measurement string) bool) int64 {
	rows := 0
	for _, m := range b.order {
		if takes == nil || takes(m.name) {
			rows += len(m.tables[shard].times)
		}
	}
	return int64(rows)
}
