package segment

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"sort"
)

var errClosed = errors.New("read of a closed scan")

// Scan returns the selected rows in order. The Source reads from the reader given to OpenFile, page by page, so its
// memory does not depend on the size of the file. Its errors are *CorruptionError unless reading itself failed.
func (f *File) Scan(sel Selection) Source { return f.scan(sel) }

func (f *File) scan(sel Selection) *scan {
	s := &scan{file: f, sel: sel}
	for i, name := range f.info.Tags {
		s.tags = append(s.tags, tagScan{column: 1 + i, tagCursor: tagCursor{prefix: tagPrefix(name)}})
	}
	s.filterTags()
	for i, def := range f.info.Fields {
		if sel.Fields == nil || slices.Contains(sel.Fields, def.Name) {
			s.fields = append(s.fields, fieldScan{column: 1 + len(f.info.Tags) + i, fieldCursor: fieldCursor{def: def}})
		}
	}
	s.buffers = make([]fieldBuffer, len(s.fields))
	s.blockRows = int64(BlockRows(1 + len(s.fields)))
	if sel.Fields != nil && len(s.fields) == 0 {
		s.none = true
	}
	return s
}

// tagScan reads one tag of the file and knows which value is selected.
type tagScan struct {
	tagCursor
	column   int // in groupMeta.chunks
	filtered bool
	want     string // "": rows that lack the tag
	index    uint32 // of want in the row group
	current  uint32 // index of the rows at hand
}

type fieldScan struct {
	fieldCursor
	column int // in groupMeta.chunks
}

// scan reads block by block: first the tags and times of a span of rows, which decide what is selected, then only those
// rows of the fields.
type scan struct {
	file      *File
	sel       Selection
	none      bool // nothing can be selected
	group     int  // the next row group
	ranges    []rowRange
	time      timeCursor
	tags      []tagScan
	fields    []fieldScan
	buffers   []fieldBuffer // of fields
	blockRows int64
	block     Block
	keys      []byte // of block.Runs
	span      rowSpan
	err       error
}

// rowSpan is the rows that become a block.
type rowSpan struct {
	times    []int64
	selected []rowRange
}

// filterTags hands each selected tag to its column. A tag that the file lacks has the empty value in all rows.
func (s *scan) filterTags() {
	for _, want := range s.sel.Tags {
		i, found := slices.BinarySearch(s.file.info.Tags, want.Key)
		switch {
		case !found:
			s.none = s.none || want.Value != ""
		case s.tags[i].filtered && s.tags[i].want != want.Value:
			s.none = true
		default:
			s.tags[i].filtered, s.tags[i].want = true, want.Value
		}
	}
}

// Close lets go of the scan's memory. The file stays open.
func (s *scan) Close() error {
	s.time.close()
	for i := range s.tags {
		s.tags[i].close()
	}
	for i := range s.fields {
		s.fields[i].close()
	}
	*s = scan{err: errClosed}
	return nil
}

// Next returns the next block of selected rows.
func (s *scan) Next() (*Block, error) {
	for s.err == nil {
		if len(s.ranges) == 0 {
			s.err = s.nextGroup()
			continue
		}
		rest := &s.ranges[0]
		to := s.spanEnd(*rest)
		from := rest.from
		if rest.from = to; rest.from == rest.to {
			s.ranges = s.ranges[1:]
		}
		if s.err = s.read(from, to); s.err == nil && len(s.block.Times) > 0 {
			return &s.block, nil
		}
	}
	return nil, s.err
}

// spanEnd returns where a block of the range's first rows ends. It holds one page of each field of strings at most, so
// that strings need not be copied and their memory is bounded.
func (s *scan) spanEnd(r rowRange) int64 {
	to := min(r.to, r.from+s.blockRows)
	for i := range s.fields {
		c := &s.fields[i]
		if c.def.Kind != KindString {
			continue
		}
		if r.from < c.end {
			to = min(to, c.end)
			continue
		}
		for page := c.next; ; page++ {
			if end := c.pages[page].end; end > r.from {
				to = min(to, end)
				break
			}
		}
	}
	return to
}

// nextGroup prepares the cursors for the next row group that may hold selected rows. Its error is io.EOF after the
// last.
func (s *scan) nextGroup() error {
	for !s.none && s.group < len(s.file.groups) {
		group := &s.file.groups[s.group]
		s.group++
		if !s.mayHoldGroup(group) {
			continue
		}
		ranges, err := s.openTags(group)
		if err != nil || len(ranges) == 0 {
			if err != nil {
				return err
			}
			continue
		}
		if err := s.openFields(group); err != nil {
			return err
		}
		s.ranges = ranges
		return nil
	}
	return io.EOF
}

// mayHoldGroup asks the statistics of a row group.
func (s *scan) mayHoldGroup(group *groupMeta) bool {
	times := &group.chunks[0]
	if times.known && !s.sel.OverlapsTime(int64(times.min), int64(times.max)) {
		return false
	}
	for i := range s.tags {
		tag := &s.tags[i]
		chunk := &group.chunks[tag.column]
		if tag.filtered && !mayHold(tag.want, chunk.textMin, chunk.textMax, chunk.nulls) {
			return false
		}
	}
	return true
}

