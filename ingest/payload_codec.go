package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// rawTextBytesMax is the length up to which a text is kept as it is: compressing so little saves less than a sector.
const rawTextBytesMax = 1 << 10

// PayloadBytesMax returns the length that a payload of such a database name and text can't exceed.
func PayloadBytesMax(databaseBytes, textBytes int) int {
	return payloadHeaderBytes + databaseBytes + max(textBytes, s2.MaxEncodedLen(textBytes))
}

// appendText appends the text by the codec that suits it. It takes no more room than PayloadBytesMax grants.
func appendText(dst []byte, p *Payload) ([]byte, Codec) {
	if len(p.Text) <= rawTextBytesMax {
		return append(dst, p.Text...), CodecRaw
	}
	if p.isSentShorter() {
		return append(dst, p.Sent...), p.Codec
	}
	encoded := s2.Encode(dst[len(dst):cap(dst)], p.Text)
	if len(encoded) >= len(p.Text) {
		return append(dst, p.Text...), CodecRaw
	}
	return dst[:len(dst)+len(encoded)], CodecS2
}

func (p *Payload) isSentShorter() bool {
	return (p.Codec == CodecGzip || p.Codec == CodecZstd) && len(p.Sent) > 0 && len(p.Sent) < len(p.Text)
}

// textDecoder holds what decoding texts needs, for reuse.
type textDecoder struct {
	buf  []byte
	gzip *gzip.Reader
	zstd *zstd.Decoder
}

// textBytesKept bounds the buffer that a textDecoder holds on to.
const textBytesKept = 4 << 20

// decode returns the text, which is valid until the next call. However long a damaged payload claims to be, it takes
// no more memory than a text may.
func (d *textDecoder) decode(o *openedPayload) ([]byte, error) {
	if cap(d.buf) > textBytesKept {
		d.buf = nil
	}
	text, err := d.decodeAny(o)
	if err != nil {
		return nil, fmt.Errorf("%w: decode %s text of database %q: %w", ErrPayloadDamaged, o.codec, o.database, err)
	}
	if len(text) != o.textBytes {
		return nil, fmt.Errorf("%w: text of database %q has %d bytes instead of %d",
			ErrPayloadDamaged, o.database, len(text), o.textBytes)
	}
	return text, nil
}

func (d *textDecoder) decodeAny(o *openedPayload) (text []byte, err error) {
	switch o.codec {
	case CodecRaw:
		return o.encoded, nil
	case CodecS2:
		text, err = d.decodeS2(o)
	case CodecGzip:
		text, err = d.decodeGzip(o)
	case CodecZstd:
		text, err = d.decodeZstd(o)
	default:
		return nil, fmt.Errorf("codec %d is none", o.codec)
	}
	if err == nil {
		d.buf = text
	}
	return text, err
}

func (d *textDecoder) decodeS2(o *openedPayload) ([]byte, error) {
	length, err := s2.DecodedLen(o.encoded)
	if err != nil {
		return nil, err
	}
	if length != o.textBytes {
		return nil, fmt.Errorf("block of %d bytes", length)
	}
	return s2.Decode(slices.Grow(d.buf[:0], length)[:length], o.encoded)
}

func (d *textDecoder) decodeGzip(o *openedPayload) ([]byte, error) {
	if d.gzip == nil {
		d.gzip = new(gzip.Reader)
	}
	if err := d.gzip.Reset(bytes.NewReader(o.encoded)); err != nil {
		return nil, err
	}
	return d.readAll(d.gzip, o.textBytes)
}

// decodeZstd uses the same kind of decoder as the one that the body went through when it was accepted.
func (d *textDecoder) decodeZstd(o *openedPayload) ([]byte, error) {
	if d.zstd == nil {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		d.zstd = decoder
	}
	if err := d.zstd.Reset(bytes.NewReader(o.encoded)); err != nil {
		return nil, err
	}
	return d.readAll(d.zstd, o.textBytes)
}

// readAll reads a stream to its end, where its checksum is. It makes room for what has come, not for what was claimed.
func (d *textDecoder) readAll(source io.Reader, length int) ([]byte, error) {
	const firstBytes = 64 << 10
	text := d.buf[:0]
	for {
		if len(text) == cap(text) {
			text = slices.Grow(text, max(len(text), firstBytes))
		}
		n, err := source.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case errors.Is(err, io.EOF):
			return text, nil
		case err != nil:
			return nil, err
		case len(text) > length:
			return nil, fmt.Errorf("more than %d bytes", length)
		}
	}
}
