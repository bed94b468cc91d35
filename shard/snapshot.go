package shard

import (
	"bytes"
	"cmp"
	"io"
	"slices"

	"lineweir/segment"
)

// tableSnapshot is an immutable view of a table. Its fields ascend by name.
type tableSnapshot struct {
	keys      chunked[[]byte]
	rowSeries chunked[uint32]
	times     chunked[int64]
	runs      []sequenceRun
	fields    []tableField
	tags      []string

	pin         *pin  // of the table
	memoryBytes int64 // what the table took
}

// source yields the selected rows by series and time, with the newest write winning per (series, time, field), where
// newer means a higher sequence, and within one commit a later line.
func (s *tableSnapshot) source(sel segment.Selection) segment.Source {
	source := &tableSource{snapshot: s, projected: sel.Fields != nil}
	for i := range s.fields {
		if f := &s.fields[i]; sel.Fields == nil || slices.Contains(sel.Fields, f.name) {
			source.fields = append(source.fields, newFieldReader(f, s.times.length))
			source.block.Columns = append(source.block.Columns, segment.Column{Name: f.name, Kind: f.kind})
		}
	}
	source.order = s.order(sel)
	return source
}

// order returns the selected rows sorted by series key, time and age, oldest first.
func (s *tableSnapshot) order(sel segment.Selection) []uint32 {
	ranks, count := s.seriesRanks(sel.Tags)
	starts := make([]uint32, count+1)
	total := s.eachSelected(ranks, sel, func(_, rank uint32) { starts[rank+1]++ })
	for i := range count {
		starts[i+1] += starts[i]
	}
	order := make([]uint32, total)
	next := slices.Clone(starts)
	s.eachSelected(ranks, sel, func(row, rank uint32) {
		order[next[rank]] = row
		next[rank]++
	})
	for i := range count {
		s.sortByTime(order[starts[i]:starts[i+1]])
	}
	return order
}

// notSelected is the rank of a series that the selection leaves out.
const notSelected = ^uint32(0)

// seriesRanks returns the place of each selected series in the order of keys, and how many are selected.
func (s *tableSnapshot) seriesRanks(tags []segment.TagEqual) (ranks []uint32, count int) {
	type entry struct {
		prefix uint64
		id     uint32
	}
	shared := s.sharedPrefix()
	entries := make([]entry, 0, s.keys.length)
	ranks = make([]uint32, s.keys.length)
	for id := range uint32(s.keys.length) {
		ranks[id] = notSelected
		if key := s.keys.at(id); matchTags(key, tags) {
			entries = append(entries, entry{prefix: bigEndianPrefix(key[shared:]), id: id})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return bytes.Compare(s.keys.at(a.id)[shared:], s.keys.at(b.id)[shared:])
	})
	for rank, e := range entries {
		ranks[e.id] = uint32(rank)
	}
	return ranks, len(entries)
}

// matchTags reports whether a series has all of the tags. One that lacks a tag has the empty value.
func matchTags(key []byte, tags []segment.TagEqual) bool {
	for _, want := range tags {
		var value []byte
		segment.EachTag(key, func(name, v []byte) {
			if string(name) == want.Key {
				value = v
			}
		})
		if string(value) != want.Value {
			return false
		}
	}
	return true
}

// sharedPrefix returns how many leading bytes all keys share, so that sorting does not compare them again and again.
func (s *tableSnapshot) sharedPrefix() int {
	if s.keys.length == 0 {
		return 0
	}
	first := s.keys.at(0)
	shared := len(first)
	for id := range uint32(s.keys.length) {
		key := s.keys.at(id)
		shared = min(shared, len(key))
		for i := range shared {
			if key[i] != first[i] {
				shared = i
				break
			}
		}
	}
	return shared
}

// bigEndianPrefix returns the first eight bytes as a number that orders as they do.
func bigEndianPrefix(key []byte) uint64 {
	var prefix uint64
	for i := range 8 {
		prefix <<= 8
		if i < len(key) {
			prefix |= uint64(key[i])
		}
	}
	return prefix
}

// eachSelected calls fn for the selected rows by age, oldest first, and returns their number.
func (s *tableSnapshot) eachSelected(ranks []uint32, sel segment.Selection, fn func(row, rank uint32)) int {
	count := 0
	for _, run := range s.rowRuns() {
		for row := run.start; row < run.end; row++ {
			rank := ranks[s.rowSeries.at(row)]
			if rank == notSelected || !sel.ContainsTime(s.times.at(row)) {
				continue
			}
			fn(row, rank)
			count++
		}
	}
	return count
}

type rowRun struct {
	sequence   uint64
	start, end uint32
}

// rowRuns returns the rows of each commit, by sequence. Commits may have been applied in another order.
func (s *tableSnapshot) rowRuns() []rowRun {
	runs := make([]rowRun, len(s.runs))
	for i, run := range s.runs {
		end := uint32(s.times.length)
		if i+1 < len(s.runs) {
			end = s.runs[i+1].start
		}
		runs[i] = rowRun{sequence: run.sequence, start: run.start, end: end}
	}
	slices.SortStableFunc(runs, func(a, b rowRun) int { return cmp.Compare(a.sequence, b.sequence) })
	return runs
}

// sortByTime sorts the rows of one series by time; rows of the same time keep their order.
func (s *tableSnapshot) sortByTime(rows []uint32) {
	byTime := func(a, b uint32) int { return cmp.Compare(s.times.at(a), s.times.at(b)) }
	if !slices.IsSortedFunc(rows, byTime) {
		slices.SortStableFunc(rows, byTime)
	}
}

