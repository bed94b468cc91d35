package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go"
)

// run is a number of consecutive equal values. Columns of sorted rows consist of long ones: a series has the same tags
// in all its rows, and a field is there or not for hours.
type run struct {
	value, count uint32
}

// runLength returns how many values at the start of some are equal.
func runLength[T comparable](values []T) int {
	first := values[0]
	for i, v := range values {
		if v != first {
			return i
		}
	}
	return len(values)
}

// pageCursor is the place in the pages of one column of a row group. It only moves forward.
type pageCursor struct {
	chunkPages
	next int   // the page to load next
	row  int64 // the next row
	end  int64 // the row after the loaded page
}

func (c *pageCursor) open(f *File, group *groupMeta, column int, bounded bool) error {
	c.next, c.row, c.end = 0, 0, 0
	return c.chunkPages.open(f, group, column, bounded)
}

// find moves to the page of a row, which becomes the next one to load, and reports whether it must be loaded.
func (c *pageCursor) find(row int64) (*pageMeta, bool) {
	if row < c.end {
		return nil, false
	}
	for c.pages[c.next].end <= row {
		c.next++
	}
	at := &c.pages[c.next]
	c.next++
	c.row, c.end = at.row, at.end
	return at, true
}

var errValues = errors.New("values end early or are too many")

// timeCursor reads times.
type timeCursor struct {
	pageCursor
	times []int64 // of the loaded page
}

// read appends the times of rows from..to.
func (c *timeCursor) read(dst []int64, from, to int64) ([]int64, error) {
	for from < to {
		if at, load := c.find(from); load {
			if err := c.chunkPages.read(at, c.decode); err != nil {
				return dst, err
			}
		}
		start := int64(len(c.times)) - (c.end - from)
		n := min(to, c.end) - from
		dst = append(dst, c.times[start:start+n]...)
		from += n
	}
	return dst, nil
}

func (c *timeCursor) decode(page parquet.Page) error {
	data := page.Data()
	if c.times = data.Int64(); int64(len(c.times)) != page.NumRows() {
		return errValues
	}
	return nil
}

// noIndex is the value of runs of rows that lack a tag.
const noIndex = math.MaxUint32

// tagCursor reads a tag as runs of indexes into its dictionary.
type tagCursor struct {
	pageCursor
	prefix     []byte // of the tag in a series key
	dictionary parquet.Dictionary
	escapes    bool  // a value of the dictionary holds a byte that a series key escapes
	runs       []run // of the loaded page from row on, each a value or noIndex
	run        int   // the run that row is in
	used       uint32
}

func (c *tagCursor) open(f *File, group *groupMeta, column int, bounded bool) (err error) {
	if err := c.pageCursor.open(f, group, column, bounded); err != nil {
		return err
	}
	if c.dictionary, err = c.chunkPages.dictionary(); err != nil {
		return err
	}
	if c.dictionary == nil {
		return f.corrupt(c.chunk.offset, "a tag without a dictionary")
	}
	page := c.dictionary.Page().Data()
	values, _ := page.ByteArray()
	c.escapes = needsKeyEscape(values)
	return nil
}

// value returns a value of the dictionary, whose memory it is.
func (c *tagCursor) value(index uint32) []byte { return c.dictionary.Index(int32(index)).ByteArray() }

// lookup returns the index of a value, or noIndex for the empty one, which stands for no tag, and whether it occurs.
func (c *tagCursor) lookup(value string) (uint32, bool) {
	if value == "" {
		return noIndex, c.chunk.nulls > 0
	}
	for i := range c.dictionary.Len() {
		if string(c.value(uint32(i))) == value {
			return uint32(i), true
		}
	}
	return 0, false
}

// at moves to a row and returns the index of its value and how many rows from there on share it for sure.
func (c *tagCursor) at(row int64) (index uint32, rows int64, err error) {
	if at, load := c.find(row); load {
		if err := c.chunkPages.read(at, c.decode); err != nil {
			return 0, 0, err
		}
		c.run, c.used = 0, 0
	}
	for skip := row - c.row; ; {
		left := int64(c.runs[c.run].count - c.used)
		if skip < left {
			c.used += uint32(skip)
			c.row = row
			return c.runs[c.run].value, left - skip, nil
		}
		skip -= left
		c.run++
		c.used = 0
	}
}

// decode makes runs of a page.
func (c *tagCursor) decode(page parquet.Page) error {
	data := page.Data()
	indexes := data.Int32()
	levels := page.DefinitionLevels()
	c.runs = c.runs[:0]
	for len(levels) > 0 {
		n := runLength(levels)
		if levels[0] == 0 {
			c.runs = append(c.runs, run{noIndex, uint32(n)})
			levels = levels[n:]
			continue
		}
		if n > len(indexes) {
			return errValues
		}
		for part := indexes[:n]; len(part) > 0; {
			equal := runLength(part)
			if uint32(part[0]) >= uint32(c.dictionary.Len()) {
				return fmt.Errorf("index %d in a dictionary of %d values", part[0], c.dictionary.Len())
			}
			c.runs = append(c.runs, run{uint32(part[0]), uint32(equal)})
			part = part[equal:]
		}
		indexes, levels = indexes[n:], levels[n:]
	}
	if len(indexes) > 0 {
		return errValues
	}
	return nil
}

// appendKey appends the cursor's tag with the value of an index to a series key.
func (c *tagCursor) appendKey(dst []byte, index uint32) []byte {
	if index == noIndex {
		return dst
	}
	dst = append(dst, c.prefix...)
	if c.escapes {
		dst = appendKeyText(dst, c.value(index))
	} else {
		dst = append(dst, c.value(index)...)
	}
	return append(dst, keyTagEnd)
}

