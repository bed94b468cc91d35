package segment

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"sort"
)

// Merge returns the rows of all sources, sorted, with one row per series and time. The sources come newest first: of
// several rows with one series and time, each field has the newest value that any of them holds. Merge owns the sources
// and closes each at its end, or all of them in Close.
func Merge(sources []Source) Source {
	m := new(merge)
	for age, source := range sources {
		m.unread = append(m.unread, &mergeInput{source: source, age: age})
	}
	return m
}

// merge takes rows from the source whose next row is the first in order, and as many at once as come before the next
// row of any other source. Rows are compared one by one only where sources overlap in one series.
type merge struct {
	unread  []*mergeInput // not yet asked for a block
	heads   []*mergeInput // a heap; the first one has the first row
	passed  *mergeInput   // its whole block was handed out
	equal   []*mergeInput // scratch: inputs that share one series and time, newest first
	builder blockBuilder
	err     error
}

// Next returns the next block. Where the rows of a source's block come before all others, it is that very block.
func (m *merge) Next() (*Block, error) {
	if m.err == nil {
		m.err = m.prepare()
	}
	for m.err == nil && len(m.heads) > 0 && !m.builder.full() {
		first := m.heads[0]
		end := m.rowsBeforeOthers(first)
		switch {
		case end == first.row:
			m.err = m.mergeRow()
		case end == len(first.block.Times) && first.row == 0 && m.builder.rows == 0:
			m.passed = first
			return first.block, nil
		case len(m.heads) == 1 && first.row == 0:
			return m.builder.finish(), nil // the rest passes without a copy
		default:
			m.err = m.take(first, end)
		}
	}
	if m.err != nil {
		return nil, m.err
	}
	if m.builder.rows == 0 {
		return nil, io.EOF
	}
	return m.builder.finish(), nil
}

// prepare moves past what was handed out before.
func (m *merge) prepare() error {
	m.builder.reset()
	for len(m.unread) > 0 {
		input := m.unread[0]
		more, err := input.load()
		if err != nil {
			return err
		}
		m.unread = m.unread[1:]
		if more {
			m.heads = append(m.heads, input)
			m.up(len(m.heads) - 1)
		}
	}
	if input := m.passed; input != nil {
		m.passed = nil
		input.row = len(input.block.Times)
		return m.settle()
	}
	return nil
}

// rowsBeforeOthers returns the row of first's block up to which its rows come before the next row of any other input.
func (m *merge) rowsBeforeOthers(first *mergeInput) int {
	if len(m.heads) == 1 {
		return len(first.block.Times)
	}
	second := m.heads[1]
	if len(m.heads) > 2 && compareHeads(m.heads[2], second) < 0 {
		second = m.heads[2]
	}
	return first.rowsBefore(second.key(), second.time())
}

// take copies rows of the first input up to end, or as many as there is room for.
func (m *merge) take(first *mergeInput, end int) error {
	end = min(end, first.row+m.builder.room())
	if err := m.builder.appendRows(first, end); err != nil {
		return err
	}
	return m.settle()
}

// mergeRow makes one row of all inputs whose next row has the first series and time.
func (m *merge) mergeRow() error {
	m.equal = append(m.equal[:0], m.pop())
	first := m.equal[0]
	for len(m.heads) > 0 && m.heads[0].time() == first.time() && bytes.Equal(m.heads[0].key(), first.key()) {
		m.equal = append(m.equal, m.pop())
	}
	if err := m.builder.appendMerged(m.equal); err != nil {
		return err
	}
	for _, input := range m.equal {
		input.skip(1)
		more, err := input.load()
		if err != nil {
			return err // Close finds the others in equal
		}
		if more {
			m.heads = append(m.heads, input)
			m.up(len(m.heads) - 1)
		}
	}
	m.equal = m.equal[:0]
	return nil
}

