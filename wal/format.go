package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The layout is described in FORMAT.md. All numbers are little endian.
const (
	fileMagic     = "LWEIRWAL"
	formatVersion = 2
	groupMagic    = 0x50524757 // "WGRP"

	fileHeaderBytes  = 64
	groupHeaderBytes = 48
	frameHeaderBytes = 16
	footerBytes      = 8
	trailerBodyBytes = 16
	gapBodyBytes     = 16
	trailerBytes     = groupHeaderBytes + trailerBodyBytes + footerBytes
	alignment        = 8
)

// Kinds of groups. They are written to disk, so their values never change.
const (
	kindFrames  = 1
	kindTrailer = 2
	kindGap     = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func align(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// frameBytes is the length of a frame with its header and padding.
func frameBytes(payloadBytes int64) int64 { return frameHeaderBytes + align(payloadBytes) }

// groupBytes is the length of a group with its header and footer.
func groupBytes(bodyBytes int64) int64 { return groupHeaderBytes + bodyBytes + footerBytes }

// fileHeader stands at the start of each file.
//
//	+--------+---------+------+--------+------+-------------+----------------+--------------+-----+-----+
//	| magic  | version | zero | number | salt | first group | first sequence | previous CRC | log | CRC |
//	| 8      | 4       | 4    | 8      | 8    | 8           | 8              | 4            | 8   | 4   |
//	+--------+---------+------+--------+------+-------------+----------------+--------------+-----+-----+
type fileHeader struct {
	Number        uint64
	Salt          uint64 // random; no client can guess it, so no payload can pass for a group header
	FirstGroup    uint64 // number of the first group
	FirstSequence uint64 // sequence of the first frame
	PreviousCRC   uint32 // of the group before the first: the trailer of the file before
	Log           uint64 // random for each log, the same in all of its files
}

func (h fileHeader) encode() []byte {
	buf := make([]byte, fileHeaderBytes)
	copy(buf, fileMagic)
	binary.LittleEndian.PutUint32(buf[8:], formatVersion)
	binary.LittleEndian.PutUint64(buf[16:], h.Number)
	binary.LittleEndian.PutUint64(buf[24:], h.Salt)
	binary.LittleEndian.PutUint64(buf[32:], h.FirstGroup)
	binary.LittleEndian.PutUint64(buf[40:], h.FirstSequence)
	binary.LittleEndian.PutUint32(buf[48:], h.PreviousCRC)
	binary.LittleEndian.PutUint64(buf[52:], h.Log)
	binary.LittleEndian.PutUint32(buf[60:], crc32.Checksum(buf[:60], castagnoli))
	return buf
}

// decodeFileHeader returns ErrVersion for a format that is not known, and a plain reason for anything else.
func decodeFileHeader(buf []byte) (fileHeader, error) {
	if len(buf) < fileHeaderBytes {
		return fileHeader{}, fmt.Errorf("the file is shorter than its header of %d bytes", fileHeaderBytes)
	}
	if string(buf[:8]) != fileMagic {
		return fileHeader{}, fmt.Errorf("the file doesn't start with %q", fileMagic)
	}
	if version := binary.LittleEndian.Uint32(buf[8:]); version != formatVersion {
		return fileHeader{}, fmt.Errorf("%w: found %d, known is %d", ErrVersion, version, formatVersion)
	}
	if binary.LittleEndian.Uint32(buf[60:]) != crc32.Checksum(buf[:60], castagnoli) {
		return fileHeader{}, fmt.Errorf("the checksum of the file header is wrong")
	}
	return fileHeader{
		Number:        binary.LittleEndian.Uint64(buf[16:]),
		Salt:          binary.LittleEndian.Uint64(buf[24:]),
		FirstGroup:    binary.LittleEndian.Uint64(buf[32:]),
		FirstSequence: binary.LittleEndian.Uint64(buf[40:]),
		PreviousCRC:   binary.LittleEndian.Uint32(buf[48:]),
		Log:           binary.LittleEndian.Uint64(buf[52:]),
	}, nil
}

// groupHeader stands before the body of each group.
//
//	+-------+------+-------------+--------------+------+-------------+--------+--------------+-----+
//	| magic | kind | file number | group number | salt | body length | frames | previous CRC | CRC |
//	| 4     | 4    | 8           | 8            | 8    | 4           | 4      | 4            | 4   |
//	+-------+------+-------------+--------------+------+-------------+--------+--------------+-----+
type groupHeader struct {
	Kind        uint32
	File        uint64
	Group       uint64
	Salt        uint64
	BodyBytes   uint32
	Frames      uint32
	PreviousCRC uint32 // CRC in the footer of the group before
}

func (h groupHeader) append(buf []byte) []byte {
	start := len(buf)
	buf = binary.LittleEndian.AppendUint32(buf, groupMagic)
	buf = binary.LittleEndian.AppendUint32(buf, h.Kind)
	buf = binary.LittleEndian.AppendUint64(buf, h.File)
	buf = binary.LittleEndian.AppendUint64(buf, h.Group)
	buf = binary.LittleEndian.AppendUint64(buf, h.Salt)
	buf = binary.LittleEndian.AppendUint32(buf, h.BodyBytes)
	buf = binary.LittleEndian.AppendUint32(buf, h.Frames)
	buf = binary.LittleEndian.AppendUint32(buf, h.PreviousCRC)
	return binary.LittleEndian.AppendUint32(buf, crc32.Checksum(buf[start:], castagnoli))
}

// decodeGroupHeader reports whether buf starts with an intact header of a group of the given file.
func decodeGroupHeader(buf []byte, file fileHeader) (groupHeader, bool) {
	if len(buf) < groupHeaderBytes || binary.LittleEndian.Uint32(buf) != groupMagic {
		return groupHeader{}, false
	}
	header := groupHeader{
		Kind:        binary.LittleEndian.Uint32(buf[4:]),
		File:        binary.LittleEndian.Uint64(buf[8:]),
		Group:       binary.LittleEndian.Uint64(buf[16:]),
		Salt:        binary.LittleEndian.Uint64(buf[24:]),
		BodyBytes:   binary.LittleEndian.Uint32(buf[32:]),
		Frames:      binary.LittleEndian.Uint32(buf[36:]),
		PreviousCRC: binary.LittleEndian.Uint32(buf[40:]),
	}
	intact := header.File == file.Number && header.Salt == file.Salt &&
		binary.LittleEndian.Uint32(buf[44:]) == crc32.Checksum(buf[:44], castagnoli)
	return header, intact
}

// Frame is one entry of the log.
//
//	+----------+----------------+------+------+---------+-------------------+
//	| sequence | payload length | type | zero | payload | zero to 8 bytes   |
//	| 8        | 4              | 1    | 3    | n       | 0 to 7            |
//	+----------+----------------+------+------+---------+-------------------+
type Frame struct {
	Sequence uint64 // 1 for the first frame of a log, then without gaps
	Type     byte   // meaning of the payload, given by the caller
	Payload  []byte
}

// appendHeader appends all of the frame but its payload and padding.
func (f Frame) appendHeader(buf []byte) []byte {
	buf = binary.LittleEndian.AppendUint64(buf, f.Sequence)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(f.Payload)))
	return append(buf, f.Type, 0, 0, 0)
}

