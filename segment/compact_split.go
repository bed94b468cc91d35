package segment

import "fmt"

// mixedOutput stands for the mixed file among the partitions; no time falls in a partition of that number.
const mixedOutput = -1 << 62

// splitter deals sorted rows to one file per partition and, as the layout says, a mixed one. Rows of one file stay
// sorted. Nothing is copied: a stretch of rows that go to the same file is a block that shares the arrays of the
// merged one.
type splitter struct {
	store   *Store
	info    FileInfo
	layout  layout
	outputs map[int64]*PendingFile
	order   []*PendingFile
	part    Block
}

func (s *splitter) add(block *Block) error {
	run, used := 0, 0 // next row: the run it is in, and how many rows of that are gone
	for row := 0; row < len(block.Times); {
		target := s.target(block.Times[row])
		end := row + 1
		for end < len(block.Times) && s.target(block.Times[end]) == target {
			end++
		}
		part := block
		if end-row < len(block.Times) {
			part = s.slice(block, row, end, &run, &used)
		}
		output, err := s.output(target)
		if err != nil {
			return err
		}
		if err := output.add(part); err != nil {
			return err
		}
		row = end
	}
	return nil
}

func (s *splitter) target(t int64) int64 {
	partition := partitionOf(t)
	if s.layout.mixes(partition) {
		return mixedOutput
	}
	return partition
}

// slice is the block of rows from row to end.
func (s *splitter) slice(block *Block, row, end int, run, used *int) *Block {
	part := &s.part
	part.Times = block.Times[row:end]
	part.Runs = part.Runs[:0]
	for left := end - row; left > 0; {
		current := block.Runs[*run]
		rows := min(left, current.Rows-*used)
		part.Runs = append(part.Runs, Run{Key: current.Key, Rows: rows})
		left -= rows
		*used += rows
		if *used == current.Rows {
			*run, *used = *run+1, 0
		}
	}
	part.Columns = part.Columns[:0]
	for _, column := range block.Columns {
		part.Columns = append(part.Columns, column.slice(row, end))
	}
	return part
}

func (c Column) slice(row, end int) Column {
	if c.Valid != nil {
		c.Valid = c.Valid[row:end]
	}
	if c.Numbers != nil {
		c.Numbers = c.Numbers[row:end]
	}
	if c.Strings != nil {
		c.Strings = c.Strings[row:end]
	}
	return c
}

// output returns the file of a target, which its first row opens.
func (s *splitter) output(target int64) (*PendingFile, error) {
	if p := s.outputs[target]; p != nil {
		return p, nil
	}
	if len(s.order) == openPartitionsMax {
		panic(fmt.Sprintf("BUG: a merge opens more than %d partitions", openPartitionsMax))
	}
	info, partition := s.info, target
	if target == mixedOutput {
		info.Mixed, partition = true, 0
	}
	p := s.store.NewFile(info.Level, info, partition)
	s.outputs[target] = p
	s.order = append(s.order, p)
	return p, p.begin()
}

// finish completes the files and reads them back.
func (s *splitter) finish() ([]*PendingFile, error) {
	for _, p := range s.order {
		if err := p.finish(); err != nil {
			return nil, err
		}
	}
	for _, p := range s.order {
		if err := p.verify(); err != nil {
			return nil, err
		}
	}
	return s.order, nil
}

func (s *splitter) abort() { abortAll(s.order) }
