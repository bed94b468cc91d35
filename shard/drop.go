package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"lineweir/segment"
	"lineweir/wal"
)

// DROP. A drop is a frame of the log with a sequence, given under the commit lock: the rows of the named measurements
// that have a lower sequence are gone, those of a higher one are not concerned. It goes four steps:
//
//  1. Commit, under commitMu: sequence, frame, tombstones, and the schema forgets the measurements. From here on no
//     new read sees the rows, and writes may give the columns other types. Batches that were parsed before are
//     parsed again.
//  2. The frame is synced. Now the drop is durable, and the client may be answered.
//  3. Purge: memtables let go of the rows. Those that a commit still brings are left out when it is applied.
//  4. Settle: one edit of the manifest removes the segments and records the drop. Readers with a view finish; ledger
//     and pages are released as after a merge. The client is answered after this, but if the disk has no room for
//     the edit, it is tried again in the background.
//
// What holds, and how it could break:
//
//	D1  Rows from both sides of a drop are never in one table, file or merge, so columns keep one type wherever they
//	    meet. A memtable's table knows the drop that it came after (table.after), and the first row behind a newer
//	    one begins another table. A file holds tables of one side, and tells which by its highest sequence: memtables
//	    that were frozen before the drop end below it. A merge could only mix sides if a file of later rows were live
//	    before the drop is settled; D3 forbids that.
//	D2  A read is of one side: it takes the tombstone first, then tables and segments that are not below it, and begins
//	    anew when the tombstone has changed meanwhile. Else it could take old rows of one shard and new ones of
//	    another.
//	D3  Before a segment with a sequence above the drop is registered, or a floor reaches the drop, the drop is in the
//	    manifest: registration settles first, and floors stay below what is not settled. Else a restart would skip the
//	    frame, or merge old segments with new ones.
//	D4  No edit brings dropped rows back: the store refuses a segment that lies below a recorded drop. A flush that was
//	    writing such rows is tried again without them; a merge is given up.
//	D5  A replay leaves out rows below a recorded drop before their types are looked at, because the segments of the
//	    time may hold others. Drops are recorded until all floors have reached them.
//	D6  A memtable that a drop has emptied pins no log: it forgets its sequences when nothing is left in it.
//	D7  CREATE DATABASE, DROP and retention exclude one another (ddl.mu), and what is not settled is settled first. Else
//	    the edit of an older drop could take a database that was made after it.
//
// Rejected: rows filtered by sequence in every read and merge (a sequence for each row of a file, for ever), and drops
// that stop the writers until their edit is durable.

// ddl is what CREATE, ALTER and DROP need.
type ddl struct {
	mu        sync.Mutex // one statement at a time, its I/O included; no write takes it
	settleMu  sync.Mutex // one edit of drops at a time; taken after mu
	unsettled unsettledDrops
}

// unsettledDrops are the drops that no edit has recorded yet, by sequence. Its lock is held for moments, and none is
// taken under it.
type unsettledDrops struct {
	mu    sync.Mutex
	drops []drop
}

func (u *unsettledDrops) add(d drop) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drops = append(u.drops, d)
}

// removeFirst takes out the drop that an edit has recorded.
func (u *unsettledDrops) removeFirst() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drops = slices.Delete(u.drops, 0, 1)
}

// upTo returns those up to a sequence.
func (u *unsettledDrops) upTo(sequence uint64) []drop {
	u.mu.Lock()
	defer u.mu.Unlock()
	count := 0
	for count < len(u.drops) && u.drops[count].sequence <= sequence {
		count++
	}
	return slices.Clone(u.drops[:count])
}

// below returns the sequence up to which every drop is settled, if that is below the given one.
func (u *unsettledDrops) below(sequence uint64) uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.drops) == 0 {
		return sequence
	}
	return min(sequence, u.drops[0].sequence-1)
}

// DropMeasurement removes a measurement of a database and of its retention policies, and forgets its columns. It is no
// error if there is none of that name. Errors: ErrDatabaseNotFound, or a *BackpressureError.
func (e *Engine) DropMeasurement(_ context.Context, database, measurement string) error {
	return e.drop(func() (drop, error) {
		family := e.schema.family(database)
		if len(family) == 0 {
			return drop{}, ErrDatabaseNotFound
		}
		holding := slices.DeleteFunc(family, func(name string) bool { return e.schema.lookup(name, measurement) == nil })
		return drop{databases: holding, measurement: measurement}, nil
	})
}

// DropDatabase removes a database with its retention policies and all their measurements. It is no error if there is
// none of that name. Errors: a *BackpressureError.
func (e *Engine) DropDatabase(_ context.Context, database string) error {
	return e.drop(func() (drop, error) { return drop{databases: e.schema.family(database)}, nil })
}

// DropPolicy removes one database with its measurements and its retention, and leaves those that are its policies. It
// is no error if there is none of that name. Errors: a *BackpressureError.
func (e *Engine) DropPolicy(_ context.Context, database string) error {
	return e.drop(func() (drop, error) {
		if !e.schema.knows(database) {
			return drop{}, nil
		}
		return drop{databases: []string{database}}, nil
	})
}

// drop does what find, which is called under the commit lock, says is to be dropped.
func (e *Engine) drop(find func() (drop, error)) error {
	e.ddl.mu.Lock()
	defer e.ddl.mu.Unlock()
	d, ticket, err := e.commitDrop(find)
	if err != nil || ticket == nil {
		return err
	}
	if err := ticket.Wait(); err != nil {
		return e.refusal(CauseOutcomeUnknown, err.Error())
	}
	e.logger.Info("dropped", zap.Strings("databases", d.databases), zap.String("measurement", d.measurement),
		zap.Uint64("sequence", d.sequence))
	e.purge()
	e.settleDropsAgain()
	if d.measurement == "" {
		e.refreshRetention() // what may be written is no longer told by what is gone
	}
	e.kick()
	return nil
}

