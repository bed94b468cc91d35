package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
)

// merge writes the rows of a task to new files and reads them back. The files are not sealed yet. After an error, and
// after a panic, which becomes one, there are none.
func (c *Compactor) merge(ctx context.Context, task mergeTask, m *meter) (outputs []*PendingFile, err error) {
	s := &splitter{store: c.store, info: outputInfo(task), outputs: make(map[int64]*PendingFile)}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			s.abort()
			outputs = nil
			err = fmt.Errorf("merge %d segments of %q in %q from %d on: %w", len(task.inputs), task.key.measurement,
				task.key.database, task.inputs[len(task.inputs)-1].meta.ID, err)
		}
	}()
	if s.layout, err = c.chooseLayout(ctx, task); err != nil {
		return nil, err
	}
	if err := c.split(ctx, task, m, s); err != nil {
		return nil, err
	}
	return s.finish()
}

// outputInfo describes the files that a task leads to.
func outputInfo(task mergeTask) FileInfo {
	newest := task.inputs[0].meta
	info := FileInfo{
		Database: newest.Database, Measurement: newest.Measurement, Level: 1,
		Rank: newest.Rank, MinSequence: newest.MinSequence, MaxSequence: newest.MaxSequence,
	}
	columns := make(map[ColumnDef]struct{})
	for _, sg := range task.inputs {
		info.Rank = max(info.Rank, sg.meta.Rank)
		info.MinSequence = min(info.MinSequence, sg.meta.MinSequence)
		info.MaxSequence = max(info.MaxSequence, sg.meta.MaxSequence)
		for _, column := range sg.meta.Columns {
			columns[column] = struct{}{}
		}
	}
	for _, column := range slices.SortedFunc(maps.Keys(columns), compareColumns) {
		if column.Kind == KindTag {
			info.Tags = append(info.Tags, column.Name)
		} else {
			info.Fields = append(info.Fields, column)
		}
	}
	return info
}

// chooseLayout gives each partition a file, or, if there may be too many, counts their rows first.
func (c *Compactor) chooseLayout(ctx context.Context, task mergeTask) (layout, error) {
	if partitionsTouched(task.inputs) <= openPartitionsMax {
		return layout{}, nil
	}
	rows := make(map[int64]int64)
	for _, sg := range task.inputs {
		if err := countPartitions(ctx, sg, rows); err != nil {
			return layout{}, err
		}
	}
	return planLayout(rows), nil
}

// partitionsTouched is the number of partitions that the segments' ranges of time touch.
func partitionsTouched(segments []*Segment) int64 {
	byTime := slices.Clone(segments)
	slices.SortFunc(byTime, func(a, b *Segment) int { return cmp.Compare(a.meta.MinTime, b.meta.MinTime) })
	touched, last := int64(0), partitionOf(byTime[0].meta.MinTime)-1
	for _, sg := range byTime {
		first := max(partitionOf(sg.meta.MinTime), last+1)
		until := partitionOf(sg.meta.MaxTime)
		touched += max(0, until-first+1)
		last = max(last, until)
	}
	return touched
}

func countPartitions(ctx context.Context, sg *Segment, rows map[int64]int64) error {
	source, err := sg.Scan(AllTime())
	if err != nil {
		return err
	}
	for {
		block, err := source.Next()
		if err == io.EOF {
			return source.Close()
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return errors.Join(err, source.Close())
		}
		for _, t := range block.Times {
			rows[partitionOf(t)]++
		}
	}
}

// split streams the merged rows of a task to the outputs.
func (c *Compactor) split(ctx context.Context, task mergeTask, m *meter, s *splitter) (err error) {
	sources, err := c.openInputs(ctx, task, m)
	if err != nil {
		return err
	}
	merged := Merge(sources)
	defer func() { err = errors.Join(err, merged.Close()) }()
	for {
		block, err := merged.Next()
		if err == io.EOF { // an error that wraps io.EOF is not the end
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.add(block); err != nil {
			return err
		}
	}
}

// openInputs opens the sources of a merge, newest first.
func (c *Compactor) openInputs(ctx context.Context, task mergeTask, m *meter) ([]Source, error) {
	charge := func(bytes int64) error { return m.charge(ctx, bytes) }
	if task.level > 0 {
		charge = func(bytes int64) error {
			_, err := c.throttle.pay(ctx, bytes)
			return cmp.Or(err, c.interleave(ctx))
		}
	}
	var sources []Source
	for _, sg := range task.inputs {
		source, err := sg.Scan(AllTime())
		if err != nil {
			return nil, errors.Join(err, closeAll(sources))
		}
		sources = append(sources, &inputSource{Source: source, meta: sg.meta, charge: charge})
	}
	return sources, nil
}

func closeAll(sources []Source) error {
	var err error
	for _, source := range sources {
		err = errors.Join(err, source.Close())
	}
	return err
}
