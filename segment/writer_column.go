package segment

import (
	"bytes"
	"math"

	"github.com/parquet-go/parquet-go"
)

// valuesAtOnce is how many values are handed to the library at once: as many as the caches of a CPU hold.
const valuesAtOnce = 1024

// columnWriter hands the cells of one column to the library and ends its pages. The library copies what it takes.
type columnWriter struct {
	out       *parquet.ColumnWriter
	kind      Kind
	limit     int // values per page
	rowsLimit int // rows per page
	textLimit int // bytes of strings per page

	rows, values, textBytes int // of the open page
	total, totalNulls       int64
	lastTag                 []byte
	dictionaryBytes         int // at most so many; of the open row group
	pageMax, textMax        int // bytes that the file had at once
}

// newColumnWriters returns time, tags and fields.
func newColumnWriters(info *FileInfo, outs []*parquet.ColumnWriter) []columnWriter {
	columns := make([]columnWriter, len(outs))
	for i := range columns {
		c := &columns[i]
		*c = columnWriter{out: outs[i], kind: KindInt}
		c.limit, c.textLimit = pageValues(len(outs)), pageText(len(outs))
		c.rowsLimit = pageRows(len(outs), info.Level)
		switch {
		case i > len(info.Tags):
			c.kind = info.Fields[i-1-len(info.Tags)].Kind
		case i > 0:
			c.kind = KindTag
			c.limit = max(c.limit, pageTagsMin)
		}
	}
	return columns
}

func (c *columnWriter) reset() {
	c.rows, c.values, c.textBytes = 0, 0, 0
	c.total, c.totalNulls = 0, 0
	c.pageMax, c.textMax = 0, 0
	c.startGroup()
	c.dictionaryBytes = 0
}

// startGroup starts with an empty dictionary. The library has ended the page.
func (c *columnWriter) startGroup() {
	c.rows, c.values, c.textBytes = 0, 0, 0
	c.textMax = max(c.textMax, c.dictionaryBytes)
	c.lastTag, c.dictionaryBytes = c.lastTag[:0], 0
}

// cells returns how many cells of the file have values, and how many don't.
func (c *columnWriter) cells() (values, nulls int64) { return c.total, c.totalNulls }

// memoryBytes estimates what the library keeps for the column.
func (c *columnWriter) memoryBytes() int {
	return c.pageMax*valueMemoryBytes + c.textMax*dictionaryOverhead
}

// room returns how many cells the open page and the scratch take, at most n.
func (c *columnWriter) room(n, scratch int) int { return min(n, scratch, c.rowsLimit-c.rows) }

// write takes cells, of which so many have a value, and ends the page when it is full.
func (c *columnWriter) write(cells []parquet.Value, values int) error {
	if _, err := c.out.WriteRowValues(cells); err != nil {
		return err
	}
	c.rows += len(cells)
	c.values += values
	c.total += int64(values)
	c.totalNulls += int64(len(cells) - values)
	c.pageMax, c.textMax = max(c.pageMax, c.rows), max(c.textMax, c.textBytes)
	if c.rows < c.rowsLimit && c.values < c.limit && c.textBytes < c.textLimit {
		return nil
	}
	c.rows, c.values, c.textBytes = 0, 0, 0
	return c.out.Flush()
}

// addTimes takes the times of a block.
func (c *columnWriter) addTimes(scratch []parquet.Value, times []int64) error {
	for len(times) > 0 {
		n := min(c.room(len(times), len(scratch)), c.limit-c.values)
		for i, t := range times[:n] {
			scratch[i] = parquet.Int64Value(t)
		}
		if err := c.write(scratch[:n], n); err != nil {
			return err
		}
		times = times[n:]
	}
	return nil
}

// addNulls takes rows that lack the column.
func (c *columnWriter) addNulls(scratch []parquet.Value, rows int) error {
	for rows > 0 {
		n := c.room(rows, len(scratch))
		fill(scratch[:n], parquet.NullValue())
		if err := c.write(scratch[:n], 0); err != nil {
			return err
		}
		rows -= n
	}
	return nil
}

func fill(cells []parquet.Value, v parquet.Value) {
	for i := range cells {
		cells[i] = v
	}
}

// addTags takes the rows of runs. The tag of the first run is the first of cells, that of the next one is stride
// further.
func (c *columnWriter) addTags(scratch []parquet.Value, runs []Run, cells []parquet.Value, stride int) error {
	filled, values := 0, 0
	for i := range runs {
		cell := cells[i*stride]
		present := !cell.IsNull()
		if present {
			c.countTag(cell.ByteArray())
		}
		for rows := runs[i].Rows; rows > 0; {
			n := c.room(filled+rows, len(scratch)) - filled
			if present {
				n = min(n, c.limit-c.values-values)
				values += n
			}
			fill(scratch[filled:filled+n], cell)
			filled += n
			rows -= n
			full := filled == len(scratch) || c.rows+filled == c.rowsLimit || c.values+values == c.limit
			if !full {
				continue
			}
			if err := c.write(scratch[:filled], values); err != nil {
				return err
			}
			filled, values = 0, 0
		}
	}
	if filled == 0 {
		return nil
	}
	return c.write(scratch[:filled], values)
}

// countTag counts a value into the size of the dictionary, too often if others came between.
func (c *columnWriter) countTag(value []byte) {
	if bytes.Equal(value, c.lastTag) {
		return
	}
	c.lastTag = append(c.lastTag[:0], value...)
	c.dictionaryBytes += len(value)
}

// addCells takes a block's column of so many rows.
func (c *columnWriter) addCells(scratch []parquet.Value, column *Column, rows int) error {
	for from := 0; from < rows; {
		n, values := c.room(rows-from, len(scratch)), 0
		if c.kind == KindString {
			n, values = c.fillTexts(scratch[:n], column, from)
		} else {
			n, values = c.fillNumbers(scratch[:n], column, from)
		}
		if err := c.write(scratch[:n], values); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// fillNumbers makes cells of a column's numbers, from a row on, until the page is full. It returns how many, and how
// many of them have a value.
func (c *columnWriter) fillNumbers(cells []parquet.Value, column *Column, from int) (n, values int) {
	for n < len(cells) && c.values+values < c.limit {
		row := from + n
		n++
		if column.Valid != nil && !column.Valid[row] {
			cells[n-1] = parquet.NullValue()
			continue
		}
		cell := &cells[n-1]
		switch number := column.Numbers[row]; c.kind {
		case KindFloat:
			*cell = parquet.DoubleValue(math.Float64frombits(number))
		case KindBool:
			*cell = parquet.BooleanValue(number != 0)
		default:
			*cell = parquet.Int64Value(int64(number))
		}
		cell.SetDefinitionLevel(1)
		values++
	}
	return n, values
}

// fillTexts does the same for strings.
func (c *columnWriter) fillTexts(cells []parquet.Value, column *Column, from int) (n, values int) {
	for n < len(cells) && c.values+values < c.limit && c.textBytes < c.textLimit {
		row := from + n
		n++
		if column.Valid != nil && !column.Valid[row] {
			cells[n-1] = parquet.NullValue()
			continue
		}
		cells[n-1] = parquet.ByteArrayValue(column.Strings[row])
		cells[n-1].SetDefinitionLevel(1)
		c.textBytes += len(column.Strings[row])
		values++
	}
	return n, values
}
