package query

import (
	"strconv"

	"lineweir/segment"
)

// jsonEncoder writes one JSON object per row and line.
type jsonEncoder struct {
	times   []int64
	columns []segment.Column
	names   [][]byte // of each column, as `"name":`
	tags    []byte   // of the series, as `,"tags":{…},"fields":`
}

func (e *jsonEncoder) block(b *segment.Block) error {
	e.times, e.columns = b.Times, b.Columns
	for len(e.names) < len(b.Columns) {
		e.names = append(e.names, nil)
	}
	for i := range b.Columns {
		e.names[i] = append(appendJSONString(e.names[i][:0], []byte(b.Columns[i].Name)), ':')
	}
	return nil
}

func (e *jsonEncoder) series(key []byte) {
	e.tags = append(e.tags[:0], `,"tags":`...)
	separator := byte('{')
	segment.EachTag(key, func(name, value []byte) {
		e.tags = appendJSONString(append(e.tags, separator), name)
		e.tags = appendJSONString(append(e.tags, ':'), value)
		separator = ','
	})
	if separator == '{' {
		e.tags = append(e.tags, '{')
	}
	e.tags = append(e.tags, `},"fields":`...)
}

func (e *jsonEncoder) row(dst []byte, row int) []byte {
	before := len(dst)
	dst = append(dst, `{"time":`...)
	dst = strconv.AppendInt(dst, e.times[row], 10)
	dst = append(dst, e.tags...)
	separator := byte('{')
	for i := range e.columns {
		c := &e.columns[i]
		if !has(c, row) {
			continue
		}
		dst = append(dst, separator)
		dst = append(dst, e.names[i]...)
		dst = appendJSONValue(dst, c, row)
		separator = ','
	}
	if separator == '{' {
		return dst[:before]
	}
	return append(dst, "}}\n"...)
}

func appendJSONValue(dst []byte, c *segment.Column, row int) []byte {
	if c.Kind == segment.KindString {
		return appendJSONString(dst, c.Strings[row])
	}
	before := len(dst)
	dst = appendNumber(dst, c.Kind, c.Numbers[row])
	if c.Kind == segment.KindFloat && !hasFraction(dst[before:]) {
		dst = append(dst, ".0"...)
	}
	return dst
}

// hasFraction reports whether a number has a fraction or an exponent.
func hasFraction(number []byte) bool {
	for _, c := range number {
		if c == '.' || c == 'e' {
			return true
		}
	}
	return false
}
