package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lineweir/shard"
)

// Payload is what the write-ahead log keeps of one request: the accepted lines, and what it takes to read them again.
// FORMAT.md describes its encoding.
type Payload struct {
	Database    string
	Precision   Precision
	DefaultTime time.Time
	Text        []byte

	// Sent is the body as the client compressed it by Codec, CodecGzip or CodecZstd: it must hold exactly Text, and
	// may be kept instead. Empty: the client did not compress, or some of its lines were refused.
	Sent  []byte
	Codec Codec
}

// Codec is how a payload holds its text. The values are written to disk, so they never change.
type Codec uint8

// The codecs of payloads.
const (
	CodecRaw  Codec = 1
	CodecS2   Codec = 2 // one block
	CodecGzip Codec = 3 // one or more members
	CodecZstd Codec = 4 // one or more frames
)

// String names the codec as an operator reads it.
func (c Codec) String() string {
	names := [...]string{"none", "raw", "s2", "gzip", "zstd"}
	if int(c) >= len(names) {
		return "unknown"
	}
	return names[c]
}

// The layout of a payload.
const (
	payloadVersion = 1

	payloadVersionAt   = 0
	payloadCodecAt     = 1
	payloadPrecisionAt = 2
	payloadZeroAt      = 3
	payloadDatabaseAt  = 4 // length
	payloadTextAt      = 8 // length, decoded
	payloadTimeAt      = 12
	payloadHeaderBytes = 20 // then the database, then the encoded text

	// DatabaseBytesMax bounds the name of a database in a payload.
	DatabaseBytesMax = 1024
)

// Errors of payloads.
var (
	ErrPayloadDatabase = errors.New("the name of the database is empty or too long for a payload")
	ErrPayloadDamaged  = errors.New("the payload is damaged")
	ErrPayloadVersion  = errors.New("the payload was written by a later version")
)

// AppendPayload appends the encoded payload. Text and Sent stay the caller's.
func AppendPayload(dst []byte, p *Payload) ([]byte, error) {
	if len(p.Text) > TextBytesMax {
		return dst, ErrTextTooLarge
	}
	if p.Database == "" || len(p.Database) > DatabaseBytesMax {
		return dst, ErrPayloadDatabase
	}
	start := len(dst)
	dst = slices.Grow(dst, PayloadBytesMax(len(p.Database), len(p.Text)))
	dst = append(dst, make([]byte, payloadHeaderBytes)...)
	dst = append(dst, p.Database...)
	dst, codec := appendText(dst, p)

	header := dst[start : start+payloadHeaderBytes]
	header[payloadVersionAt] = payloadVersion
	header[payloadCodecAt] = byte(codec)
	header[payloadPrecisionAt] = byte(p.Precision)
	binary.LittleEndian.PutUint32(header[payloadDatabaseAt:], uint32(len(p.Database)))
	binary.LittleEndian.PutUint32(header[payloadTextAt:], uint32(len(p.Text)))
	binary.LittleEndian.PutUint64(header[payloadTimeAt:], uint64(p.DefaultTime.UnixNano()))
	return dst, nil
}

// openedPayload is a payload whose header was checked; it aliases the payload.
type openedPayload struct {
	database    string
	codec       Codec
	precision   Precision
	defaultTime time.Time
	textBytes   int
	encoded     []byte
}

// openPayload checks the header. It believes no length that the payload can't keep.
func openPayload(payload []byte) (openedPayload, error) {
	if len(payload) < payloadHeaderBytes {
		return openedPayload{}, fmt.Errorf("%w: %d bytes are less than a header", ErrPayloadDamaged, len(payload))
	}
	if version := payload[payloadVersionAt]; version != payloadVersion {
		return openedPayload{}, fmt.Errorf("%w: %d, the latest known is %d", ErrPayloadVersion, version, payloadVersion)
	}
	o := openedPayload{
		codec:       Codec(payload[payloadCodecAt]),
		precision:   Precision(payload[payloadPrecisionAt]),
		defaultTime: time.Unix(0, int64(binary.LittleEndian.Uint64(payload[payloadTimeAt:]))),
		textBytes:   int(binary.LittleEndian.Uint32(payload[payloadTextAt:])),
	}
	databaseBytes := int(binary.LittleEndian.Uint32(payload[payloadDatabaseAt:]))
	body := payload[payloadHeaderBytes:]
	switch {
	case databaseBytes == 0 || databaseBytes > min(DatabaseBytesMax, len(body)):
		return openedPayload{}, fmt.Errorf("%w: database name of %d bytes", ErrPayloadDamaged, databaseBytes)
	case payload[payloadZeroAt] != 0:
		return openedPayload{}, fmt.Errorf("%w: byte %d is %d", ErrPayloadDamaged, payloadZeroAt, payload[payloadZeroAt])
	case o.precision.unit() == 0:
		return openedPayload{}, fmt.Errorf("%w: precision %d", ErrPayloadDamaged, o.precision)
	case o.textBytes > TextBytesMax:
		return openedPayload{}, fmt.Errorf("%w: text of %d bytes", ErrPayloadDamaged, o.textBytes)
	}
	o.database, o.encoded = string(body[:databaseBytes]), body[databaseBytes:]
	return o, nil
}

// payloadReader holds what reading payloads needs, for reuse.
type payloadReader struct {
	parser *Parser
	text   textDecoder
}

var payloadReaders = sync.Pool{New: func() any { return &payloadReader{parser: NewParser(replayLimits())} }}

// read hands every point of the payload to the Appender. All lines were accepted once, so one that is refused is an
// error.
func (r *payloadReader) read(o *openedPayload, to Appender) error {
	text, err := r.text.decode(o)
	if err != nil {
		return err
	}
	result, err := r.parser.Parse(text, o.precision, o.defaultTime, to)
	if err != nil {
		return err
	}
	if result.Refused > 0 {
		return fmt.Errorf("%w: %d lines of database %q that were accepted before are refused now, first %w",
			ErrPayloadDamaged, result.Refused, o.database, &result.Errors[0])
	}
	return nil
}

// DecodePayload turns a payload back into the points that were accepted; newBatch returns the empty batch that takes
// them. No limit of today is applied to what another configuration has let in. The batch does not refer to the
// payload.
func DecodePayload(payload []byte, newBatch func(database string) *shard.Batch) (*shard.Batch, error) {
	opened, err := openPayload(payload)
	if err != nil {
		return nil, err
	}
	reader := payloadReaders.Get().(*payloadReader)
	defer payloadReaders.Put(reader)
	batch := newBatch(opened.database)
	if err := reader.read(&opened, batch); err != nil {
		batch.Release()
		return nil, err
	}
	return batch, nil
}