// tableSource merges the copies of each point and yields them as blocks.
type tableSource struct {
	snapshot  *tableSnapshot
	projected bool
	fields    []fieldReader
	order     []uint32
	next      int
	groups    []group
	distinct  bool // each group holds one row
	block     segment.Block
}

// group is the range in order that holds the copies of one point, oldest first.
type group struct{ start, end int }

func (s *tableSource) Close() error { return nil }

func (s *tableSource) Next() (*segment.Block, error) {
	s.takeGroups(segment.BlockRows(len(s.fields)))
	if len(s.groups) == 0 {
		return nil, io.EOF
	}
	for i := range s.fields {
		s.fillColumn(&s.block.Columns[i], &s.fields[i])
	}
	return &s.block, nil
}

// takeGroups takes up to rowsMax points from the order and lists their times and series.
func (s *tableSource) takeGroups(rowsMax int) {
	s.groups, s.block.Runs, s.block.Times = s.groups[:0], s.block.Runs[:0], s.block.Times[:0]
	runSeries := notSelected
	s.distinct = true
	for s.next < len(s.order) && len(s.groups) < rowsMax {
		g := s.takeGroup()
		if s.projected && !s.hasValue(g) {
			continue
		}
		row := s.order[g.start]
		if series := s.snapshot.rowSeries.at(row); series != runSeries {
			runSeries = series
			s.block.Runs = append(s.block.Runs, segment.Run{Key: s.snapshot.keys.at(series)})
		}
		s.block.Runs[len(s.block.Runs)-1].Rows++
		s.block.Times = append(s.block.Times, s.snapshot.times.at(row))
		s.groups = append(s.groups, g)
		s.distinct = s.distinct && g.end == g.start+1
	}
}

// takeGroup takes the copies of the next point.
func (s *tableSource) takeGroup() group {
	g := group{start: s.next, end: s.next + 1}
	first := s.order[g.start]
	series, time := s.snapshot.rowSeries.at(first), s.snapshot.times.at(first)
	for g.end < len(s.order) {
		row := s.order[g.end]
		if s.snapshot.times.at(row) != time || s.snapshot.rowSeries.at(row) != series {
			break
		}
		g.end++
	}
	s.next = g.end
	return g
}

func (s *tableSource) hasValue(g group) bool {
	for i := range s.fields {
		if _, ok := s.newest(&s.fields[i], g); ok {
			return true
		}
	}
	return false
}

// newest returns the position of the newest value that the copies of a point have of a field.
func (s *tableSource) newest(f *fieldReader, g group) (uint32, bool) {
	for i := g.end - 1; i >= g.start; i-- {
		if position, ok := f.position(s.order[i]); ok {
			return position, true
		}
	}
	return 0, false
}

// fillColumn sets the values of a block's column. Rows of a series lie far apart, so what matters is that the loops let
// the processor fetch many of them at once.
func (s *tableSource) fillColumn(c *segment.Column, f *fieldReader) {
	if s.distinct && !f.field.sparse && c.Kind != segment.KindString && f.field.len() == s.snapshot.times.length {
		c.Numbers, c.Valid = c.Numbers[:0], nil
		for _, g := range s.groups {
			c.Numbers = append(c.Numbers, f.field.numbers.at(s.order[g.start]))
		}
		return
	}
	c.Numbers, c.Strings = c.Numbers[:0], c.Strings[:0]
	valid := f.valid[:0]
	missing := false
	for _, g := range s.groups {
		position, ok := s.newest(f, g)
		missing = missing || !ok
		valid = append(valid, ok)
		switch {
		case c.Kind == segment.KindString && ok:
			c.Strings = append(c.Strings, f.field.strings.at(position))
		case c.Kind == segment.KindString:
			c.Strings = append(c.Strings, nil)
		case ok:
			c.Numbers = append(c.Numbers, f.field.numbers.at(position))
		default:
			c.Numbers = append(c.Numbers, 0)
		}
	}
	f.valid = valid
	c.Valid = valid
	if !missing {
		c.Valid = nil
	}
}

// fieldReader finds the value that a row has of a field.
type fieldReader struct {
	field     *tableField
	positions []uint32 // of a well-filled sparse field: 1 + position of each row's value, 0: none
	valid     []bool   // memory of the column's Valid
}

// newFieldReader prepares for rows of a table. A field that few rows have is searched, so that the memory stays in
// proportion to the values.
func newFieldReader(f *tableField, rows int) fieldReader {
	r := fieldReader{field: f}
	if f.keepsPlaces(rows) {
		r.positions = make([]uint32, rows)
		for i := range uint32(f.len()) {
			r.positions[f.rows.at(i)] = i + 1
		}
	}
	return r
}

// keepsPlaces tells whether a reader of the field notes the place of its value for every row.
func (f *tableField) keepsPlaces(rows int) bool { return f.sparse && 4*f.len() >= rows }

func (r *fieldReader) position(row uint32) (uint32, bool) {
	switch {
	case !r.field.sparse:
		return row, int(row) < r.field.len()
	case r.positions != nil:
		return r.positions[row] - 1, r.positions[row] != 0
	default:
		return r.search(row)
	}
}

func (r *fieldReader) search(row uint32) (uint32, bool) {
	low, high := uint32(0), uint32(r.field.rows.length)
	for low < high {
		middle := low + (high-low)/2
		if r.field.rows.at(middle) < row {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, int(low) < r.field.rows.length && r.field.rows.at(low) == row
}
