package segment

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go/format"
)

// noTag stands for the value of a tag that a series lacks.
const noTag = -1

// dictionary gives the distinct values of a tag numbers in the order of their first appearance.
//
// Rows come sorted by their tags. So a value is often the last one again, or greater than all before, as always for the
// first tag: neither needs a look-up, and values enter the hash table only once one is needed.
type dictionary struct {
	plain    []byte   // values in PLAIN encoding: length, bytes
	ends     []uint32 // end of each value in plain
	greatest int32    // index of the greatest value
	longest  int      // bytes
	table    []uint32 // open addressing with linear probing; index+1; 0: empty
	tabled   int      // values that are in the table
}

func (d *dictionary) reset() {
	d.plain, d.ends, d.greatest, d.longest = d.plain[:0], d.ends[:0], 0, 0
	clear(d.table)
	d.tabled = 0
}

// trim lets go of memory that many values have made large.
func (d *dictionary) trim() {
	d.plain = trimmed(d.plain)
	if cap(d.ends) > keptBytesMax/4 || len(d.table) > keptBytesMax/4 {
		d.ends, d.table = nil, nil
	}
}

func (d *dictionary) value(index int32) []byte {
	start := uint32(0)
	if index > 0 {
		start = d.ends[index-1]
	}
	return d.plain[start+4 : d.ends[index]]
}

// index returns the number of value. The last one asked for, or noTag, comes first in the search.
func (d *dictionary) index(value []byte, last int32) int32 {
	if last != noTag && bytes.Equal(d.value(last), value) {
		return last
	}
	if len(d.ends) == 0 || bytes.Compare(d.value(d.greatest), value) < 0 {
		d.greatest = d.append(value)
		return d.greatest
	}
	d.fillTable()
	slot := d.slot(value)
	if d.table[slot] != 0 {
		return int32(d.table[slot] - 1)
	}
	added := d.append(value)
	d.table[slot] = uint32(added) + 1
	d.tabled++
	return added
}

func (d *dictionary) append(value []byte) int32 {
	d.plain = binary.LittleEndian.AppendUint32(d.plain, uint32(len(value)))
	d.plain = append(d.plain, value...)
	d.ends = append(d.ends, uint32(len(d.plain)))
	d.longest = max(d.longest, len(value))
	return int32(len(d.ends) - 1)
}

// fillTable enters the values that aren't in the table yet and leaves room for one more.
func (d *dictionary) fillTable() {
	if 2*(len(d.ends)+1) > len(d.table) {
		d.table = make([]uint32, max(64, 1<<bits.Len(uint(2*len(d.ends)+2))))
		d.tabled = 0
	}
	for ; d.tabled < len(d.ends); d.tabled++ {
		d.table[d.slot(d.value(int32(d.tabled)))] = uint32(d.tabled) + 1
	}
}

// slot returns the place of value in the table, or the empty place where it belongs.
func (d *dictionary) slot(value []byte) uint64 {
	mask := uint64(len(d.table) - 1)
	slot := xxhash.Sum64(value) & mask
	for d.table[slot] != 0 && !bytes.Equal(d.value(int32(d.table[slot]-1)), value) {
		slot = (slot + 1) & mask
	}
	return slot
}

// tagColumn writes one tag. It always has a dictionary: there is no fallback to plain strings.
type tagColumn struct {
	chunk
	dictionary dictionary
	name       string
	limit      int // values per page
	last       int32
	presence   []run // of the open page
	indexes    []run
	values     int
	nulls      int
}

func (c *tagColumn) reset(name string, columns int) {
	c.chunk.reset()
	c.dictionary.reset()
	c.name, c.limit, c.last = name, max(pageValues(columns), pageTagsMin), noTag
	c.startPage()
}

func (c *tagColumn) startPage() {
	c.presence, c.indexes = c.presence[:0], c.indexes[:0]
	c.values, c.nulls = 0, 0
}

// startSeries sets the value of the rows to come. A nil value is a tag that the series lacks.
func (c *tagColumn) startSeries(value []byte) {
	if value == nil {
		c.last = noTag
		return
	}
	c.last = c.dictionary.index(value, c.last)
}

// add takes rows of the started series. Rows without the tag go into a page for free.
func (c *tagColumn) add(w *pageWriter, rows int) error {
	if c.last == noTag {
		c.presence = appendRun(c.presence, 0, uint32(rows))
		c.nulls += rows
		return nil
	}
	for rows > 0 {
		n := min(rows, c.limit-c.values)
		c.presence = appendRun(c.presence, 1, uint32(n))
		c.indexes = appendRun(c.indexes, uint32(c.last), uint32(n))
		c.values += n
		rows -= n
		if c.values == c.limit {
			if err := c.flush(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush ends the open page, if there is one.
func (c *tagColumn) flush(w *pageWriter) error {
	if c.values+c.nulls == 0 {
		return nil
	}
	body := pageBody{rows: c.values + c.nulls, nulls: c.nulls, encoding: format.Plain}
	w.levels = appendHybrid(w.levels[:0], 1, c.presence)
	body.levels = w.levels
	b, highest := c.pageBounds()
	if len(c.indexes) > 0 {
		width := max(uint(bits.Len32(highest)), 1)
		w.values = appendHybrid(append(w.values[:0], byte(width)), width, c.indexes)
		body.values, body.encoding = w.values, format.RLEDictionary
	}
	err := w.addData(&c.chunk, body, b)
	c.startPage()
	return err
}

// pageBounds returns the indexes of the least and greatest value in the open page, and the highest index.
func (c *tagColumn) pageBounds() (b bounds, highest uint32) {
	for i, r := range c.indexes {
		highest = max(highest, r.value)
		index := uint64(r.value)
		switch {
		case i == 0:
			b = bounds{true, index, index}
		case index == b.min || index == b.max:
		case bytes.Compare(c.dictionary.value(int32(index)), c.dictionary.value(int32(b.min))) < 0:
			b.min = index
		case bytes.Compare(c.dictionary.value(int32(index)), c.dictionary.value(int32(b.max))) > 0:
			b.max = index
		}
	}
	return b, highest
}

// finish ends the open page and adds the dictionary, if it has any value.
func (c *tagColumn) finish(w *pageWriter) error {
	if err := c.flush(w); err != nil {
		return err
	}
	if len(c.dictionary.ends) == 0 {
		return nil
	}
	return w.addDictionary(&c.chunk, c.dictionary.plain, len(c.dictionary.ends))
}

// textBounds returns the least and greatest value of the chunk, or nothing if there are none or a value is too long.
func (c *tagColumn) textBounds() (lo, hi []byte) {
	d := &c.dictionary
	if len(d.ends) == 0 || d.longest > tagBoundBytes {
		return nil, nil
	}
	for i := range c.pages {
		p := &c.pages[i]
		if !p.known {
			continue
		}
		if value := d.value(int32(p.min)); lo == nil || bytes.Compare(value, lo) < 0 {
			lo = value
		}
		if value := d.value(int32(p.max)); hi == nil || bytes.Compare(value, hi) > 0 {
			hi = value
		}
	}
	return lo, hi
}
