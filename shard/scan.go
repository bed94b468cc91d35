package shard

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"lineweir/segment"
)

// Query selects rows of one measurement.
type Query struct {
	Database, Measurement string
	Selection             segment.Selection
}

// Scan returns the selected rows by series key and time, with the newest write winning per (series, time, field), as
// they are at the call. The caller closes the source, which ends early when ctx does. Errors: ErrDatabaseNotFound,
// ErrMeasurementNotFound, a *ReadLimitError, or what is wrong with a segment.
func (e *Engine) Scan(ctx context.Context, q Query) (*Rows, error) {
	if err := e.readable(); err != nil {
		return nil, err
	}
	pinned, err := e.pin(tableKey{q.Database, q.Measurement})
	if err != nil {
		return nil, err
	}
	source := &scan{ctx: ctx, view: pinned.view, read: e.BeginRead()}
	sources, err := pinned.sources(q.Selection, source.read)
	source.Source = segment.Merge(sources)
	if err != nil {
		return nil, errors.Join(e.untilMerged(err), source.Close())
	}
	return &Rows{Source: source, Columns: pinned.columns.sorted()}, nil
}

// sources opens all that is pinned, newest first, as far as there is memory for it. Beside an error, those that are
// open are the caller's to close.
func (p *pinned) sources(sel segment.Selection, read *Read) ([]segment.Source, error) {
	fields := len(p.columns)
	if sel.Fields != nil {
		fields = len(sel.Fields)
	}
	if err := read.Grow(readBaseBytes + blockBytes(fields)); err != nil { // a block where sources overlap
		return nil, err
	}
	sources := make([]segment.Source, 0, len(p.snapshots)+len(p.segments))
	for _, s := range p.snapshots {
		if err := read.pin(s); err != nil {
			return sources, err
		}
		if err := read.Grow(s.sourceBytes(fields)); err != nil {
			return sources, err
		}
		sources = append(sources, s.source(sel))
	}
	for _, s := range p.segments {
		source, err := s.Scan(sel)
		if err != nil {
			return sources, err
		}
		sources = append(sources, source)
		if err := read.Grow(segment.MemoryBytes(source)); err != nil {
			return sources, unmerged(err, s)
		}
	}
	return sources, nil
}

// unmerged marks the refusal of a segment of L0.
func unmerged(err error, s *segment.Segment) error {
	var refused *ReadLimitError
	if errors.As(err, &refused) {
		refused.Unmerged = s.Meta().Level == 0
	}
	return err
}

// untilMerged lets a client come back to a scan that is too large because of segments of L0: a tier that is full has
// very many small ones.
func (e *Engine) untilMerged(err error) error {
	var refused *ReadLimitError
	if errors.As(err, &refused) && refused.Unmerged && refused.RetryAfter == 0 {
		tier := e.tier.controller.Ledger()
		refused.RetryAfter = mergeTime(tier.RegisteredBytes, tier.DrainBytesPerSecond)
	}
	return err
}

// readable refuses reads before the replay is over and after the end.
func (e *Engine) readable() error {
	if state, _ := e.stateNow(); state == stateRecovering || state == stateClosed {
		return e.notTaking() // nil if the replay has just ended
	}
	return nil
}

// pinned is what there is of a measurement at one moment, on one side of every drop. Its view must be released.
type pinned struct {
	columns   columns
	snapshots []*tableSnapshot   // newest first within a shard; shards share no series
	segments  []*segment.Segment // newest first
	view      *segment.View
}

// pin returns ErrDatabaseNotFound or ErrMeasurementNotFound if there is nothing of that name.
func (e *Engine) pin(key tableKey) (pinned, error) {
	for {
		dropped := e.schema.tombstones.of(key)
		p, err := e.pinBehind(key, dropped)
		if e.schema.tombstones.of(key) == dropped {
			return p, err
		}
		if err == nil { // a drop came between: some of it may be of before
			p.view.Release()
		}
	}
}

// pinBehind takes what lies behind a drop. The columns are taken last, so they cover all that was found.
func (e *Engine) pinBehind(key tableKey, dropped uint64) (p pinned, err error) {
	p.view = e.store.Acquire(func() {
		for _, s := range e.allShards() {
			p.snapshots = append(p.snapshots, s.snapshots(key, dropped)...)
		}
	})
	p.segments = p.view.Segments(key.database, key.measurement)
	if dropped > 0 {
		p.segments = slices.DeleteFunc(slices.Clone(p.segments), func(s *segment.Segment) bool {
			return s.Meta().MaxSequence < dropped // the edit that removes them is still to come
		})
	}
	if p.columns, err = e.schema.columnsOf(key); err != nil {
		p.view.Release()
	}
	return p, err
}

