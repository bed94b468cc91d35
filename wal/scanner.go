package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// scanner reads the groups of one file in order and checks all that can be checked within the file.
type scanner struct {
	window
	path   string
	header fileHeader

	// What the next group must be.
	offset      int64
	group       uint64
	sequence    uint64
	previousCRC uint32
}

// scannedGroup is a group whose checksum is right. Its body is valid until the next call of the scanner.
type scannedGroup struct {
	header groupHeader
	offset int64
	crc    uint32
	body   []byte
}

// badGroupError says that no intact group lies where one could be. Whether it is torn or damaged depends on what lies
// behind it.
type badGroupError struct {
	offset int64
	reason string
}

func (e *badGroupError) Error() string { return fmt.Sprintf("byte %d: %s", e.offset, e.reason) }

// newScanner reads the file header. It returns a *CorruptionError where that is damaged. The buffer of one scanner can
// be handed to the next.
func newScanner(file io.ReaderAt, sizeBytes int64, path string, buffer []byte) (*scanner, error) {
	s := &scanner{
		window: window{file: file, sizeBytes: sizeBytes, data: buffer[:0]}, path: path, offset: fileHeaderBytes,
	}
	buf, err := s.slice(0, fileHeaderBytes)
	if err != nil {
		return nil, fmt.Errorf("read header of %s: %w", path, err)
	}
	s.header, err = decodeFileHeader(buf)
	if errors.Is(err, ErrVersion) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, corruption(path, 0, "%v", err)
	}
	s.group, s.sequence, s.previousCRC = s.header.FirstGroup, s.header.FirstSequence, s.header.PreviousCRC
	return s, nil
}

// next returns io.EOF where only zeros follow, a *badGroupError where something else than a group lies, and a
// *CorruptionError where a group is intact but can't belong there.
func (s *scanner) next() (scannedGroup, error) {
	offset := s.offset
	buf, err := s.slice(offset, groupHeaderBytes)
	if err != nil {
		return scannedGroup{}, s.readError(err)
	}
	header, intact := decodeGroupHeader(buf, s.header)
	if !intact {
		return scannedGroup{}, s.notAGroup(buf)
	}
	if header.Group != s.group {
		return scannedGroup{}, s.bad("a header of group %d lies where group %d should be", header.Group, s.group)
	}
	if header.PreviousCRC != s.previousCRC {
		return scannedGroup{}, corruption(s.path, offset, "group %d doesn't continue the group before it", s.group)
	}
	sizeBytes := groupBytes(int64(header.BodyBytes))
	if sizeBytes > s.sizeBytes-offset {
		return scannedGroup{}, s.bad("the file ends within group %d of %d bytes", s.group, sizeBytes)
	}
	if buf, err = s.slice(offset, sizeBytes); err != nil {
		return scannedGroup{}, s.readError(err)
	}
	covered, footer := buf[:sizeBytes-footerBytes], buf[sizeBytes-footerBytes:]
	crc := groupCRC(covered)
	if binary.LittleEndian.Uint64(footer) != uint64(crc) {
		return scannedGroup{}, s.bad("the checksum of group %d is wrong", s.group)
	}
	s.offset, s.group, s.previousCRC = offset+sizeBytes, s.group+1, crc
	return scannedGroup{header: header, offset: offset, crc: crc, body: covered[groupHeaderBytes:]}, nil
}

func (s *scanner) notAGroup(buf []byte) error {
	if bytes.Equal(buf, zeros[:len(buf)]) {
		empty, err := s.zeroFrom(s.offset)
		if err != nil {
			return s.readError(err)
		}
		if empty {
			return io.EOF
		}
	}
	return s.bad("there is no header of group %d", s.group)
}

// skip moves on behind a group without frames that was read before and found to be whole.
func (s *scanner) skip(g scannedGroup) {
	if next, ok := decodeGap(g.body); ok && g.header.Kind == kindGap {
		s.sequence = next
	}
}

// frames calls visit for each frame of a group, with the frame's offset in the file.
func (s *scanner) frames(g scannedGroup, visit func(offset int64, f Frame) error) error {
	offset := g.offset + groupHeaderBytes
	rest := g.body
	for range g.header.Frames {
		frame, after, ok := decodeFrame(rest)
		if !ok {
			return corruption(s.path, offset, "group %d has an impossible frame", g.header.Group)
		}
		if frame.Sequence != s.sequence {
			return corruption(s.path, offset, "frame %d lies where frame %d should be", frame.Sequence, s.sequence)
		}
		s.sequence++
		if err := visit(offset, frame); err != nil {
			return err
		}
		offset += int64(len(rest) - len(after))
		rest = after
	}
	if len(rest) != 0 {
		return corruption(s.path, offset, "group %d has bytes behind its last frame", g.header.Group)
	}
	return nil
}

// laterGroup looks at and behind offset for an intact header of a group above number.
func (s *scanner) laterGroup(offset int64, number uint64) (found int64, ok bool, err error) {
	for offset+groupHeaderBytes <= s.sizeBytes {
		piece, err := s.slice(offset, readAheadBytes)
		if err != nil {
			return 0, false, s.readError(err)
		}
		i := 0
		for ; i+groupHeaderBytes <= len(piece); i += alignment {
			header, intact := decodeGroupHeader(piece[i:], s.header)
			if intact && header.Group > number {
				return offset + int64(i), true, nil
			}
		}
		offset += int64(i)
	}
	return 0, false, nil
}

func (s *scanner) bad(format string, args ...any) error {
	return &badGroupError{offset: s.offset, reason: fmt.Sprintf(format, args...)}
}

func (s *scanner) readError(err error) error {
	return fmt.Errorf("read %s at byte %d: %w", s.path, s.offset, err)
}