// decodeFrame splits the first frame off body. The payload aliases body.
func decodeFrame(body []byte) (frame Frame, rest []byte, ok bool) {
	if len(body) < frameHeaderBytes {
		return Frame{}, nil, false
	}
	payloadBytes := int64(binary.LittleEndian.Uint32(body[8:]))
	if payloadBytes > MaxPayloadBytes || frameBytes(payloadBytes) > int64(len(body)) {
		return Frame{}, nil, false
	}
	payloadEnd := frameHeaderBytes + payloadBytes
	frame = Frame{
		Sequence: binary.LittleEndian.Uint64(body),
		Type:     body[12],
		Payload:  body[frameHeaderBytes:payloadEnd:payloadEnd],
	}
	return frame, body[frameBytes(payloadBytes):], true
}

// trailer is the body of the last group of a sealed file.
type trailer struct {
	Successor    uint64 // number of the file that follows
	NextSequence uint64 // sequence of that file's first frame
}

// encodeTrailer returns the whole group and the CRC in its footer.
func encodeTrailer(header groupHeader, t trailer) (group []byte, crc uint32) {
	header.Kind = kindTrailer
	return encodeNumbers(header, t.Successor, t.NextSequence)
}

// encodeGap returns a group that says with which sequence the log goes on, and its CRC. Only a repair writes one.
func encodeGap(header groupHeader, next uint64) (group []byte, crc uint32) {
	header.Kind = kindGap
	return encodeNumbers(header, next, 0)
}

// encodeNumbers returns a group whose body is two numbers.
func encodeNumbers(header groupHeader, first, second uint64) (group []byte, crc uint32) {
	header.BodyBytes = trailerBodyBytes
	group = header.append(make([]byte, 0, trailerBytes))
	group = binary.LittleEndian.AppendUint64(group, first)
	group = binary.LittleEndian.AppendUint64(group, second)
	crc = groupCRC(group)
	return appendFooter(group, crc), crc
}

// groupCRC is the CRC of a group, given all of it but the footer. It leaves out the CRC in the header: the CRC of
// bytes and of their own CRC behind them is a constant, and then the header would not be in it, nor the chain.
func groupCRC(covered []byte) uint32 {
	return crc32.Update(headerCRC(covered), castagnoli, covered[groupHeaderBytes:])
}

// headerCRC is the CRC that a group's header ends with, with which the group's begins.
func headerCRC(header []byte) uint32 {
	return crc32.Checksum(header[:groupHeaderBytes-4], castagnoli)
}

func decodeGap(body []byte) (next uint64, ok bool) {
	if len(body) != gapBodyBytes {
		return 0, false
	}
	return binary.LittleEndian.Uint64(body), true
}

func decodeTrailer(body []byte) (trailer, bool) {
	if len(body) != trailerBodyBytes {
		return trailer{}, false
	}
	return trailer{
		Successor:    binary.LittleEndian.Uint64(body),
		NextSequence: binary.LittleEndian.Uint64(body[8:]),
	}, true
}

// appendFooter ends a group: the CRC of all its bytes before the footer, and four zeros.
func appendFooter(buf []byte, crc uint32) []byte {
	buf = binary.LittleEndian.AppendUint32(buf, crc)
	return append(buf, 0, 0, 0, 0)
}
