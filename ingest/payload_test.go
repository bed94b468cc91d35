package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"lineweir/shard"
)

func compressGzip(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	half := len(text) / 2
	_, err := w.Write(text[:half])
	err = errors.Join(err, w.Close())
	w.Reset(&b) // a second member
	_, err2 := w.Write(text[half:])
	if err = errors.Join(err, err2, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compressZstd(t testing.TB, text []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	half := len(text) / 2
	return w.EncodeAll(text[half:], w.EncodeAll(text[:half], nil))
}

func gzipPayload(t testing.TB, text []byte) Payload {
	return Payload{
		Database: "db", Precision: PrecisionNanosecond, DefaultTime: testDefaultTime,
		Text: text, Sent: compressGzip(t, text), Codec: CodecGzip,
	}
}

func zstdPayload(t testing.TB, text []byte) Payload {
	return Payload{
		Database: "db", Precision: PrecisionNanosecond, DefaultTime: testDefaultTime,
		Text: text, Sent: compressZstd(t, text), Codec: CodecZstd,
	}
}

func newNamedBatch(string) *shard.Batch { return newUncheckedBatch() }

func mustAppendPayload(t testing.TB, p Payload) []byte {
	t.Helper()
	payload, err := AppendPayload(nil, &p)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// replay decodes a payload and returns its points twice: as a batch counts them, and as a dump shows them.
func replay(t testing.TB, payload []byte) (database string, points int, dump string) {
	t.Helper()
	batch, err := DecodePayload(payload, func(name string) *shard.Batch { database = name; return newUncheckedBatch() })
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := DumpPayload(payload, &b); err != nil {
		t.Fatal(err)
	}
	return database, batch.Points(), b.String()
}

func TestPayloadRoundTrip(t *testing.T) {
	long := telegrafBody(60)
	tests := []struct {
		name   string
		text   []byte
		sent   func(testing.TB, []byte) []byte
		codec  Codec
		want   Codec
		points int
	}{
		{"empty", nil, nil, 0, CodecRaw, 0},
		{"short", []byte("cpu v=1"), nil, 0, CodecRaw, 1},
		{"at the raw maximum", bytes.Repeat([]byte("cpu v=1\n"), rawTextBytesMax/8), nil, 0, CodecRaw, rawTextBytesMax / 8},
		{"above it", bytes.Repeat([]byte("cpu v=1\n"), rawTextBytesMax/8+1), nil, 0, CodecS2, rawTextBytesMax/8 + 1},
		{"long", long, nil, 0, CodecS2, 60},
		{"gzip", long, compressGzip, CodecGzip, CodecGzip, 60},
		{"zstd", long, compressZstd, CodecZstd, CodecZstd, 60},
		{"gzip of a short text", []byte("cpu v=1"), compressGzip, CodecGzip, CodecRaw, 1},
		{"no codec", long, compressGzip, 0, CodecS2, 60},
		{"control bytes", []byte("m\x01,a=\x00\\\nb,c\t=\x1b f\x7f=\"\x01\"\nm v=1"), nil, 0, CodecRaw, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := Payload{
				Database: "db/rp", Precision: PrecisionNanosecond, DefaultTime: testDefaultTime,
				Text: test.text, Codec: test.codec,
			}
			if test.sent != nil {
				p.Sent = test.sent(t, test.text)
			}
			payload := mustAppendPayload(t, p)
			if got := Codec(payload[payloadCodecAt]); got != test.want {
				t.Errorf("got codec %s, want %s", got, test.want)
			}
			if limit := PayloadBytesMax(len(p.Database), len(p.Text)); len(payload) > limit {
				t.Errorf("payload has %d bytes, more than %d", len(payload), limit)
			}
			database, points, dump := replay(t, payload)
			if database != "db/rp" || points != test.points {
				t.Errorf("got database %q with %d points, want %d", database, points, test.points)
			}
			want := strings.Join(append([]string{`# database "db/rp"`}, parseBody(t, string(p.Text)).Lines...), "\n") + "\n"
			if diff := cmp.Diff(want, sortTags(t, dump)); diff != "" {
				t.Errorf("dump (-want +got):\n%s", diff)
			}
		})
	}
}

// sortTags parses a dump again, because it shows tags as the client sent them.
func sortTags(t testing.TB, dump string) string {
	t.Helper()
	comment, lines, _ := strings.Cut(dump, "\n")
	return strings.Join(append([]string{comment}, parseBody(t, lines).Lines...), "\n") + "\n"
}

// TestPayloadOfIncompressibleTextIsRaw takes a string without repetitions, which S2 would only make longer.
func TestPayloadOfIncompressibleTextIsRaw(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	text := []byte("m s=\"")
	for len(text) < 4*rawTextBytesMax {
		if c := byte(' ' + random.IntN(95)); c != '"' && c != '\\' {
			text = append(text, c)
		}
	}
	payload := mustAppendPayload(t, Payload{Database: "db", Precision: PrecisionNanosecond, Text: append(text, '"')})
	if got := Codec(payload[payloadCodecAt]); got != CodecRaw {
		t.Errorf("got codec %s, want raw", got)
	}
	if _, points, _ := replay(t, payload); points != 1 {
		t.Errorf("got %d points, want 1", points)
	}
}

func TestPayloadLimits(t *testing.T) {
	p := Payload{Database: strings.Repeat("d", DatabaseBytesMax), Precision: PrecisionSecond, Text: []byte("m v=1")}
	if database, points, _ := replay(t, mustAppendPayload(t, p)); database != p.Database || points != 1 {
		t.Errorf("got a database of %d bytes with %d points", len(database), points)
	}
	for _, database := range []string{"", strings.Repeat("d", DatabaseBytesMax+1)} {
		p.Database = database
		if got, err := AppendPayload([]byte("x"), &p); !errors.Is(err, ErrPayloadDatabase) || string(got) != "x" {
			t.Errorf("database of %d bytes: got %v", len(database), err)
		}
	}
	p.Database, p.Text = "db", make([]byte, TextBytesMax+1)
	if _, err := AppendPayload(nil, &p); !errors.Is(err, ErrTextTooLarge) {
		t.Errorf("got %v, want ErrTextTooLarge", err)
	}
}

func TestReplayAppliesNoLimitOfToday(t *testing.T) {
	var line strings.Builder
	line.WriteString("m")
	for i := range 300 {
		fmt.Fprintf(&line, ",t%d=1", i)
	}
	line.WriteString(" f0=1")
	for i := range 2000 {
		fmt.Fprintf(&line, ",f%d=%d", i%500, i)
	}
	if _, result := parseWith(t, DefaultLineLimits(), PrecisionNanosecond, line.String()); result.Refused != 1 {
		t.Fatal("the line is within the limits of today")
	}
	payload := mustAppendPayload(t, Payload{Database: "db", Precision: PrecisionNanosecond, Text: []byte(line.String())})
	if _, points, _ := replay(t, payload); points != 1 {
		t.Errorf("got %d points", points)
	}
}

func TestReplayRefusesWhatWasNeverAccepted(t *testing.T) {
	payload := mustAppendPayload(t, Payload{Database: "db", Precision: PrecisionNanosecond, Text: []byte("m v=1\nbad\n")})
	_, err := DecodePayload(payload, newNamedBatch)
	if !errors.Is(err, ErrPayloadDamaged) || !strings.Contains(err.Error(), "line 2: missing fields") {
		t.Errorf("got %v", err)
	}
	if err := DumpPayload(payload, io.Discard); !errors.Is(err, ErrPayloadDamaged) {
		t.Errorf("dump: got %v", err)
	}
}

func TestDamagedPayloadIsAnError(t *testing.T) {
	text := telegrafBody(60)
	good := map[string][]byte{
		"raw":  mustAppendPayload(t, Payload{Database: "db", Precision: 1, Text: text[:bytes.IndexByte(text, '\n')]}),
		"s2":   mustAppendPayload(t, Payload{Database: "db", Precision: 1, Text: text}),
		"gzip": mustAppendPayload(t, gzipPayload(t, text)),
		"zstd": mustAppendPayload(t, zstdPayload(t, text)),
	}
	put := func(at int, value uint32) func([]byte) []byte {
		return func(p []byte) []byte { binary.LittleEndian.PutUint32(p[at:], value); return p }
	}
	set := func(at int, value byte) func([]byte) []byte {
		return func(p []byte) []byte { p[at] = value; return p }
	}
	damages := map[string]func([]byte) []byte{
		"empty":               func([]byte) []byte { return nil },
		"header cut":          func(p []byte) []byte { return p[:payloadHeaderBytes-1] },
		"database cut":        func(p []byte) []byte { return p[:payloadHeaderBytes+1] },
		"text missing":        func(p []byte) []byte { return p[:payloadHeaderBytes+2] },
		"text cut":            func(p []byte) []byte { return p[:len(p)-1] },
		"text longer":         func(p []byte) []byte { return append(p, 'x') },
		"codec 0":             set(payloadCodecAt, 0),
		"codec 5":             set(payloadCodecAt, 5),
		"precision 0":         set(payloadPrecisionAt, 0),
		"precision 8":         set(payloadPrecisionAt, 8),
		"zero byte":           set(payloadZeroAt, 1),
		"no database":         put(payloadDatabaseAt, 0),
		"huge database":       put(payloadDatabaseAt, 1<<32-1),
		"no text":             put(payloadTextAt, 0),
		"text shorter":        put(payloadTextAt, 10),
		"text of another len": put(payloadTextAt, 1<<20),
		"huge text":           put(payloadTextAt, 1<<32-1),
		"text above maximum":  put(payloadTextAt, TextBytesMax+1),
		"text at maximum":     put(payloadTextAt, TextBytesMax),
	}
	for codec, payload := range good {
		if _, points, _ := replay(t, payload); points == 0 {
			t.Errorf("%s: no points", codec)
		}
		for damage, apply := range damages {
			damaged := apply(bytes.Clone(payload))
			if _, err := DecodePayload(damaged, newNamedBatch); !errors.Is(err, ErrPayloadDamaged) {
				t.Errorf("%s, %s: got %v", codec, damage, err)
			}
		}
		later := set(payloadVersionAt, payloadVersion+1)(bytes.Clone(payload))
		if _, err := DecodePayload(later, nil); !errors.Is(err, ErrPayloadVersion) {
			t.Errorf("%s, later version: got %v", codec, err)
		}
	}
}

// TestPayloadLayout pins the bytes that FORMAT.md describes.
func TestPayloadLayout(t *testing.T) {
	got := mustAppendPayload(t, Payload{
		Database: "db", Precision: PrecisionSecond, DefaultTime: time.Unix(0, 0x0102030405060708), Text: []byte("m v=1"),
	})
	want := "\x01\x01\x04\x00\x02\x00\x00\x00\x05\x00\x00\x00\x08\x07\x06\x05\x04\x03\x02\x01dbm v=1"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, _, dump := replay(t, got); dump != "# database \"db\"\nm v=1 72623859000000000\n" {
		t.Errorf("got dump %q", dump)
	}
}

func TestDumpReportsTheErrorOfItsWriter(t *testing.T) {
	payload := mustAppendPayload(t, Payload{Database: "db", Precision: PrecisionNanosecond, Text: tsbsBody(1000)})
	want := errors.New("disk full")
	reader, writer := io.Pipe()
	reader.CloseWithError(want)
	if err := DumpPayload(payload, writer); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// FuzzDecodePayload looks for payloads that break more than themselves.
func FuzzDecodePayload(f *testing.F) {
	text := telegrafBody(12)
	f.Add(mustAppendPayload(f, Payload{Database: "db", Precision: PrecisionAuto, Text: []byte("m v=1 1")}))
	f.Add(mustAppendPayload(f, Payload{Database: "db", Precision: PrecisionHour, Text: text}))
	f.Add(mustAppendPayload(f, gzipPayload(f, text)))
	f.Add(mustAppendPayload(f, zstdPayload(f, text)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		defer endsInTime(payload)()
		batch, err := DecodePayload(payload, newNamedBatch)
		if err != nil {
			if !errors.Is(err, ErrPayloadDamaged) && !errors.Is(err, ErrPayloadVersion) {
				t.Fatal(err)
			}
			return
		}
		var dump bytes.Buffer
		if err := DumpPayload(payload, &dump); err != nil {
			t.Fatal(err)
		}
		again := mustAppendPayload(t, Payload{Database: "db", Precision: PrecisionNanosecond, Text: dump.Bytes()})
		if _, points, _ := replay(t, again); points != batch.Points() {
			t.Fatalf("dump has %d points, payload %d", points, batch.Points())
		}
	})
}