// openTags prepares time and tags for a row group and returns the rows that its page indexes don't rule out.
func (s *scan) openTags(group *groupMeta) ([]rowRange, error) {
	allTimes := s.sel.Start == math.MinInt64 && s.sel.Stop == math.MaxInt64
	if err := s.time.open(s.file, group, 0, !allTimes); err != nil {
		return nil, err
	}
	ranges := []rowRange{{0, group.rows}}
	if !allTimes {
		ranges = pageRanges(s.time.pages, func(p *pageMeta) bool {
			return s.sel.OverlapsTime(p.min.Int64(), p.max.Int64())
		})
	}
	for i := range s.tags {
		tag := &s.tags[i]
		if err := tag.open(s.file, group, tag.column, tag.filtered); err != nil {
			return nil, err
		}
		if !tag.filtered {
			continue
		}
		var found bool
		if tag.index, found = tag.lookup(tag.want); !found {
			return nil, nil
		}
		ranges = intersect(ranges, pageRanges(tag.pages, func(p *pageMeta) bool {
			return mayHold(tag.want, p.min.ByteArray(), p.max.ByteArray(), p.nulls)
		}))
	}
	return ranges, nil
}

func (s *scan) openFields(group *groupMeta) error {
	for i := range s.fields {
		if err := s.fields[i].open(s.file, group, s.fields[i].column, false); err != nil {
			return err
		}
	}
	return nil
}

// read makes a block of the selected rows of from..to.
func (s *scan) read(from, to int64) (err error) {
	s.block.Runs, s.block.Times, s.block.Columns = s.block.Runs[:0], s.block.Times[:0], s.block.Columns[:0]
	s.keys, s.span.selected = s.keys[:0], s.span.selected[:0]
	if s.span.times, err = s.time.read(s.span.times[:0], from, to); err != nil {
		return err
	}
	if err := s.selectRuns(from, to); err != nil {
		return err
	}
	if len(s.span.selected) == 0 {
		return nil
	}
	for _, r := range s.span.selected {
		s.block.Times = append(s.block.Times, s.span.times[r.from-from:r.to-from]...)
	}
	for i := range s.fields {
		s.buffers[i].reset(s.fields[i].def)
		for _, r := range s.span.selected {
			if err := s.fields[i].read(&s.buffers[i], r.from, r.to); err != nil {
				return err
			}
		}
	}
	if s.sel.Fields != nil {
		s.dropEmptyRows()
	}
	for i := range s.buffers {
		if s.buffers[i].values > 0 {
			s.block.Columns = append(s.block.Columns, s.buffers[i].column())
		}
	}
	return nil
}

// selectRuns goes through the rows run by run of equal tags, and notes which are selected.
func (s *scan) selectRuns(from, to int64) error {
	for row := from; row < to; {
		end := to
		wanted := true
		for i := range s.tags {
			tag := &s.tags[i]
			index, rows, err := tag.at(row)
			if err != nil {
				return err
			}
			tag.current = index
			end = min(end, row+rows)
			wanted = wanted && (!tag.filtered || index == tag.index)
		}
		if wanted {
			first, last := s.selectTimes(s.span.times[row-from : end-from])
			if first < last {
				s.addRun(int(last - first))
				s.span.selected = appendRange(s.span.selected, rowRange{row + first, row + last})
			}
		}
		row = end
	}
	return nil
}

// selectTimes returns the part of one series' ascending times that is selected.
func (s *scan) selectTimes(times []int64) (first, last int64) {
	if s.sel.ContainsTime(times[0]) && s.sel.ContainsTime(times[len(times)-1]) {
		return 0, int64(len(times))
	}
	first = int64(sort.Search(len(times), func(i int) bool { return times[i] >= s.sel.Start }))
	last = int64(len(times))
	if s.sel.Stop != math.MaxInt64 {
		last = int64(sort.Search(len(times), func(i int) bool { return times[i] >= s.sel.Stop }))
	}
	return first, last
}

// addRun adds rows with the current tags to the block.
func (s *scan) addRun(rows int) {
	start := len(s.keys)
	for i := range s.tags {
		s.keys = s.tags[i].appendKey(s.keys, s.tags[i].current)
	}
	s.keys = AppendKeyEnd(s.keys)
	key := s.keys[start:len(s.keys):len(s.keys)]
	if n := len(s.block.Runs); n > 0 && bytes.Equal(s.block.Runs[n-1].Key, key) {
		s.block.Runs[n-1].Rows += rows // the same series, cut by the end of a page
		s.keys = s.keys[:start]
		return
	}
	s.block.Runs = append(s.block.Runs, Run{Key: key, Rows: rows})
}

// dropEmptyRows drops the rows that have none of the selected fields.
func (s *scan) dropEmptyRows() {
	var keep []int
	for row := range s.block.Times {
		for i := range s.buffers {
			if b := &s.buffers[i]; b.rows == b.values || b.Valid[row] {
				keep = append(keep, row)
				break
			}
		}
	}
	if len(keep) == len(s.block.Times) {
		return
	}
	for to, from := range keep {
		s.block.Times[to] = s.block.Times[from]
	}
	s.block.Times = s.block.Times[:len(keep)]
	for i := range s.buffers {
		s.buffers[i].keep(keep)
	}
	runs := s.block.Runs[:0]
	end := 0
	for _, r := range s.block.Runs {
		end += r.Rows
		r.Rows = sort.SearchInts(keep, end)
		keep = keep[r.Rows:]
		if r.Rows > 0 {
			runs = append(runs, r)
		}
	}
	s.block.Runs = runs
}