func tagPrefix(name string) []byte {
	return append(appendKeyText(nil, []byte(name)), keyValueStart)
}

// mayHold reports whether bounds of a tag allow for a value. Unknown bounds do.
func mayHold(value string, lo, hi []byte, nulls int64) bool {
	if value == "" {
		return nulls != 0
	}
	return len(lo) == 0 || (bytes.Compare(lo, []byte(value)) <= 0 && bytes.Compare([]byte(value), hi) <= 0)
}

// fieldCursor reads a field. The loaded page is kept as runs of rows with and without values, and the values.
type fieldCursor struct {
	pageCursor
	def      ColumnDef
	presence []run
	run      int // the run that row is in
	used     uint32
	numbers  []uint64 // from the next value on
	bits     []uint64 // of booleans
	text     []byte   // of all strings of the page
	offsets  []uint32 // of the strings in text, from the next value on
}

// read appends the cells of rows from..to. For strings, all rows between two resets of dst must be in one page.
func (c *fieldCursor) read(dst *fieldBuffer, from, to int64) error {
	for from < to {
		if at, load := c.find(from); load {
			if err := c.chunkPages.read(at, c.decode); err != nil {
				return err
			}
		}
		c.move(nil, from-c.row)
		n := min(to, c.end) - from
		c.move(dst, n)
		from += n
	}
	return nil
}

func (c *fieldCursor) decode(page parquet.Page) error {
	c.run, c.used = 0, 0
	c.presence = appendPresence(c.presence[:0], page)
	want := 0
	for _, r := range c.presence {
		want += int(r.count * min(r.value, 1))
	}
	data := page.Data()
	got := 0
	switch c.def.Kind {
	case KindString:
		c.text, c.offsets = data.ByteArray()
		got = max(len(c.offsets)-1, 0)
	case KindFloat:
		c.numbers = bitsOf(data.Double())
		got = len(c.numbers)
	case KindBool:
		packed := data.Boolean()
		c.bits = unpackBits(c.bits[:0], packed, min(want, 8*len(packed)))
		c.numbers = c.bits
		got = len(c.numbers)
	case KindUint:
		c.numbers = bitsOf(data.Uint64())
		got = len(c.numbers)
	default:
		c.numbers = bitsOf(data.Int64())
		got = len(c.numbers)
	}
	if got != want {
		return errValues
	}
	return nil
}

func unpackBits(numbers []uint64, packed []byte, count int) []uint64 {
	for i := range count {
		numbers = append(numbers, uint64(packed[i/8]>>(i%8)&1))
	}
	return numbers
}

// move goes over rows of the loaded page and appends their cells to dst, if there is one.
func (c *fieldCursor) move(dst *fieldBuffer, rows int64) {
	c.row += rows
	for rows > 0 {
		r := c.presence[c.run]
		n := min(rows, int64(r.count-c.used))
		switch {
		case r.value != 0:
			c.moveValues(dst, int(n))
		case dst != nil:
			dst.appendNulls(int(n))
		}
		rows -= n
		if c.used += uint32(n); c.used == r.count {
			c.run++
			c.used = 0
		}
	}
}

func (c *fieldCursor) moveValues(dst *fieldBuffer, n int) {
	if c.def.Kind != KindString {
		if dst != nil {
			dst.appendNumbers(c.numbers[:n])
		}
		c.numbers = c.numbers[n:]
		return
	}
	if dst != nil {
		for i := range n {
			from, to := c.offsets[i], c.offsets[i+1]
			dst.appendText(c.text[from:to:to])
		}
	}
	c.offsets = c.offsets[n:]
}

// fieldBuffer is the column of a block that is being read.
type fieldBuffer struct {
	Column
	rows, values int
}

func (b *fieldBuffer) reset(def ColumnDef) {
	b.Name, b.Kind = def.Name, def.Kind
	b.Valid, b.Numbers, b.Strings = b.Valid[:0], b.Numbers[:0], b.Strings[:0]
	b.rows, b.values = 0, 0
}

func (b *fieldBuffer) appendNulls(n int) {
	if b.rows == b.values {
		b.Valid = appendRepeated(b.Valid[:0], true, b.rows)
	}
	b.Valid = appendRepeated(b.Valid, false, n)
	if b.Kind == KindString {
		b.Strings = appendRepeated(b.Strings, nil, n)
	} else {
		b.Numbers = appendRepeated(b.Numbers, 0, n)
	}
	b.rows += n
}

func (b *fieldBuffer) appendNumbers(numbers []uint64) {
	b.Numbers = append(b.Numbers, numbers...)
	b.appendedValues(len(numbers))
}

func (b *fieldBuffer) appendText(text []byte) {
	b.Strings = append(b.Strings, text)
	b.appendedValues(1)
}

func (b *fieldBuffer) appendedValues(n int) {
	if b.rows > b.values {
		b.Valid = appendRepeated(b.Valid, true, n)
	}
	b.rows += n
	b.values += n
}

// column returns the column as a Block has it.
func (b *fieldBuffer) column() Column {
	c := b.Column
	if b.rows == b.values {
		c.Valid = nil
	}
	return c
}

// keep leaves only the given rows.
func (b *fieldBuffer) keep(rows []int) {
	for to, from := range rows {
		if b.Kind == KindString {
			b.Strings[to] = b.Strings[from]
		} else {
			b.Numbers[to] = b.Numbers[from]
		}
		if b.rows > b.values {
			b.Valid[to] = b.Valid[from]
		}
	}
	if b.Kind == KindString {
		b.Strings = b.Strings[:len(rows)]
	} else {
		b.Numbers = b.Numbers[:len(rows)]
	}
	if b.rows > b.values {
		b.Valid = b.Valid[:len(rows)]
	}
}