// settle restores the order of the heap after its first input has moved on.
func (m *merge) settle() error {
	more, err := m.heads[0].load()
	if err != nil {
		return err
	}
	if more {
		m.down(0)
	} else {
		m.pop()
	}
	return nil
}

// Close closes the sources that have not ended.
func (m *merge) Close() error {
	var errs []error
	for _, input := range append(append(m.unread, m.heads...), m.equal...) {
		errs = append(errs, input.close())
	}
	*m = merge{err: errors.New("read of a closed merge")}
	return errors.Join(errs...)
}

// The heap. container/heap would box each element and call through an interface in the innermost loop.

func (m *merge) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if compareHeads(m.heads[parent], m.heads[i]) <= 0 {
			return
		}
		m.heads[parent], m.heads[i] = m.heads[i], m.heads[parent]
		i = parent
	}
}

func (m *merge) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.heads); child++ {
			if compareHeads(m.heads[child], m.heads[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		m.heads[i], m.heads[least] = m.heads[least], m.heads[i]
		i = least
	}
}

func (m *merge) pop() *mergeInput {
	first := m.heads[0]
	last := len(m.heads) - 1
	m.heads[0] = m.heads[last]
	m.heads[last] = nil
	m.heads = m.heads[:last]
	m.down(0)
	return first
}

// compareHeads orders inputs by their next row, and newer before older.
func compareHeads(a, b *mergeInput) int {
	if c := bytes.Compare(a.key(), b.key()); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.time(), b.time()), cmp.Compare(a.age, b.age))
}

// mergeInput is one source and the place in its block.
type mergeInput struct {
	source  Source
	age     int // 0: newest
	block   *Block
	ends    []int // of each run of block, in rows
	run     int   // the run that row is in
	row     int   // the next row
	columns []int // columns of the builder for those of block; nil: not known yet
	closed  bool
}

func (i *mergeInput) key() []byte { return i.block.Runs[i.run].Key }
func (i *mergeInput) time() int64 { return i.block.Times[i.row] }

// load makes sure that there is a next row, or closes the source and returns false.
func (i *mergeInput) load() (more bool, err error) {
	for i.block == nil || i.row == len(i.block.Times) {
		block, err := i.source.Next()
		if err == io.EOF { // an error that wraps io.EOF is not the end
			return false, i.close()
		}
		if err != nil {
			return false, err
		}
		i.block, i.run, i.row, i.columns = block, 0, 0, i.columns[:0]
		i.ends = i.ends[:0]
		end := 0
		for _, r := range block.Runs {
			end += r.Rows
			i.ends = append(i.ends, end)
		}
		i.skip(0)
	}
	return true, nil
}

// skip moves on by a number of rows.
func (i *mergeInput) skip(rows int) {
	i.row += rows
	for i.run < len(i.ends)-1 && i.ends[i.run] <= i.row {
		i.run++
	}
}

// rowsBefore returns the row of the block up to which its rows, from the next one on, come before the series and time.
func (i *mergeInput) rowsBefore(key []byte, time int64) int {
	runs := i.block.Runs
	// Double the step until a run isn't before key, then search between the last two.
	low, step := i.run, 1
	for low+step <= len(runs) && bytes.Compare(runs[low+step-1].Key, key) < 0 {
		low += step
		step *= 2
	}
	high := min(low+step, len(runs))
	low += sort.Search(high-low, func(n int) bool { return bytes.Compare(runs[low+n].Key, key) >= 0 })
	start := i.row
	if low > i.run {
		start = i.ends[low-1]
	}
	if low == len(runs) || !bytes.Equal(runs[low].Key, key) {
		return start
	}
	times := i.block.Times[start:i.ends[low]]
	if len(times) == 0 || times[len(times)-1] < time {
		return i.ends[low]
	}
	return start + sort.Search(len(times), func(n int) bool { return times[n] >= time })
}

func (i *mergeInput) close() error {
	if i.closed {
		return nil
	}
	i.closed, i.block = true, nil
	return i.source.Close()
}