// settleDropsAgain is settleDrops where a failure concerns no caller.
func (e *Engine) settleDropsAgain() {
	if err := e.settleDrops(); err != nil && !errors.Is(err, ErrPoisoned) {
		e.failedEdit(err)
		e.logger.Warn("the segments of what was dropped are still there; removing them is tried again", zap.Error(err))
	}
}

// commitDrop gives the drop its place among the writes. The ticket is nil if there is nothing to drop.
func (e *Engine) commitDrop(find func() (drop, error)) (drop, *wal.Ticket, error) {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	if err := e.notChanging(); err != nil {
		return drop{}, nil, err
	}
	d, err := find()
	if err != nil || len(d.databases) == 0 {
		return drop{}, nil, err
	}
	payload := appendDrop(nil, d)
	if err := e.log.Room(int64(len(payload))); err != nil {
		return drop{}, nil, e.dropRefusal(err)
	}
	e.sequence++
	d.sequence = e.sequence
	ticket := e.log.Append(wal.Frame{Sequence: d.sequence, Type: frameDrop, Payload: payload})
	e.noteDrop(d)
	return d, ticket, nil
}

// notChanging is notTaking for statements: a disk that is low is no reason to keep what takes its space.
func (e *Engine) notChanging() error {
	if refusal := e.state.refusal.Load(); refusal != nil {
		return e.refusal(refusal.Cause, refusal.Detail)
	}
	return nil
}

// noteDrop makes a drop take effect in memory.
func (e *Engine) noteDrop(d drop) {
	e.schema.drop(d.records())
	if d.measurement == "" {
		e.retention.forget(d.databases)
	}
	e.ddl.unsettled.add(d)
}

// dropRefusal is why the log takes no frame of a drop.
func (e *Engine) dropRefusal(err error) *BackpressureError {
	switch {
	case errors.Is(err, wal.ErrFull):
		e.wantPinning()
		return e.refusal(CauseWALFull, e.logDetail())
	case errors.Is(err, wal.ErrDiskLow):
		return e.refusal(CauseDiskLow, err.Error())
	default:
		return e.refusal(CauseReadOnly, err.Error())
	}
}

// purge frees what the memtables hold of dropped rows.
func (e *Engine) purge() {
	for _, s := range e.allShards() {
		s.purge()
		if s.HeldCount() > 0 {
			s.flush.signal() // to let go of held memtables that are empty now
		}
	}
	e.refreshHeld()
}

// purge drops the tables whose rows are gone.
func (c *FlushController) purge() {
	for _, m := range c.memtables() {
		freed := m.purge(c.options.tombstones)
		if freed.tables == 0 {
			continue
		}
		c.mu.Lock()
		m.applied.subtract(freed)
		c.unpinLocked(m)
		c.publishLocked()
		c.mu.Unlock()
	}
}

// unpinLocked lets an active memtable that holds nothing, and expects nothing, be as good as new. A frozen one goes
// with its flush.
func (c *FlushController) unpinLocked(m *Memtable) {
	if m == c.active && m.usedLocked().rows == 0 {
		m.minSequence, m.maxSequence, m.oldest = 0, 0, time.Time{}
	}
}

// settleDrops records the durable drops that no edit has recorded yet. It waits for nobody if there are none: the edit
// of a drop goes on to unlink files, which may take its time.
func (e *Engine) settleDrops() error {
	if len(e.durableDrops()) == 0 {
		return nil
	}
	e.ddl.settleMu.Lock()
	defer e.ddl.settleMu.Unlock()
	for _, d := range e.durableDrops() {
		if err := e.mayRegister(); err != nil {
			return err
		}
		edit := segment.Edit{Drops: d.records()}
		if d.measurement != "" {
			edit.Databases = d.databases // they may be known from rows alone that are gone now
		}
		if _, err := e.store.Apply(edit, e.ddl.unsettled.removeFirst); err != nil {
			return fmt.Errorf("record the drop of sequence %d: %w", d.sequence, err)
		}
	}
	return nil
}

// durableDrops returns the unsettled drops whose frames are durable.
func (e *Engine) durableDrops() []drop { return e.ddl.unsettled.upTo(e.durableSequence()) }

// replayDrop does again what a frame says, unless the manifest has it already.
func (e *Engine) replayDrop(f wal.Frame) error {
	d, err := parseDrop(f.Payload)
	if err != nil {
		return fmt.Errorf("%w: frame %d: %w", ErrCorrupt, f.Sequence, err)
	}
	d.sequence = f.Sequence
	d.databases = slices.DeleteFunc(d.databases, func(name string) bool {
		return e.schema.tombstones.of(tableKey{name, d.measurement}) >= f.Sequence
	})
	if len(d.databases) > 0 {
		e.noteDrop(d)
		e.purge()
	}
	e.recovery.frames.Add(1)
	e.recovery.sequence.Store(f.Sequence)
	if e.offline { // rows of the drop are hidden, and stay
		return nil
	}
	err = e.settleDrops()
	if unknownOutcome(err) {
		return err
	}
	if err != nil {
		e.logger.Warn("a drop is not recorded yet; that is tried again", zap.Error(err))
	}
	return nil
}
