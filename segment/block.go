package segment

import "io"

// Kind is the role and type of a column.
type Kind uint8

// The kinds of columns. They are written to disk, so their values never change.
const (
	KindTag    Kind = 1
	KindFloat  Kind = 2
	KindInt    Kind = 3
	KindUint   Kind = 4
	KindBool   Kind = 5
	KindString Kind = 6
)

// String names the kind as error messages and the query API show it.
func (k Kind) String() string {
	switch k {
	case KindTag:
		return "tag"
	case KindFloat:
		return "float"
	case KindInt:
		return "integer"
	case KindUint:
		return "unsigned"
	case KindBool:
		return "boolean"
	case KindString:
		return "string"
	default:
		return "unknown"
	}
}

// ColumnDef is the name and kind of one column of a measurement.
type ColumnDef struct {
	Name string
	Kind Kind
}

// Run is a number of consecutive rows of one series.
type Run struct {
	Key  []byte // series key, see AppendKey
	Rows int
}

// Column holds one field of a Block, with one entry for each of its rows.
type Column struct {
	Name    string
	Kind    Kind
	Valid   []bool   // nil: every row has a value
	Numbers []uint64 // float64 bits, two's complement integers, unsigned integers, booleans as 0 or 1
	Strings [][]byte // values of a KindString column, which has no Numbers
}

// Block holds rows of one measurement by columns, sorted by series key and then time, with each
// (series, time) at most once. Columns ascend by name and hold fields only: tags live in the runs' keys.
type Block struct {
	Runs    []Run
	Times   []int64 // nanoseconds since the epoch
	Columns []Column
}

// Source yields the rows of one measurement in order. Next returns io.EOF after the last Block. A Block, and all that
// it refers to, belongs to the Source and is valid until the next call of Next or Close. A series may continue
// in the following Block.
type Source interface {
	Next() (*Block, error)
	io.Closer
}

// BlockRows returns how many rows a Block of that many columns holds at most, so that a Block stays near 2 MiB.
func BlockRows(columns int) int {
	const values, rowsMin, rowsMax = 1 << 18, 64, 4096
	return min(max(values/max(columns, 1), rowsMin), rowsMax)
}
