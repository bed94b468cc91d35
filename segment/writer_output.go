package segment

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// output passes on what the library writes and computes checksums of it. The end of the file, from the page indexes
// on, is held back until its own checksums are in it.
type output struct {
	w      *bufio.Writer
	offset int64
	data   dataSums
	atEnd  bool
	end    []byte

	checksum uint32 // of the footer, once finish has returned
}

func newOutput() output { return output{w: bufio.NewWriterSize(nil, 64<<10)} }

func (o *output) reset(w io.Writer) {
	o.w.Reset(w)
	o.data.reset()
	if cap(o.end) > keptBytesMax {
		o.end = nil
	}
	*o = output{w: o.w, data: o.data, end: o.end[:0]}
}

// Write takes the next bytes of the file.
func (o *output) Write(p []byte) (int, error) {
	if o.atEnd {
		o.end = append(o.end, p...)
		return len(p), nil
	}
	n, err := o.w.Write(p)
	o.data.add(p[:n])
	o.offset += int64(n)
	return n, err
}

// startEnd ends the data and returns the checksums of it, in which those of the end are missing.
func (o *output) startEnd() *checksums {
	o.atEnd = true
	return o.data.end(o.offset)
}

// finish fills the checksums into the end of the file, and writes it.
func (o *output) finish() error {
	trailer := len(o.end) - trailerBytes
	if trailer < 0 {
		return fmt.Errorf("BUG: a file that ends with %d bytes", len(o.end))
	}
	footerAt := trailer - int(binary.LittleEndian.Uint32(o.end[trailer:]))
	if footerAt < 0 {
		return fmt.Errorf("BUG: a footer that starts at %d of the end", footerAt)
	}
	footer := o.end[footerAt:trailer]
	at, _, err := findChecksums(footer)
	if err != nil {
		return fmt.Errorf("BUG: %w", err)
	}
	index := crc32.Checksum(o.end[:footerAt], castagnoli)
	copy(footer[at+checksumDigits+1:], fmt.Sprintf("%08x", index))
	o.checksum = footerChecksum(footer, at)
	copy(footer[at:], fmt.Sprintf("%08x", o.checksum))
	n, err := o.w.Write(o.end)
	o.offset += int64(n)
	if err != nil {
		return err
	}
	return o.w.Flush()
}
