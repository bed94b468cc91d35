package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lineweir/internal/vfs"
)

// salvage reads what is whole of a log that may be damaged: every group whose checksum is right, whatever lies before
// it. A frame is taken if it comes behind the last one that was taken, so the order of those that are left is right.
type salvage struct {
	fs    vfs.FS
	dir   string
	log   uint64 // ID that files must have
	next  uint64 // sequence that the next frame should have
	found func(missing uint64, f Frame) error

	refused []*CorruptionError // files that are of another log, or have no readable beginning
}

// run reads the files of the given numbers, ascending.
func (v *salvage) run(numbers []uint64) error {
	var buffer []byte
	for _, number := range numbers {
		if err := v.file(number, &buffer); err != nil {
			return fmt.Errorf("read what is left of %s: %w", fileName(number), err)
		}
	}
	return nil
}

func (v *salvage) file(number uint64, buffer *[]byte) (err error) {
	path := filepath.Join(v.dir, fileName(number))
	file, err := v.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer closeInto(&err, file)
	sizeBytes, err := file.Size()
	if err != nil {
		return err
	}
	s, refusal, err := salvageScanner(file, sizeBytes, path, number, *buffer)
	if err != nil {
		return err
	}
	if refusal == nil && s.header.Log != 0 && v.log != 0 && s.header.Log != v.log {
		refusal = corruption(path, 0, "the file is of another log")
	}
	if refusal != nil {
		v.refused = append(v.refused, refusal)
		return nil
	}
	defer func() { *buffer = s.data }()
	return v.groups(s)
}

// salvageScanner is newScanner for a file whose header may be damaged. Its groups are read all the same if one lies at
// the place of the first: the salt is taken from there, where no payload can be.
func salvageScanner(
	file io.ReaderAt, sizeBytes int64, path string, number uint64, buffer []byte,
) (s *scanner, refusal *CorruptionError, err error) {
	s, err = newScanner(file, sizeBytes, path, buffer)
	if err == nil && s.header.Number == number {
		return s, nil, nil
	}
	if err == nil {
		return nil, corruption(path, 0, "its header is that of file %s", fileName(s.header.Number)), nil
	}
	if !errors.As(err, &refusal) {
		return nil, nil, err
	}
	s = &scanner{
		window: window{file: file, sizeBytes: sizeBytes, data: buffer[:0]}, path: path, offset: fileHeaderBytes,
	}
	buf, err := s.slice(fileHeaderBytes, groupHeaderBytes)
	if err != nil || len(buf) < groupHeaderBytes {
		return nil, refusal, err
	}
	s.header = fileHeader{Number: number, Salt: binary.LittleEndian.Uint64(buf[24:])}
	if _, intact := decodeGroupHeader(buf, s.header); !intact {
		return nil, refusal, nil
	}
	return s, nil, nil
}

// groups reads all whole groups of a file.
func (v *salvage) groups(s *scanner) error {
	for {
		at, found, err := s.laterGroup(s.offset, 0)
		if err != nil || !found {
			return err
		}
		g, whole, err := s.at(at)
		if err != nil {
			return err
		}
		if !whole {
			s.offset = at + alignment
			continue
		}
		if next, ok := decodeGap(g.body); ok && g.header.Kind == kindGap {
			v.next = max(v.next, next) // an earlier repair has told of those
		}
		if g.header.Kind != kindFrames {
			continue
		}
		if err := v.frames(g); err != nil {
			return err
		}
	}
}

// at reads the group whose header lies at offset, as if it were the one that is due.
func (s *scanner) at(offset int64) (g scannedGroup, whole bool, err error) {
	buf, err := s.slice(offset, groupHeaderBytes)
	if err != nil {
		return g, false, s.readError(err)
	}
	header, intact := decodeGroupHeader(buf, s.header)
	if !intact {
		return g, false, nil
	}
	s.offset, s.group, s.previousCRC = offset, header.Group, header.PreviousCRC
	g, err = s.next()
	var bad *badGroupError
	if errors.As(err, &bad) {
		return g, false, nil
	}
	return g, err == nil, err
}

// frames hands out the frames of a whole group that come behind the last one.
func (v *salvage) frames(g scannedGroup) error {
	rest := g.body
	for range g.header.Frames {
		frame, after, ok := decodeFrame(rest)
		if !ok {
			return nil // the checksum is right and the frame impossible: not written by this program
		}
		rest = after
		if frame.Sequence < v.next {
			continue
		}
		if err := v.found(frame.Sequence-v.next, frame); err != nil {
			return err
		}
		v.next = frame.Sequence + 1
	}
	return nil
}