// snapshots returns the table of every memtable with rows behind a drop, newest first.
func (c *FlushController) snapshots(key tableKey, dropped uint64) []*tableSnapshot {
	var snapshots []*tableSnapshot
	for _, m := range c.memtables() {
		if s := m.snapshot(key, dropped); s != nil {
			snapshots = append(snapshots, s)
		}
	}
	return snapshots
}

// Rows are what a scan yields.
type Rows struct {
	segment.Source
	Columns []segment.ColumnDef // all that the rows may have, tags and fields, by name
}

// scan holds the view that its sources read, and what they take.
type scan struct {
	segment.Source
	ctx  context.Context
	view *segment.View
	read *Read
}

func (s *scan) Next() (*segment.Block, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	return s.Source.Next()
}

func (s *scan) Close() error {
	err := s.Source.Close()
	s.view.Release()
	s.read.Release()
	return err
}

// ScanMeasurement returns the rows of one measurement that the controller's memtables hold, active over frozen.
func (c *FlushController) ScanMeasurement(database, measurement string, sel segment.Selection) segment.Source {
	var sources []segment.Source
	key := tableKey{database, measurement}
	for _, s := range c.snapshots(key, c.options.tombstones.of(key)) {
		sources = append(sources, s.source(sel))
	}
	return segment.Merge(sources)
}

// BlockFunc takes rows of one measurement. The block is valid during the call.
type BlockFunc func(database, measurement string, block *segment.Block) error

// Scan calls fn for the rows of every measurement that the memtables hold within the times min and max, both
// inclusive, in nanoseconds. Measurements come in no order. The block is valid during the call.
func (c *FlushController) Scan(minTime, maxTime int64, fn BlockFunc) error {
	stop := maxTime
	if stop < math.MaxInt64 { // up to which a selection is inclusive
		stop++
	}
	return c.scanAll(segment.Selection{Start: minTime, Stop: stop}, fn)
}

// ScanAll is Scan over all times.
func (c *FlushController) ScanAll(fn BlockFunc) error {
	return c.scanAll(everything(), fn)
}

func (c *FlushController) scanAll(sel segment.Selection, fn BlockFunc) error {
	for key := range c.tableKeys() {
		if err := eachBlock(c.ScanMeasurement(key.database, key.measurement, sel), func(b *segment.Block) error {
			return fn(key.database, key.measurement, b)
		}); err != nil {
			return err
		}
	}
	return nil
}

// tableKeys returns the measurements of all memtables.
func (c *FlushController) tableKeys() map[tableKey]struct{} {
	keys := map[tableKey]struct{}{}
	for _, m := range c.memtables() {
		for _, key := range m.tableKeys() {
			keys[key] = struct{}{}
		}
	}
	return keys
}

// eachBlock calls fn for every block of the source, and closes it.
func eachBlock(source segment.Source, fn func(*segment.Block) error) error {
	for {
		block, err := source.Next()
		if errors.Is(err, io.EOF) {
			return source.Close()
		}
		if err == nil {
			err = fn(block)
		}
		if err != nil {
			return errors.Join(err, source.Close())
		}
	}
}

// AllSeriesCanonicalForms calls fn for the key of every series that the memtables hold; one in several memtables comes
// several times. The key is valid during the call.
func (c *FlushController) AllSeriesCanonicalForms(fn func(database, measurement string, seriesKey []byte)) {
	for key := range c.tableKeys() {
		for _, s := range c.snapshots(key, c.options.tombstones.of(key)) {
			for id := range uint32(s.keys.length) {
				fn(key.database, key.measurement, s.keys.at(id))
			}
		}
	}
}

// VisitTags calls fn for every tag of every series that the memtables hold. Names and values are valid during the call.
func (c *FlushController) VisitTags(fn func(database, measurement string, name, value []byte)) {
	c.AllSeriesCanonicalForms(func(database, measurement string, seriesKey []byte) {
		segment.EachTag(seriesKey, func(name, value []byte) { fn(database, measurement, name, value) })
	})
}
