package segment

import (
	"bytes"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go/format"
)

// pageCursor is the place in the pages of one column of a row group. It only moves forward.
type pageCursor struct {
	chunk  *chunkMeta
	pages  []pageMeta
	next   int   // the page to load next
	row    int64 // the next row
	end    int64 // the row after the loaded page
	memory pageMemory
}

func (c *pageCursor) reset(chunk *chunkMeta, pages []pageMeta) {
	c.chunk, c.pages = chunk, pages
	c.next, c.row, c.end = 0, 0, 0
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

// timeCursor reads times.
type timeCursor struct {
	pageCursor
	times []uint64 // of the loaded page
}

// read appends the times of rows from..to.
func (c *timeCursor) read(r *pageReader, dst []int64, from, to int64) ([]int64, error) {
	for from < to {
		if at, load := c.find(from); load {
			if err := c.load(r, at); err != nil {
				return dst, err
			}
		}
		start := int64(len(c.times)) - (c.end - from)
		n := min(to, c.end) - from
		dst = append(dst, signed(c.times)[start:start+n]...)
		from += n
	}
	return dst, nil
}

func (c *timeCursor) load(r *pageReader, at *pageMeta) error {
	page, err := r.readData(&c.memory, c.chunk, at)
	if err != nil {
		return err
	}
	if page.nulls > 0 || len(page.levels) > 0 {
		return r.file.corrupt(at.offset, "%d rows without time", page.nulls)
	}
	if c.times, err = decodeNumbers(c.times, KindInt, &page); err == nil && len(c.times) != page.rows {
		err = errValues
	}
	if err != nil {
		return r.file.corrupt(at.offset, "times: %v", err)
	}
	return nil
}

// noIndex is the value of runs of rows that lack a tag.
const noIndex = math.MaxUint32

// tagCursor reads a tag as runs of indexes into its dictionary.
type tagCursor struct {
	pageCursor
	prefix     []byte // of the tag in a series key
	dictionary dictionary
	plain      pageMemory // of the dictionary
	presence   []run
	indexes    []run
	runs       []run // of the loaded page from row on, each a value or noIndex
	run        int   // the run that row is in
	used       uint32
}

func (c *tagCursor) reset(r *pageReader, chunk *chunkMeta, pages []pageMeta) error {
	c.pageCursor.reset(chunk, pages)
	c.dictionary.ends = c.dictionary.ends[:0]
	if chunk.dictionary.length == 0 {
		return nil
	}
	plain, count, err := r.readDictionary(&c.plain, chunk)
	if err != nil {
		return err
	}
	c.dictionary.plain = plain
	for rest := plain; len(rest) > 0; {
		_, after, ok := nextText(rest)
		if !ok {
			return r.file.corrupt(chunk.dictionary.offset, "dictionary: %v", errValues)
		}
		rest = after
		c.dictionary.ends = append(c.dictionary.ends, uint32(len(plain)-len(rest)))
	}
	if len(c.dictionary.ends) != count {
		return r.file.corrupt(chunk.dictionary.offset, "dictionary: %d values, want %d", len(c.dictionary.ends), count)
	}
	return nil
}

// lookup returns the index of a value, or noIndex for the empty one, which stands for no tag, and whether it occurs.
func (c *tagCursor) lookup(value string) (uint32, bool) {
	if value == "" {
		return noIndex, c.chunk.nulls > 0
	}
	for i := range c.dictionary.ends {
		if string(c.dictionary.value(int32(i))) == value {
			return uint32(i), true
		}
	}
	return 0, false
}

// at moves to a row and returns the index of its value and how many rows from there on share it for sure.
func (c *tagCursor) at(r *pageReader, row int64) (index uint32, rows int64, err error) {
	if at, load := c.find(row); load {
		if err := c.load(r, at); err != nil {
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

func (c *tagCursor) load(r *pageReader, at *pageMeta) error {
	page, err := r.readData(&c.memory, c.chunk, at)
	if err != nil {
		return err
	}
	if err := c.decode(&page); err != nil {
		return r.file.corrupt(at.offset, "tag: %v", err)
	}
	return nil
}

func (c *tagCursor) decode(page *encodedPage) (err error) {
	if c.presence, err = decodeLevels(c.presence, page); err != nil {
		return err
	}
	if err := c.decodeIndexes(page); err != nil {
		return err
	}
	// Put the runs of values between the runs of nulls.
	c.runs = c.runs[:0]
	next, used := 0, uint32(0)
	for _, p := range c.presence {
		if p.value == 0 {
			c.runs = append(c.runs, run{noIndex, p.count})
			continue
		}
		for count := p.count; count > 0; {
			n := min(count, c.indexes[next].count-used)
			c.runs = append(c.runs, run{c.indexes[next].value, n})
			count -= n
			if used += n; used == c.indexes[next].count {
				next, used = next+1, 0
			}
		}
	}
	return nil
}

func (c *tagCursor) decodeIndexes(page *encodedPage) (err error) {
	c.indexes = c.indexes[:0]
	values := page.rows - page.nulls
	switch {
	case values == 0 && len(page.values) == 0:
		return nil
	case page.encoding != format.RLEDictionary || len(page.values) == 0:
		return fmt.Errorf("%d bytes in encoding %v", len(page.values), page.encoding)
	}
	if c.indexes, err = decodeHybrid(c.indexes, page.values[1:], uint(page.values[0]), values); err != nil {
		return err
	}
	for _, r := range c.indexes {
		if r.value >= uint32(len(c.dictionary.ends)) {
			return fmt.Errorf("index %d in a dictionary of %d values", r.value, len(c.dictionary.ends))
		}
	}
	return nil
}

// fieldCursor reads a field. The loaded page is kept as runs of rows with and without values, and the values.
type fieldCursor struct {
	pageCursor
	def      ColumnDef
	presence []run
	run      int // the run that row is in
	used     uint32
	numbers  []uint64 // from the next value on
	decoded  []uint64 // all of the page
	text     []byte   // strings in PLAIN encoding, from the next value on
}

// read appends the cells of rows from..to. For strings, all rows between two resets of dst must be in one page.
func (c *fieldCursor) read(r *pageReader, dst *fieldBuffer, from, to int64) error {
	for from < to {
		if at, load := c.find(from); load {
			if err := c.load(r, at); err != nil {
				return err
			}
		}
		if err := c.move(nil, from-c.row); err != nil {
			return r.file.corrupt(c.pages[c.next-1].offset, "strings: %v", err)
		}
		n := min(to, c.end) - from
		if err := c.move(dst, n); err != nil {
			return r.file.corrupt(c.pages[c.next-1].offset, "strings: %v", err)
		}
		from += n
	}
	return nil
}

func (c *fieldCursor) load(r *pageReader, at *pageMeta) error {
	page, err := r.readData(&c.memory, c.chunk, at)
	if err != nil {
		return err
	}
	if err := c.decode(&page); err != nil {
		return r.file.corrupt(at.offset, "field: %v", err)
	}
	return nil
}

func (c *fieldCursor) decode(page *encodedPage) (err error) {
	c.run, c.used = 0, 0
	if c.presence, err = decodeLevels(c.presence, page); err != nil {
		return err
	}
	if c.def.Kind == KindString {
		if page.encoding != format.Plain {
			return fmt.Errorf("strings in encoding %v", page.encoding)
		}
		c.text = page.values
		return nil
	}
	if c.decoded, err = decodeNumbers(c.decoded, c.def.Kind, page); err != nil {
		return err
	}
	c.numbers = c.decoded
	if len(c.numbers) != page.rows-page.nulls {
		return errValues
	}
	return nil
}

// move goes over rows of the loaded page and appends their cells to dst, if there is one.
func (c *fieldCursor) move(dst *fieldBuffer, rows int64) error {
	c.row += rows
	for rows > 0 {
		r := c.presence[c.run]
		n := min(rows, int64(r.count-c.used))
		if r.value == 0 {
			if dst != nil {
				dst.appendNulls(int(n))
			}
		} else if err := c.moveValues(dst, int(n)); err != nil {
			return err
		}
		rows -= n
		if c.used += uint32(n); c.used == r.count {
			c.run++
			c.used = 0
		}
	}
	return nil
}

func (c *fieldCursor) moveValues(dst *fieldBuffer, n int) error {
	if c.def.Kind != KindString {
		if dst != nil {
			dst.appendNumbers(c.numbers[:n])
		}
		c.numbers = c.numbers[n:]
		return nil
	}
	for range n {
		text, rest, ok := nextText(c.text)
		if !ok {
			return errValues
		}
		c.text = rest
		if dst != nil {
			dst.appendText(text)
		}
	}
	return nil
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

// appendKey appends the cursor's tag with the value of an index to a series key.
func (c *tagCursor) appendKey(dst []byte, index uint32) []byte {
	if index == noIndex {
		return dst
	}
	dst = append(dst, c.prefix...)
	dst = append(dst, c.dictionary.value(int32(index))...)
	return append(dst, keyTagEnd)
}

func tagPrefix(name string) []byte {
	return append(append([]byte(nil), name...), keyValueStart)
}

// mayHold reports whether bounds of a tag allow for a value. Unknown bounds do.
func mayHold(value string, lo, hi []byte, nulls int64) bool {
	if value == "" {
		return nulls != 0
	}
	return len(lo) == 0 || (bytes.Compare(lo, []byte(value)) <= 0 && bytes.Compare([]byte(value), hi) <= 0)
}
