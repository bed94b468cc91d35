package query

import (
	"strconv"

	"lineweir/segment"
)

// What needs a backslash in the parts of a line.
const (
	measurementSpecial = ", "
	nameSpecial        = ",= "
	stringSpecial      = `"\`
)

// lineEncoder writes line protocol that can be written back as it is.
type lineEncoder struct {
	times   []int64
	columns []segment.Column
	names   [][]byte // of each column, escaped, with "="
	prefix  []byte   // measurement and tags of the series, escaped
	start   int      // length of the measurement in prefix
}

func newLineEncoder(measurement string) *lineEncoder {
	prefix := appendEscaped(nil, []byte(measurement), measurementSpecial)
	return &lineEncoder{prefix: prefix, start: len(prefix)}
}

func (e *lineEncoder) block(b *segment.Block) error {
	e.times, e.columns = b.Times, b.Columns
	for len(e.names) < len(b.Columns) {
		e.names = append(e.names, nil)
	}
	for i := range b.Columns {
		e.names[i] = append(appendEscaped(e.names[i][:0], []byte(b.Columns[i].Name), nameSpecial), '=')
	}
	return nil
}

func (e *lineEncoder) series(key []byte) {
	e.prefix = e.prefix[:e.start]
	segment.EachTag(key, func(name, value []byte) {
		e.prefix = append(e.prefix, ',')
		e.prefix = appendEscaped(e.prefix, name, nameSpecial)
		e.prefix = append(e.prefix, '=')
		e.prefix = appendEscaped(e.prefix, value, nameSpecial)
	})
}

func (e *lineEncoder) row(dst []byte, row int) []byte {
	before := len(dst)
	dst = append(dst, e.prefix...)
	separator := byte(' ')
	for i := range e.columns {
		c := &e.columns[i]
		if !has(c, row) {
			continue
		}
		dst = append(dst, separator)
		dst = append(dst, e.names[i]...)
		dst = appendLineValue(dst, c, row)
		separator = ','
	}
	if separator == ' ' {
		return dst[:before]
	}
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, e.times[row], 10)
	return append(dst, '\n')
}

func appendLineValue(dst []byte, c *segment.Column, row int) []byte {
	switch c.Kind {
	case segment.KindString:
		dst = append(dst, '"')
		dst = appendEscaped(dst, c.Strings[row], stringSpecial)
		return append(dst, '"')
	case segment.KindInt:
		return append(appendNumber(dst, c.Kind, c.Numbers[row]), 'i')
	case segment.KindUint:
		return append(appendNumber(dst, c.Kind, c.Numbers[row]), 'u')
	default:
		return appendNumber(dst, c.Kind, c.Numbers[row])
	}
}
