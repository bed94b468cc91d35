package shard

import (
	"bytes"
	"context"
	"errors"

	"lineweir/segment"
)

// VisitSeries calls fn for the key of every series of a measurement that has a selected row; one that several tiers
// hold comes several times, in no order. The selection's fields don't count, and none is read. Segments are read one
// after the other. The key is valid during the call, whose error ends the visit. Errors: ErrDatabaseNotFound,
// ErrMeasurementNotFound, a *ReadLimitError, or what is wrong with a segment.
func (e *Engine) VisitSeries(ctx context.Context, q Query, read *Read, fn func(seriesKey []byte) error) error {
	if err := e.readable(); err != nil {
		return err
	}
	pinned, err := e.pin(tableKey{q.Database, q.Measurement})
	if err != nil {
		return err
	}
	defer pinned.view.Release()
	if err := read.Grow(readBaseBytes); err != nil {
		return err
	}
	defer read.Shrink(readBaseBytes)
	defer read.letGo(len(read.tables))
	for _, s := range pinned.snapshots {
		if err := read.pin(s); err != nil {
			return err
		}
		if err := s.visitSeries(q.Selection, fn); err != nil {
			return err
		}
	}
	for _, s := range pinned.segments {
		if err := visitSegment(ctx, s, q.Selection, read, fn); err != nil {
			return err
		}
	}
	return nil
}

// visitSegment visits the series of one segment, if there is memory for it.
func visitSegment(
	ctx context.Context, s *segment.Segment, sel segment.Selection, read *Read, fn func(seriesKey []byte) error,
) error {
	source, err := s.ScanKeys(sel)
	if err != nil {
		return err
	}
	sizeBytes := segment.MemoryBytes(source)
	if err := read.Grow(sizeBytes); err != nil {
		return errors.Join(err, source.Close())
	}
	defer read.Shrink(sizeBytes)
	return visitKeys(ctx, source, fn)
}

// visitKeys calls fn for each key of a source, once, and closes it.
func visitKeys(ctx context.Context, source segment.Source, fn func(seriesKey []byte) error) error {
	var last []byte
	return eachBlock(source, func(b *segment.Block) error {
		for _, run := range b.Runs {
			if bytes.Equal(run.Key, last) {
				continue // from the block before
			}
			if err := fn(run.Key); err != nil {
				return err
			}
			last = append(last[:0], run.Key...)
		}
		return ctx.Err()
	})
}

// visitSeries calls fn for the key of each series that has a selected row.
func (s *tableSnapshot) visitSeries(sel segment.Selection, fn func(seriesKey []byte) error) error {
	selected := make([]bool, s.keys.length)
	for row := range uint32(s.times.length) {
		if sel.ContainsTime(s.times.at(row)) {
			selected[s.rowSeries.at(row)] = true
		}
	}
	for id := range uint32(s.keys.length) {
		key := s.keys.at(id)
		if !selected[id] || !matchTags(key, sel.Tags) {
			continue
		}
		if err := fn(key); err != nil {
			return err
		}
	}
	return nil
}
