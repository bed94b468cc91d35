package wal

import (
	"hash/crc32"

	"lineweir/internal/vfs"
)

const (
	// chunkBytes is how much of a group is assembled before it is written. Most groups are one write.
	chunkBytes = 256 << 10
	// directBytes is the length from which a payload is written from where it lies: a system call costs less than
	// the copy.
	directBytes = 64 << 10
)

// encoder writes groups to a file. After an error it writes no more, and finish returns the error.
type encoder struct {
	file   vfs.File
	offset int64  // in the file, of chunk[0]
	chunk  []byte // assembled, not yet written
	summed int    // bytes of chunk that are in crc
	crc    uint32 // of the group so far
	err    error
}

// begin starts a group at offset.
func (e *encoder) begin(file vfs.File, offset int64, header groupHeader) {
	*e = encoder{file: file, offset: offset, chunk: header.append(e.chunk[:0]), summed: groupHeaderBytes}
	e.crc = headerCRC(e.chunk)
}

// frame adds a frame. It doesn't keep the payload.
func (e *encoder) frame(f Frame) {
	e.chunk = f.appendHeader(e.chunk)
	if len(f.Payload) >= directBytes {
		e.flush()
		e.crc = crc32.Update(e.crc, castagnoli, f.Payload)
		e.write(f.Payload)
	} else {
		e.chunk = append(e.chunk, f.Payload...)
	}
	for range align(int64(len(f.Payload))) - int64(len(f.Payload)) {
		e.chunk = append(e.chunk, 0)
	}
	if len(e.chunk) >= chunkBytes {
		e.flush()
	}
}

// finish ends the group and returns its CRC and the offset behind it.
func (e *encoder) finish() (crc uint32, end int64, err error) {
	e.sum()
	e.chunk = appendFooter(e.chunk, e.crc)
	e.summed = len(e.chunk)
	e.flush()
	return e.crc, e.offset, e.err
}

func (e *encoder) sum() {
	e.crc = crc32.Update(e.crc, castagnoli, e.chunk[e.summed:])
	e.summed = len(e.chunk)
}

func (e *encoder) flush() {
	e.sum()
	e.write(e.chunk)
	e.chunk, e.summed = e.chunk[:0], 0
}

func (e *encoder) write(p []byte) {
	if e.err != nil || len(p) == 0 {
		return
	}
	_, e.err = e.file.WriteAt(p, e.offset)
	e.offset += int64(len(p))
}
