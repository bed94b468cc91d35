package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// checkedReader gives the library nothing but bytes whose checksum is right. It keeps the last blocks that it read, and
// the first error, because not all of the library hands errors on. One goroutine uses it.
type checkedReader struct {
	file   *File
	blocks []byte // whole blocks of the file's data, in memory or in the tail of the file
	at     int64  // place of the first one
	memory []byte
	err    error
}

// ReadAt fills p from the data, the page index or the footer, but not across two of them.
func (r *checkedReader) ReadAt(p []byte, offset int64) (int, error) {
	n, err := r.readAt(p, offset)
	if err != nil && r.err == nil {
		r.err = err
	}
	return n, err
}

func (r *checkedReader) readAt(p []byte, offset int64) (int, error) {
	end := offset + int64(len(p))
	if offset >= r.file.sums.dataBytes {
		return r.file.readEnd(p, offset)
	}
	if offset < 0 || end > r.file.sums.dataBytes {
		return 0, r.file.corrupt(max(offset, 0), "%d bytes are not in the data", len(p))
	}
	if offset < r.at || end > r.at+int64(len(r.blocks)) {
		if err := r.load(offset-offset%r.file.sums.blockBytes, end); err != nil {
			return 0, err
		}
	}
	return copy(p, r.blocks[offset-r.at:]), nil
}

// load reads and checks the blocks from a place to the one that end lies in. If the first one is the last of those
// that are there, it is not read again.
func (r *checkedReader) load(from, end int64) error {
	block := r.file.sums.blockBytes
	end = min(end+(block-end%block)%block, r.file.sums.dataBytes)
	length := int(end - from)
	kept := 0
	if last := r.at + int64(len(r.blocks)) - block; int64(len(r.blocks)) >= block && last == from {
		kept = int(block)
	}
	old := r.blocks[len(r.blocks)-kept:]
	r.at = from
	if inTail := from - (r.file.sizeBytes - int64(len(r.file.tail))); inTail >= 0 {
		r.blocks = r.file.tail[inTail : inTail+int64(length)]
		return r.check(r.file.checkData(r.blocks, from))
	}
	if cap(r.memory) < length {
		r.memory = make([]byte, length)
	}
	r.blocks = r.memory[:length]
	copy(r.blocks, old)
	return r.check(r.file.readData(r.blocks[kept:], from+int64(kept)))
}

// check forgets the blocks if there was an error.
func (r *checkedReader) check(err error) error {
	if err != nil {
		r.blocks = nil
	}
	return err
}

// readData reads whole blocks of the data and checks them.
func (f *File) readData(buf []byte, offset int64) error {
	if err := f.readAt(buf, offset); err != nil {
		return err
	}
	return f.checkData(buf, offset)
}

// checkData checks whole blocks of the data.
func (f *File) checkData(data []byte, offset int64) error {
	for len(data) > 0 {
		n := min(len(data), int(f.sums.blockBytes))
		if got, want := crc32.Checksum(data[:n], castagnoli), f.sums.blocks[offset/f.sums.blockBytes]; got != want {
			return f.corrupt(offset, "checksum of %d bytes: got %08x, stated %08x", n, got, want)
		}
		data = data[n:]
		offset += int64(n)
	}
	return nil
}

// readEnd reads from the page indexes, which are in memory once one of them was needed, or from the footer.
func (f *File) readEnd(p []byte, offset int64) (int, error) {
	if offset >= f.footerAt {
		if end := offset - f.footerAt + int64(len(p)); end > int64(len(f.footer)) {
			return 0, f.corrupt(offset, "%d bytes are not in the file", len(p))
		}
		return copy(p, f.footer[offset-f.footerAt:]), nil
	}
	index, err := f.readIndex()
	if err != nil {
		return 0, err
	}
	if end := offset - f.sums.dataBytes + int64(len(p)); end > int64(len(index)) {
		return 0, f.corrupt(offset, "%d bytes are not in the page index", len(p))
	}
	return copy(p, index[offset-f.sums.dataBytes:]), nil
}

// readIndex returns the bytes between data and footer.
func (f *File) readIndex() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.index != nil {
		return f.index, nil
	}
	index := make([]byte, f.footerAt-f.sums.dataBytes)
	if err := f.readAt(index, f.sums.dataBytes); err != nil {
		return nil, err
	}
	if got := crc32.Checksum(index, castagnoli); got != f.sums.index {
		return nil, f.corrupt(f.sums.dataBytes, "checksum of the page index: got %08x, stated %08x", got, f.sums.index)
	}
	f.index = index
	return index, nil
}

// readAt fills buf from the file, unchecked.
func (f *File) readAt(buf []byte, offset int64) error {
	if at := offset - (f.sizeBytes - int64(len(f.tail))); at >= 0 && at+int64(len(buf)) <= int64(len(f.tail)) {
		copy(buf, f.tail[at:])
		return nil
	}
	n, err := f.reader.ReadAt(buf, offset)
	switch {
	case n == len(buf):
		return nil
	case errors.Is(err, io.EOF):
		return f.corrupt(offset, "the file ends after %d of %d bytes", n, len(buf))
	default:
		return fmt.Errorf("read %d bytes at %d of %s: %w", len(buf), offset, f.path, err)
	}
}
