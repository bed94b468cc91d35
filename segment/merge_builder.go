package segment

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// builderTextBytes is how many bytes of strings a built block has before it takes no more rows.
const builderTextBytes = 1 << 20

// blockBuilder assembles blocks from rows of other blocks, and owns all that they refer to. Columns keep their places
// while it lives, and each is filled only as far as rows had it, so that rows cost what they hold and no more.
type blockBuilder struct {
	block   Block
	columns []builtColumn
	places  map[string]int // of columns, by name
	order   []int          // places by ascending name
	keys    []byte         // the runs' keys
	text    []byte         // the strings
	rows    int
}

type builtColumn struct {
	Column
	filled int // rows up to the last one that had the column
}

// reset starts a new block in the memory of the last one.
func (b *blockBuilder) reset() {
	b.block.Runs, b.block.Times = b.block.Runs[:0], b.block.Times[:0]
	b.keys = b.keys[:0]
	if cap(b.text) > 4*builderTextBytes {
		b.text = nil
	}
	b.text = b.text[:0]
	b.rows = 0
	for i := range b.columns {
		c := &b.columns[i]
		c.filled = 0
		c.Numbers, c.Strings, c.Valid = c.Numbers[:0], c.Strings[:0], c.Valid[:0]
	}
}

// room returns how many rows may follow.
func (b *blockBuilder) room() int {
	if len(b.text) >= builderTextBytes {
		return 0
	}
	return max(0, BlockRows(1+len(b.columns))-b.rows)
}

func (b *blockBuilder) full() bool { return b.room() == 0 }

// finish returns the block, which is valid until the next reset.
func (b *blockBuilder) finish() *Block {
	b.block.Columns = b.block.Columns[:0]
	for _, place := range b.order {
		c := &b.columns[place]
		if c.filled == 0 {
			continue
		}
		c.fill(b.rows)
		b.block.Columns = append(b.block.Columns, c.Column)
		if len(c.Valid) == 0 {
			b.block.Columns[len(b.block.Columns)-1].Valid = nil
		}
	}
	return &b.block
}

// appendRows takes the input's rows up to end.
func (b *blockBuilder) appendRows(input *mergeInput, end int) error {
	if err := b.place(input); err != nil {
		return err
	}
	start := input.row
	for input.row < end {
		n := min(end, input.ends[input.run]) - input.row
		b.appendRun(input.key(), n)
		input.skip(n)
	}
	b.block.Times = append(b.block.Times, input.block.Times[start:end]...)
	for i, place := range input.columns {
		c := &b.columns[place]
		c.fill(b.rows)
		b.appendCells(c, &input.block.Columns[i], start, end)
	}
	b.rows += end - start
	return nil
}

// appendMerged makes one row of the next rows of inputs that share series and time. The first input that has a value of
// a field wins.
func (b *blockBuilder) appendMerged(inputs []*mergeInput) error {
	for _, input := range inputs {
		if err := b.place(input); err != nil {
			return err
		}
	}
	b.appendRun(inputs[0].key(), 1)
	b.block.Times = append(b.block.Times, inputs[0].time())
	for _, input := range inputs {
		for i, place := range input.columns {
			c := &b.columns[place]
			from := &input.block.Columns[i]
			if c.filled > b.rows || (from.Valid != nil && !from.Valid[input.row]) {
				continue
			}
			c.fill(b.rows)
			b.appendCells(c, from, input.row, input.row+1)
		}
	}
	b.rows++
	return nil
}

func (b *blockBuilder) appendRun(key []byte, rows int) {
	if last := len(b.block.Runs) - 1; last >= 0 && bytes.Equal(b.block.Runs[last].Key, key) {
		b.block.Runs[last].Rows += rows
		return
	}
	start := len(b.keys)
	b.keys = append(b.keys, key...)
	b.block.Runs = append(b.block.Runs, Run{Key: b.keys[start:len(b.keys):len(b.keys)], Rows: rows})
}

// appendCells appends the cells start..end of a column.
func (b *blockBuilder) appendCells(c *builtColumn, from *Column, start, end int) {
	switch {
	case from.Valid != nil:
		c.trackNulls()
		c.Valid = append(c.Valid, from.Valid[start:end]...)
	case len(c.Valid) > 0:
		c.Valid = appendRepeated(c.Valid, true, end-start)
	}
	if c.Kind != KindString {
		c.Numbers = append(c.Numbers, from.Numbers[start:end]...)
	} else {
		for _, text := range from.Strings[start:end] {
			at := len(b.text)
			b.text = append(b.text, text...)
			c.Strings = append(c.Strings, b.text[at:len(b.text):len(b.text)])
		}
	}
	c.filled += end - start
}

// fill appends nulls up to a number of rows.
func (c *builtColumn) fill(rows int) {
	missing := rows - c.filled
	if missing == 0 {
		return
	}
	c.trackNulls()
	c.Valid = appendRepeated(c.Valid, false, missing)
	if c.Kind == KindString {
		c.Strings = appendRepeated(c.Strings, nil, missing)
	} else {
		c.Numbers = appendRepeated(c.Numbers, 0, missing)
	}
	c.filled = rows
}

// trackNulls starts to say which rows have values. Until then all have.
func (c *builtColumn) trackNulls() {
	if len(c.Valid) == 0 {
		c.Valid = appendRepeated(c.Valid, true, c.filled)
	}
}

func appendRepeated[T any](s []T, value T, count int) []T {
	start := len(s)
	s = slices.Grow(s, count)[:start+count]
	for i := start; i < len(s); i++ {
		s[i] = value
	}
	return s
}

// place finds the builder's columns for those of the input's block, and makes those that are missing.
func (b *blockBuilder) place(input *mergeInput) error {
	columns := input.block.Columns
	if len(input.columns) == len(columns) {
		return nil
	}
	input.columns = input.columns[:0]
	for i := range columns {
		c := &columns[i]
		place, ok := b.places[c.Name]
		if !ok {
			place = b.addColumn(c.Name, c.Kind)
		}
		if kind := b.columns[place].Kind; kind != c.Kind {
			return fmt.Errorf("%w: %q is %v and %v", ErrKindMismatch, c.Name, kind, c.Kind)
		}
		input.columns = append(input.columns, place)
	}
	return nil
}

func (b *blockBuilder) addColumn(name string, kind Kind) int {
	if b.places == nil {
		b.places = map[string]int{}
	}
	place := len(b.columns)
	b.columns = append(b.columns, builtColumn{Column: Column{Name: name, Kind: kind}})
	b.places[name] = place
	at, _ := slices.BinarySearchFunc(b.order, name, func(place int, name string) int {
		return strings.Compare(b.columns[place].Name, name)
	})
	b.order = slices.Insert(b.order, at, place)
	return place
}
