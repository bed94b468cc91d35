package query

import (
	"strconv"

	"lineweir/segment"
)

// tally counts rows that have a value, and their values.
type tally struct{ points, values int64 }

// add counts the rows of a Block, at most limit of them.
func (t *tally) add(b *segment.Block, limit int64) {
	for row := range b.Times {
		if limit == 0 {
			return
		}
		values := int64(0)
		for i := range b.Columns {
			if has(&b.Columns[i], row) {
				values++
			}
		}
		if values > 0 {
			t.points++
			t.values += values
			limit--
		}
	}
}

// append writes the tally as a JSON object.
func (t *tally) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"points":`...), t.points, 10)
	dst = strconv.AppendInt(append(dst, `,"values":`...), t.values, 10)
	return append(dst, "}\n"...)
}
