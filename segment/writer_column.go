package segment

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// page is one written page of the open row group.
type page struct {
	span
	rows, nulls uint32
	bounds
}

// chunk accounts for the pages of one column in the open row group.
type chunk struct {
	pages               []page
	dictionary          span // length 0: none
	rows, nulls         int64
	sizeBytes, rawBytes int64 // with headers; raw: before compression
	encodings           []format.Encoding
}

func (c *chunk) reset() {
	*c = chunk{pages: c.pages[:0], encodings: c.encodings[:0]}
}

func (c *chunk) usesEncoding(encoding format.Encoding) {
	if !slices.Contains(c.encodings, encoding) {
		c.encodings = append(c.encodings, encoding)
	}
}

// numberBounds returns the bounds of the whole chunk. They are unknown when those of a page with values are.
func (c *chunk) numberBounds(kind Kind) bounds {
	var total bounds
	for i := range c.pages {
		p := &c.pages[i]
		if !p.known && p.nulls < p.rows {
			return bounds{}
		}
		total.extend(kind, p.bounds)
	}
	return total
}

var deltaCodec delta.BinaryPackedEncoding

// appendIntegers encodes numbers as deltas, or plainly if that is no longer. So a number never needs more than 8 bytes.
func appendIntegers(dst []byte, numbers []uint64) ([]byte, format.Encoding, error) {
	dst, err := deltaCodec.EncodeInt64(dst[:0], signed(numbers))
	if err != nil {
		return dst, 0, fmt.Errorf("encode integers: %w", err)
	}
	if len(dst) < 8*len(numbers) {
		return dst, format.DeltaBinaryPacked, nil
	}
	return appendWords(dst[:0], numbers), format.Plain, nil
}

func appendWords(dst []byte, numbers []uint64) []byte {
	dst = slices.Grow(dst, 8*len(numbers))
	for _, n := range numbers {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

func appendBits(dst []byte, numbers []uint64) []byte {
	for len(numbers) > 0 {
		var packed byte
		n := min(len(numbers), 8)
		for i, bit := range numbers[:n] {
			packed |= byte(bit&1) << i
		}
		dst = append(dst, packed)
		numbers = numbers[n:]
	}
	return dst
}

// timeColumn writes the times of all rows.
type timeColumn struct {
	chunk
	limit int // values per page
	times []uint64
}

func (c *timeColumn) reset(limit int) {
	c.chunk.reset()
	c.limit = limit
	c.times = c.times[:0]
}

func (c *timeColumn) add(w *pageWriter, times []int64) error {
	for len(times) > 0 {
		n := min(len(times), c.limit-len(c.times))
		for _, t := range times[:n] {
			c.times = append(c.times, uint64(t))
		}
		times = times[n:]
		if len(c.times) == c.limit {
			if err := c.flush(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush ends the open page, if there is one.
func (c *timeColumn) flush(w *pageWriter) (err error) {
	if len(c.times) == 0 {
		return nil
	}
	body := pageBody{rows: len(c.times)}
	w.values, body.encoding, err = appendIntegers(w.values, c.times)
	if err != nil {
		return err
	}
	body.values = w.values
	b := numberBounds(KindInt, c.times)
	c.times = c.times[:0]
	return w.addData(&c.chunk, body, b)
}

// fieldColumn writes one field. Its open page is kept as the runs of rows that have a value and those that have none,
// and the values.
type fieldColumn struct {
	chunk
	def       ColumnDef
	limit     int  // values per page
	textLimit int  // bytes of strings per page
	bounded   bool // pages get bounds
	presence  []run
	values    int
	nulls     int
	numbers   []uint64
	text      []byte // strings in PLAIN encoding
}

func (c *fieldColumn) reset(def ColumnDef, columns int, bounded bool) {
	c.chunk.reset()
	c.def, c.limit, c.textLimit = def, pageValues(columns), pageText(columns)
	c.bounded = bounded && def.Kind != KindString
	c.startPage()
}

func (c *fieldColumn) startPage() {
	c.presence = c.presence[:0]
	c.values, c.nulls = 0, 0
	c.numbers = c.numbers[:0]
	c.text = c.text[:0]
}

func (c *fieldColumn) addNulls(rows int) {
	c.presence = appendRun(c.presence, 0, uint32(rows))
	c.nulls += rows
}

// add takes the rows from..to of a block's column.
func (c *fieldColumn) add(w *pageWriter, column *Column, from, to int) error {
	for from < to {
		end, valid := validRun(column.Valid, from, to)
		if !valid {
			c.addNulls(end - from)
			from = end
			continue
		}
		n := 0
		if c.def.Kind == KindString {
			n = c.addTexts(column.Strings[from:end])
		} else {
			n = min(end-from, c.limit-c.values)
			c.numbers = append(c.numbers, column.Numbers[from:from+n]...)
		}
		c.presence = appendRun(c.presence, 1, uint32(n))
		c.values += n
		from += n
		if c.values == c.limit || len(c.text) >= c.textLimit {
			if err := c.flush(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// addTexts appends strings until the page is full and returns their number.
func (c *fieldColumn) addTexts(texts [][]byte) int {
	n := 0
	for n < len(texts) && n < c.limit-c.values && len(c.text) < c.textLimit {
		c.text = binary.LittleEndian.AppendUint32(c.text, uint32(len(texts[n])))
		c.text = append(c.text, texts[n]...)
		n++
	}
	return n
}

// validRun returns the end of the run of rows that starts at from, and whether they have values.
func validRun(valid []bool, from, to int) (end int, present bool) {
	if valid == nil {
		return to, true
	}
	present = valid[from]
	for end = from + 1; end < to && valid[end] == present; end++ {
	}
	return end, present
}

// flush ends the open page, if there is one.
func (c *fieldColumn) flush(w *pageWriter) (err error) {
	if c.values+c.nulls == 0 {
		return nil
	}
	body := pageBody{rows: c.values + c.nulls, nulls: c.nulls, encoding: format.Plain}
	w.levels = appendHybrid(w.levels[:0], 1, c.presence)
	body.levels = w.levels
	var b bounds
	switch c.def.Kind {
	case KindString:
		body.values = c.text
	case KindFloat:
		w.values = appendWords(w.values[:0], c.numbers)
		body.values = w.values
	case KindBool:
		w.values = appendBits(w.values[:0], c.numbers)
		body.values = w.values
	default:
		if c.values > 0 {
			w.values, body.encoding, err = appendIntegers(w.values, c.numbers)
			body.values = w.values
		}
	}
	if c.bounded {
		b = numberBounds(c.def.Kind, c.numbers)
	}
	if err == nil {
		err = w.addData(&c.chunk, body, b)
	}
	c.startPage()
	return err
}

// trim lets go of memory that long strings have made large.
func (c *fieldColumn) trim() {
	c.text = trimmed(c.text)
}
