package segment

import (
	"errors"
	"io"
)

// File is an open segment file. Its methods may be called by several goroutines.
type File struct {
	info    FileInfo
	written Written
}

// OpenFile reads the footer of the segment file of the given size behind r. The path is for errors only. The error is
// a *CorruptionError unless reading itself failed.
func OpenFile(path string, r io.ReaderAt, sizeBytes int64) (*File, error) {
	return nil, errors.ErrUnsupported
}

// Info returns what the file says about itself.
func (f *File) Info() FileInfo { return f.info }

// Written returns what the file's footer says it holds.
func (f *File) Written() Written { return f.written }

// Scan returns the selected rows in order. The Source reads from the reader given to OpenFile, page by page, so its
// memory does not depend on the size of the file. Its errors are *CorruptionError unless reading itself failed.
func (f *File) Scan(sel Selection) Source { return nil }

// Verify reads every page of the file with its checksum, decodes every decodeEvery-th page of each column (1: all), and
// returns what it found: rows and nulls of every column as counted by its pages, bounds from decoded pages, and for the
// rest as stated for the page. It equals the writer's Written if the file is whole.
func (f *File) Verify(decodeEvery int) (Written, error) { return Written{}, errors.ErrUnsupported }
