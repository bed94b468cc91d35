package auth

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// The layout is described in FORMAT.md. All numbers are little endian.
const (
	fileMagic     = "LWEIRTOK"
	formatVersion = 1

	headerBytes   = 24
	checksumBytes = 4
	tokenBytesMin = len(digest{}) + 8 + 1 + 1 + 2 + 2
	fileBytesMax  = 64 << 20 // no file of ours comes near
)

// Flags of a token. They are written to disk, so their values never change.
const (
	flagAdmin = 1 << iota
	flagReadAll
	flagWriteAll
	flagsKnown = flagAdmin | flagReadAll | flagWriteAll
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeTokens returns the content of a token file.
//
//	+-------+---------+-------+-------------+------+--------+-----+
//	| magic | version | count | body length | zero | tokens | CRC |
//	| 8     | 4       | 4     | 4           | 4    |        | 4   |
//	+-------+---------+-------+-------------+------+--------+-----+
func encodeTokens(tokens []Token) []byte {
	buf := make([]byte, headerBytes)
	copy(buf, fileMagic)
	for i := range tokens {
		buf = appendToken(buf, &tokens[i])
	}
	binary.LittleEndian.PutUint32(buf[8:], formatVersion)
	binary.LittleEndian.PutUint32(buf[12:], uint32(len(tokens)))
	binary.LittleEndian.PutUint32(buf[16:], uint32(len(buf)-headerBytes))
	return binary.LittleEndian.AppendUint32(buf, crc32.Checksum(buf, castagnoli))
}

// appendToken appends one token.
//
//	+--------+---------+-------+------+----------------+-----------------+
//	| digest | created | flags | name | read databases | write databases |
//	| 32     | 8       | 1     | 1+n  | 2+…            | 2+…             |
//	+--------+---------+-------+------+----------------+-----------------+
func appendToken(buf []byte, t *Token) []byte {
	buf = append(buf, t.digest[:]...)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(t.Created.UnixNano()))
	buf = append(buf, t.Rights.flags())
	buf = appendName(buf, t.Name)
	buf = appendNames(buf, t.Rights.Read.Names)
	return appendNames(buf, t.Rights.Write.Names)
}

func appendName(buf []byte, name string) []byte { return append(append(buf, byte(len(name))), name...) }

func appendNames(buf []byte, names []string) []byte {
	buf = binary.LittleEndian.AppendUint16(buf, uint16(len(names)))
	for _, name := range names {
		buf = appendName(buf, name)
	}
	return buf
}

func (r *Rights) flags() byte {
	var flags byte
	if r.Admin {
		flags |= flagAdmin
	}
	if r.Read.All {
		flags |= flagReadAll
	}
	if r.Write.All {
		flags |= flagWriteAll
	}
	return flags
}

// decodeTokens reads the content of the file path. Errors are ErrVersion and *CorruptionError.
func decodeTokens(path string, data []byte) ([]Token, error) {
	damaged := func(offset int, reason string) error {
		return &CorruptionError{Path: path, Offset: int64(offset), Reason: reason}
	}
	if len(data) < headerBytes+checksumBytes {
		return nil, damaged(len(data), "it ends within its header")
	}
	if string(data[:8]) != fileMagic {
		return nil, damaged(0, fmt.Sprintf("it doesn't start with %q", fileMagic))
	}
	if version := binary.LittleEndian.Uint32(data[8:]); version != formatVersion {
		return nil, fmt.Errorf("%w: %s has version %d, known is %d", ErrVersion, path, version, formatVersion)
	}
	end := len(data) - checksumBytes
	if length := binary.LittleEndian.Uint32(data[16:]); uint64(length) != uint64(end-headerBytes) {
		return nil, damaged(16, fmt.Sprintf("its tokens have %d bytes instead of %d", end-headerBytes, length))
	}
	if binary.LittleEndian.Uint32(data[20:]) != 0 {
		return nil, damaged(20, "its header has bytes that must be zero")
	}
	if binary.LittleEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], castagnoli) {
		return nil, damaged(0, "its checksum is wrong")
	}
	d := decoder{data: data[:end], at: headerBytes}
	tokens := d.tokens(binary.LittleEndian.Uint32(data[12:]))
	if d.reason != "" {
		return nil, damaged(d.at, d.reason)
	}
	return tokens, nil
}

// decoder mirrors the encoder. After the first thing that is wrong, reason is set and the rest reads as nothing.
type decoder struct {
	data   []byte
	at     int
	reason string
}

func (d *decoder) tokens(count uint32) []Token {
	if count > tokensMax || int(count)*tokenBytesMin > len(d.data)-d.at {
		d.reason = fmt.Sprintf("it can't hold %d tokens", count)
		return nil
	}
	tokens := make([]Token, 0, count)
	for range count {
		tokens = append(tokens, d.token())
	}
	if d.reason == "" && d.at != len(d.data) {
		d.reason = "it goes on behind its last token"
	}
	return tokens
}

func (d *decoder) token() Token {
	var t Token
	copy(t.digest[:], d.take(len(t.digest)))
	t.Created = time.Unix(0, int64(d.number(8))).UTC()
	flags := byte(d.number(1))
	if flags&^flagsKnown != 0 {
		d.fail("a token has unknown rights")
	}
	t.Name = d.name()
	t.Rights = Rights{
		Admin: flags&flagAdmin != 0,
		Read:  Databases{All: flags&flagReadAll != 0, Names: d.names()},
		Write: Databases{All: flags&flagWriteAll != 0, Names: d.names()},
	}
	return t
}

func (d *decoder) names() []string {
	count := int(d.number(2))
	if count > len(d.data)-d.at {
		d.fail("a token has more databases than there are bytes")
	}
	if count == 0 || d.reason != "" {
		return nil
	}
	names := make([]string, 0, count)
	for range count {
		names = append(names, d.name())
	}
	return names
}

func (d *decoder) name() string { return string(d.take(int(d.number(1)))) }

// number reads a number of so many bytes.
func (d *decoder) number(bytes int) uint64 {
	var whole [8]byte
	copy(whole[:], d.take(bytes))
	return binary.LittleEndian.Uint64(whole[:])
}

func (d *decoder) take(bytes int) []byte {
	if d.reason != "" || bytes > len(d.data)-d.at {
		d.fail("a token ends early")
		return nil
	}
	taken := d.data[d.at : d.at+bytes]
	d.at += bytes
	return taken
}

func (d *decoder) fail(reason string) {
	if d.reason == "" {
		d.reason = reason
	}
}
