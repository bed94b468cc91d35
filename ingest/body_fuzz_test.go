package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// endsInTime fails an execution that does not end: that is a fault like any other.
func endsInTime(what any) (done func()) {
	timer := time.AfterFunc(fuzzTimeMax, func() { panic(fmt.Sprintf("%q does not end", what)) })
	return func() { timer.Stop() }
}

// FuzzBody decompresses any bytes under any encoding, and bodies that are cut: the text is within its limit, refusals
// are the client's, memory is given back, and what was compressed comes back as it was.
func FuzzBody(f *testing.F) {
	text := string(telegrafBody(12))
	f.Add([]byte(text), byte(0), 10)
	f.Add([]byte(gzipped(f, text)), byte(1), 100)
	f.Add([]byte(gzipped(f, "a v=1\n")+gzipped(f, "")+gzipped(f, "b v=1")), byte(1), 30)
	f.Add([]byte(zstded(f, text)+zstded(f, "a v=1")), byte(2), 100)
	f.Add([]byte(zlibbed(f, text)), byte(1), 0)
	f.Add([]byte("\x28\xb5\x2f\xfd\xa4\xff\xff\xff\x7f"), byte(2), 0) // a frame that claims 2 GiB
	f.Fuzz(func(t *testing.T, body []byte, form byte, cut int) {
		defer endsInTime(body)()
		e := encoding(form % 3)
		d := new(decoders)
		decodeAny(t, d, e, body)
		decodeAny(t, d, e, body[:min(max(cut, 0), len(body))])
		checkRoundTrip(t, d, body)
	})
}

const fuzzBodyBytesMax = 64 << 10

// decodeAny decodes what may be nothing, as a whole body and as the beginning of one that is too long.
func decodeAny(t *testing.T, d *decoders, e encoding, wire []byte) {
	b := &budget{limitBytes: 1 << 20}
	for _, tooLong := range []bool{false, true} {
		c := claim{budget: b}
		in := &intake{
			pool: new(bufferPool), claim: &c, maxBytes: fuzzBodyBytesMax, oneLine: isOneLine, tooLong: tooLong, cut: tooLong,
		}
		text, err := d.decodeOrRead(wire, e, in)
		var refused *requestError
		switch {
		case err != nil && (!errors.As(err, &refused) || refused.status != 400 && refused.status != 413):
			t.Fatalf("%v is no refusal", err)
		case err != nil && c.heldBytes != 0:
			t.Fatalf("a refusal holds %d bytes", c.heldBytes)
		case err == nil && (len(text.bytes) > fuzzBodyBytesMax || c.heldBytes != int64(cap(text.bytes))):
			t.Fatalf("%d bytes of text, %d held", len(text.bytes), c.heldBytes)
		}
		c.release()
	}
	if used := b.usedBytes.Load(); used != 0 {
		t.Fatalf("%d bytes were not given back", used)
	}
}

// decodeOrRead is what a write does with a body of the encoding.
func (d *decoders) decodeOrRead(wire []byte, e encoding, in *intake) (*buffer, error) {
	if e == encodingIdentity {
		return in.read(bytes.NewReader(wire), len(wire))
	}
	return d.decode(wire, e, in)
}

// checkRoundTrip compresses a text, in two parts, and decompresses it.
func checkRoundTrip(t *testing.T, d *decoders, text []byte) {
	if len(text) > fuzzBodyBytesMax {
		return
	}
	half := len(text) / 2
	for e, wire := range map[encoding]string{
		encodingIdentity: string(text),
		encodingGzip:     gzipped(t, string(text[:half])) + gzipped(t, string(text[half:])),
		encodingZstd:     string(fuzzZstd.EncodeAll(text[half:], fuzzZstd.EncodeAll(text[:half], nil))),
	} {
		c := claim{budget: &budget{limitBytes: 1 << 20}}
		in := &intake{pool: new(bufferPool), claim: &c, maxBytes: fuzzBodyBytesMax}
		got, err := d.decodeOrRead([]byte(wire), e, in)
		if err != nil || !bytes.Equal(got.bytes, text) {
			t.Fatalf("encoding %d: %v, or another text", e, err)
		}
	}
}

// fuzzZstd compresses for FuzzBody; it has no goroutine while it encodes at once.
var fuzzZstd = func() *zstd.Encoder {
	encoder, err := zstd.NewWriter(io.Discard, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return encoder
}()
