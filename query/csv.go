package query

import (
	"fmt"
	"strconv"

	"lineweir/segment"
)

// csvEncoder writes RFC 4180 with "\n" at the end of lines: time, tags, fields.
type csvEncoder struct {
	tags   []string
	fields []string
	times  []int64
	cells  []*segment.Column // parallel to fields; nil: the Block lacks it
	prefix []byte            // the cells of the tags, each after a comma
}

func newCSVEncoder(columns []segment.ColumnDef) (*csvEncoder, []byte) {
	e := &csvEncoder{}
	for _, c := range columns {
		if c.Kind == segment.KindTag {
			e.tags = append(e.tags, c.Name)
			continue
		}
		e.fields = append(e.fields, c.Name)
	}
	e.cells = make([]*segment.Column, len(e.fields))
	header := []byte("time")
	for _, names := range [][]string{e.tags, e.fields} {
		for _, name := range names {
			header = appendCSVText(append(header, ','), []byte(name))
		}
	}
	return e, append(header, '\n')
}

func (e *csvEncoder) block(b *segment.Block) error {
	e.times = b.Times
	clear(e.cells)
	next := 0
	for i := range b.Columns {
		for next < len(e.fields) && e.fields[next] < b.Columns[i].Name {
			next++
		}
		if next == len(e.fields) || e.fields[next] != b.Columns[i].Name {
			return fmt.Errorf("field %q is not in the schema of the measurement", b.Columns[i].Name)
		}
		e.cells[next] = &b.Columns[i]
	}
	return nil
}

func (e *csvEncoder) series(key []byte) {
	e.prefix = e.prefix[:0]
	next := 0
	segment.EachTag(key, func(name, value []byte) {
		for next < len(e.tags) && e.tags[next] != string(name) {
			e.prefix = append(e.prefix, ',')
			next++
		}
		e.prefix = appendCSVText(append(e.prefix, ','), value)
		next++
	})
	for ; next < len(e.tags); next++ {
		e.prefix = append(e.prefix, ',')
	}
}

func (e *csvEncoder) row(dst []byte, row int) []byte {
	before, values := len(dst), 0
	dst = strconv.AppendInt(dst, e.times[row], 10)
	dst = append(dst, e.prefix...)
	for _, c := range e.cells {
		dst = append(dst, ',')
		if c == nil || !has(c, row) {
			continue
		}
		values++
		if c.Kind == segment.KindString {
			dst = appendCSVText(dst, c.Strings[row])
			continue
		}
		dst = appendNumber(dst, c.Kind, c.Numbers[row])
	}
	if values == 0 {
		return dst[:before]
	}
	return append(dst, '\n')
}
