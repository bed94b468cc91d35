package shard

import (
	"context"
	"errors"
	"io"
	"math"

	"lineweir/segment"
)

// Query selects rows of one measurement.
type Query struct {
	Database, Measurement string
	Selection             segment.Selection
}

// Scan returns the selected rows by series key and time, with the newest write winning per (series, time, field), as
// they are at the call. The caller closes the source, which ends early when ctx does. Errors: ErrDatabaseNotFound,
// ErrMeasurementNotFound, or what is wrong with a segment.
func (e *Engine) Scan(ctx context.Context, q Query) (segment.Source, error) {
	if state, _ := e.stateNow(); state == stateRecovering || state == stateClosed {
		if err := e.notTaking(); err != nil { // else the replay has just ended
			return nil, err
		}
	}
	if _, err := e.Columns(q.Database, q.Measurement); err != nil {
		return nil, err
	}
	key := tableKey{q.Database, q.Measurement}
	var snapshots []*tableSnapshot
	view := e.store.Acquire(func() { snapshots = e.snapshots(key) })
	sources := make([]segment.Source, 0, len(snapshots))
	for _, s := range snapshots {
		sources = append(sources, s.source(q.Selection))
	}
	for _, s := range view.Segments(q.Database, q.Measurement) {
		source, err := s.Scan(q.Selection)
		if err != nil {
			err = errors.Join(err, closeAll(sources))
			view.Release()
			return nil, err
		}
		sources = append(sources, source)
	}
	return &scan{ctx: ctx, view: view, Source: segment.Merge(sources)}, nil
}

// snapshots returns the table in every memtable, newest first within a shard; shards share no series.
func (e *Engine) snapshots(key tableKey) []*tableSnapshot {
	var snapshots []*tableSnapshot
	for _, s := range e.allShards() {
		snapshots = append(snapshots, s.snapshots(key)...)
	}
	return snapshots
}

func (c *FlushController) snapshots(key tableKey) []*tableSnapshot {
	var snapshots []*tableSnapshot
	for _, m := range c.memtables() {
		if s := m.snapshot(key); s != nil {
			snapshots = append(snapshots, s)
		}
	}
	return snapshots
}

func closeAll(sources []segment.Source) error {
	var errs []error
	for _, s := range sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// scan holds the view that its sources read.
type scan struct {
	segment.Source
	ctx  context.Context
	view *segment.View
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
	return err
}

// ScanMeasurement returns the rows of one measurement that the controller's memtables hold, active over frozen.
func (c *FlushController) ScanMeasurement(database, measurement string, sel segment.Selection) segment.Source {
	var sources []segment.Source
	for _, s := range c.snapshots(tableKey{database, measurement}) {
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
		for _, s := range c.snapshots(key) {
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
