package segment

import (
	"errors"
	"io"
)

// WriterPool writes segment files and keeps the memory of a few writers for the next ones. Its zero value is ready, and
// it may be used by several goroutines.
type WriterPool struct{}

// Write encodes all rows of src, which it does not close, as a Parquet file into w. The fields of src must be among
// info.Fields, its tags among info.Tags. After an error, w holds a part of a file that is good for nothing.
func (p *WriterPool) Write(w io.Writer, info FileInfo, src Source) (Written, error) {
	return Written{}, errors.ErrUnsupported
}
