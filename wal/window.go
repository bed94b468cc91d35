package wal

import (
	"bytes"
	"errors"
	"io"
)

// readAheadBytes is how much a window reads at least.
const readAheadBytes = 256 << 10

var zeros [readAheadBytes]byte

// window reads a file front to back through a buffer that grows to the longest piece asked for.
type window struct {
	file      io.ReaderAt
	sizeBytes int64
	start     int64 // offset of data[0]
	data      []byte
}

// slice returns n bytes at offset, or fewer where the file ends. They are valid until the next call.
func (w *window) slice(offset, n int64) ([]byte, error) {
	if n = min(n, w.sizeBytes-offset); n <= 0 {
		return nil, nil
	}
	if offset < w.start || offset+n > w.start+int64(len(w.data)) {
		if err := w.fill(offset, n); err != nil {
			return nil, err
		}
	}
	return w.data[offset-w.start:][:n], nil
}

func (w *window) fill(offset, n int64) error {
	want := min(max(n, readAheadBytes), w.sizeBytes-offset)
	if int64(cap(w.data)) < want {
		w.data = make([]byte, want)
	}
	w.data, w.start = w.data[:want], offset
	read, err := w.file.ReadAt(w.data, offset)
	if int64(read) == want {
		return nil
	}
	w.data = w.data[:0]
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the file became shorter while it was read
	}
	return err
}

// zeroFrom reports whether nothing but zeros lies at offset and behind it.
func (w *window) zeroFrom(offset int64) (bool, error) {
	for offset < w.sizeBytes {
		piece, err := w.slice(offset, readAheadBytes)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(piece, zeros[:len(piece)]) {
			return false, nil
		}
		offset += int64(len(piece))
	}
	return true, nil
}
