package shard

import "lineweir/segment"

// fieldValues holds the values of one field of a batch's table: only rows that have the field take room.
type fieldValues struct {
	sparse  bool     // false: value i belongs to row i
	rows    []uint32 // of a sparse field: the row of each value, ascending
	numbers []uint64 // of every kind but strings
	ends    []uint32 // of strings: where each value ends in text
	text    []byte
}

func (v *fieldValues) reset() {
	v.sparse = false
	v.rows, v.numbers, v.ends, v.text = v.rows[:0], v.numbers[:0], v.ends[:0], v.text[:0]
}

func (v *fieldValues) len() int { return len(v.numbers) + len(v.ends) }

// add appends the value of a row; rows arrive in ascending order.
func (v *fieldValues) add(row uint32, f *Field) {
	count := v.len()
	if !v.sparse && count != int(row) {
		v.sparse = true
		for i := range count {
			v.rows = append(v.rows, uint32(i))
		}
	}
	if v.sparse {
		v.rows = append(v.rows, row)
	}
	if f.Kind == segment.KindString {
		v.text = append(v.text, f.String...)
		v.ends = append(v.ends, uint32(len(v.text)))
		return
	}
	v.numbers = append(v.numbers, f.Number)
}

func (v *fieldValues) sizeBytes() int64 {
	return int64(4*cap(v.rows) + 8*cap(v.numbers) + 4*cap(v.ends) + cap(v.text))
}
