package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// encoding is how a body is compressed.
type encoding uint8

const (
	encodingIdentity encoding = iota
	encodingGzip
	encodingZstd
)

// zstdWindowBytesMax bounds the memory that a zstd frame may ask for. RFC 8878 recommends to support 8 MiB.
const zstdWindowBytesMax = 8 << 20

// parseEncoding reads Content-Encoding. Several encodings on top of each other are none that a client sends.
func parseEncoding(header http.Header) (encoding, error) {
	value := strings.Join(header.Values("Content-Encoding"), ", ")
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "identity":
		return encodingIdentity, nil
	case "gzip", "x-gzip":
		return encodingGzip, nil
	case "zstd":
		return encodingZstd, nil
	default:
		return 0, badRequest("Content-Encoding %s is unknown; use gzip, zstd or identity", quote(value))
	}
}

// decoders keeps decompressors between requests.
type decoders struct{ gzip, zstd sync.Pool }

// decode decompresses a body. An empty one is empty whatever its encoding: Telegraf sends such when it splits a batch.
func (d *decoders) decode(wire []byte, e encoding, in *intake) (*buffer, error) {
	source := bytes.NewReader(wire)
	switch {
	case len(wire) == 0:
		return in.read(source, 0)
	case e == encodingGzip:
		return d.gunzip(source, gzipSize(wire), in)
	default:
		return d.unzstd(source, 4*len(wire), in)
	}
}

// gzipSize returns the length of the text as the last member states it: right for bodies of one member, and a hint.
func gzipSize(wire []byte) int {
	const trailer = 4
	if len(wire) < trailer {
		return -1
	}
	return int(binary.LittleEndian.Uint32(wire[len(wire)-trailer:]))
}

func (d *decoders) gunzip(source io.Reader, hintBytes int, in *intake) (*buffer, error) {
	reader, ok := d.gzip.Get().(*gzip.Reader)
	if !ok {
		reader = new(gzip.Reader)
	}
	defer d.gzip.Put(reader)
	if err := reader.Reset(source); err != nil {
		return nil, encodingError("gzip", err)
	}
	text, err := in.read(reader, hintBytes)
	return text, encodingError("gzip", err)
}

func (d *decoders) unzstd(source io.Reader, hintBytes int, in *intake) (*buffer, error) {
	reader, ok := d.zstd.Get().(*zstd.Decoder)
	if !ok {
		var err error
		// One decoder is one goroutine: the request's own.
		if reader, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowBytesMax)); err != nil {
			return nil, fmt.Errorf("make a zstd decoder: %w", err)
		}
	}
	defer d.zstd.Put(reader)
	if err := reader.Reset(source); err != nil {
		return nil, encodingError("zstd", err)
	}
	text, err := in.read(reader, hintBytes)
	return text, encodingError("zstd", err)
}

// encodingError blames the client for a body that can't be decompressed. Limits of ours stay what they are.
func encodingError(name string, err error) error {
	var refused *requestError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused), isBackpressure(err):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return badRequest("the %s body ends early; nothing of it is stored", name)
	default:
		return badRequest("the body is not valid %s: %v", name, err)
	}
}
