package shard

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"lineweir/segment"
)

// FlushResult describes one segment that a flush wrote.
type FlushResult struct {
	Measurement      string
	Path             string
	Rows             int64
	MinTime, MaxTime int64 // nanoseconds
	MaxSequence      uint64
	Meta             segment.Meta

	file *segment.PendingFile
}

// FlushError names the measurement that a flush failed at.
type FlushError struct {
	Database, Measurement string
	Err                   error
}

func (e *FlushError) Error() string {
	return fmt.Sprintf("flush measurement %q of database %q: %v", e.Measurement, e.Database, e.Err)
}

func (e *FlushError) Unwrap() error { return e.Err }

// FlushFrozen writes the oldest frozen memtable as segments and releases it. See FlushFrozenWith.
func (c *FlushController) FlushFrozen() ([]FlushResult, error) {
	return c.FlushFrozenWith(func(_ []FlushResult, release func()) error {
		release()
		return nil
	})
}

// FlushFrozenWith writes the oldest frozen memtable, one segment per measurement, and calls register when all files
// are durable. register calls release in the moment in which readers find the segments; only then does the memtable
// leave the queue. On failure the files are removed and the memtable stays at the head, readable and counted; only
// after segment.ErrOutcomeUnknown do the files stay, because a restart may find them registered.
func (c *FlushController) FlushFrozenWith(register func([]FlushResult, func()) error) ([]FlushResult, error) {
	c.flushMu.Lock()
	defer c.flushMu.Unlock()
	m := c.FrozenMemtable()
	if m == nil {
		return nil, ErrNoFrozenMemtable
	}
	return c.flush(m, register)
}

// flush writes a memtable, frozen or held, and has its segments registered. flushMu is held.
func (c *FlushController) flush(m *Memtable, register func([]FlushResult, func()) error) ([]FlushResult, error) {
	m.applies.Wait()
	if invariants {
		c.mustAddUp(m)
	}
	c.flight = flight{memtable: m}
	defer func() { c.flight = flight{} }()
	pending, results, err := c.writeSegments(m)
	if err == nil {
		err = c.options.Files.Seal(pending)
	}
	if err == nil {
		err = register(results, func() { c.release(m) })
	}
	if err == nil {
		return results, nil
	}
	if !errors.Is(err, segment.ErrOutcomeUnknown) {
		abort(pending)
	}
	return nil, err
}

func abort(pending []*segment.PendingFile) {
	for _, p := range pending {
		p.Abort()
	}
}

// release takes the flushed memtable out of its queue. What of it could not be written is held from now on.
func (c *FlushController) release(m *Memtable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isFlushed := func(other *Memtable) bool { return other == m }
	c.frozen = slices.DeleteFunc(c.frozen, isFlushed)
	c.held = append(slices.DeleteFunc(c.held, isFlushed), c.flight.unwritten...)
	close(m.flushed)
	c.publishLocked()
}

// writeSegments writes the file of each measurement. The files are not durable yet.
func (c *FlushController) writeSegments(m *Memtable) ([]*segment.PendingFile, []FlushResult, error) {
	keys := m.tableKeys()
	slices.SortFunc(keys, func(a, b tableKey) int {
		return cmp.Or(cmp.Compare(a.database, b.database), cmp.Compare(a.measurement, b.measurement))
	})
	pending := make([]*segment.PendingFile, 0, len(keys))
	results := make([]FlushResult, 0, len(keys))
	for _, key := range keys {
		s := m.snapshot(key, c.options.tombstones.of(key))
		if s == nil {
			continue // dropped
		}
		file, result, err := c.writeTable(m, key, s)
		if errors.Is(err, ErrUnwritable) && c.hold(m, key, err) {
			continue
		}
		if file != nil {
			pending = append(pending, file)
		}
		if err != nil {
			return pending, nil, &FlushError{Database: key.database, Measurement: key.measurement, Err: err}
		}
		results = append(results, result)
	}
	return pending, results, nil
}

// writeTable writes the file of one measurement, once more and plain if the writer panics. After an ErrUnwritable there
// is no file.
func (c *FlushController) writeTable(
	m *Memtable, key tableKey, s *tableSnapshot,
) (*segment.PendingFile, FlushResult, error) {
	if c.isBehindHeld(m, key) {
		return nil, FlushResult{}, fmt.Errorf("%w: older ones of the measurement are held", ErrUnwritable)
	}
	for _, plain := range []bool{false, true} {
		file, result, err := c.writeSegment(m, key, s, plain)
		if !errors.Is(err, ErrUnwritable) {
			return file, result, err
		}
		file.Abort()
		if plain {
			return nil, FlushResult{}, err
		}
	}
	panic("BUG: the loop returns")
}

// writeSegment writes the file of one measurement. A panic in the writer is that measurement's failure: ErrUnwritable.
func (c *FlushController) writeSegment(
	m *Memtable, key tableKey, s *tableSnapshot, plain bool,
) (file *segment.PendingFile, _ FlushResult, err error) {
	info := segment.FileInfo{
		Database: key.database, Measurement: key.measurement, Level: 0, Plain: plain,
		MinSequence: m.minSequence, MaxSequence: m.maxSequence, Tags: s.tags, Fields: s.fieldDefs(),
	}
	file = c.options.Files.NewFile(0, info, 0)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v", ErrUnwritable, p)
		}
	}()
	meta, err := file.Write(s.source(everything()))
	if err != nil {
		return file, FlushResult{}, err
	}
	return file, FlushResult{
		Measurement: key.measurement, Path: file.Path(), Rows: meta.Rows, MinTime: meta.MinTime, MaxTime: meta.MaxTime,
		MaxSequence: m.maxSequence, Meta: meta, file: file,
	}, nil
}

func (s *tableSnapshot) fieldDefs() []segment.ColumnDef {
	defs := make([]segment.ColumnDef, len(s.fields))
	for i, f := range s.fields {
		defs[i] = segment.ColumnDef{Name: f.name, Kind: f.kind}
	}
	return defs
}

// everything selects all rows.
func everything() segment.Selection {
	return segment.Selection{Start: math.MinInt64, Stop: math.MaxInt64}
}
