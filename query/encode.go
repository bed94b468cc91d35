package query

import "lineweir/segment"

// encoder turns rows into the bytes of one format. The calls come in the order of the data: block, then for each of its
// runs series, then row for each row of the run.
type encoder interface {
	// block prepares for the rows of a Block, which stays valid until the next call of block.
	block(b *segment.Block) error
	// series prepares for the rows of one series.
	series(key []byte)
	// row appends a row of the Block; it appends nothing when the row has no value of any column.
	row(dst []byte, row int) []byte
}

// newEncoder returns the encoder of a format that shows rows, and the header that comes before the first of them.
func newEncoder(format, measurement string, columns []segment.ColumnDef) (encoder, []byte) {
	switch format {
	case formatCSV:
		return newCSVEncoder(columns)
	case formatJSON:
		return &jsonEncoder{}, nil
	default:
		return newLineEncoder(measurement), nil
	}
}

// has reports whether a column has a value in a row.
func has(c *segment.Column, row int) bool { return c.Valid == nil || c.Valid[row] }
