package ingest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/segment"
	"lineweir/shard"
)

// fuzzTimeMax bounds one execution: a parser that does not end is a fault like any other.
const fuzzTimeMax = 20 * time.Second

// FuzzParse looks for bodies that break what Parse promises.
func FuzzParse(f *testing.F) {
	for _, row := range readTable(f) {
		if len(row.input) < 1<<10 {
			f.Add([]byte(row.input), byte(PrecisionNanosecond))
		}
	}
	for _, body := range benchmarkBodies {
		f.Add(body.make(6), byte(PrecisionAuto))
	}
	f.Add([]byte("a\\"), byte(PrecisionSecond)) // Telegraf's stream parser never returns from this
	f.Add([]byte("m a\\\\=b=1,c\"d=2\nm x=\"y\" 9\n"), byte(PrecisionHour))
	f.Add([]byte("m\x01,a\\\n=b\x7f c\x00=\"\x00\\\n\",d\r=1 9\nm v=1\x00\n"), byte(PrecisionSecond))
	f.Add([]byte("m,a=\ufdd0\x1f\ufdd01f\\\\\\\n,b=\\,\x01\\ \n v=t\\\n\nm a\\\t=1"), byte(PrecisionSecond))
	f.Fuzz(func(t *testing.T, body []byte, unit byte) {
		precision := PrecisionNanosecond + Precision(unit)%PrecisionAuto
		defer endsInTime(body)()
		checkParse(t, body, precision)
	})
}

func checkParse(t *testing.T, body []byte, precision Precision) {
	parser := NewParser(DefaultLineLimits())
	parse := func(text []byte, precision Precision, batch *shard.Batch) ([]string, Result) {
		r := pointRecorder{batch: batch}
		result, err := parser.Parse(text, precision, testDefaultTime, &r)
		if err != nil {
			t.Fatal(err)
		}
		return r.lines, result
	}
	original := bytes.Clone(body)
	want, result := parse(body, precision, newUncheckedBatch())
	if !bytes.Equal(body, original) {
		t.Fatal("Parse changed the body")
	}
	check := func(how string, got []string, refused int) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || refused > 0 {
			t.Fatalf("%s: %d refused, points (-want +got):\n%s", how, refused, diff)
		}
	}

	accepted, again := parse(result.AppendAccepted(nil, body), precision, newUncheckedBatch())
	check("accepted text", accepted, again.Refused)

	var dump []byte
	for _, line := range want {
		dump = append(append(dump, line...), '\n')
	}
	dumped, again := parse(dump, PrecisionNanosecond, newUncheckedBatch())
	check("dump", dumped, again.Refused)

	whole, result := parse(body, precision, nil)
	var single []string
	refused := 0
	for _, line := range splitLines(body) {
		lines, result := parse(line, precision, nil)
		if result.Points+result.Refused != 1 {
			t.Fatalf("line %q: %d points, %d refused", line, result.Points, result.Refused)
		}
		single, refused = append(single, lines...), refused+result.Refused
	}
	want = whole
	check("line by line", single, refused-result.Refused)
}

// splitLines returns the lines of a body that may hold points, each for itself.
func splitLines(body []byte) [][]byte {
	var lines [][]byte
	var scanner lineScanner
	scanner.reset(body)
	for scanner.scan() {
		lines = append(lines, slices.Clip(body[scanner.line.begin:scanner.line.end]))
	}
	return lines
}

// FuzzSeriesKey checks that no two series share a key: the key of each accepted point tells its measurement and tags.
func FuzzSeriesKey(f *testing.F) {
	f.Add([]byte("m,a=b\\,c\\=d v=1\nm,a=b,c=d v=1\nm\\,a=b v=1\nm,a=b v=1"))
	f.Add([]byte("m,a\\ =b,c=\\ d v=1\nm,a=\\=b v=1\n"))
	f.Add([]byte("m,a=b\x00c\x01d v=1\nm,a=b,c=d v=1\nm,a\x01b=\x00 v=1\nm,\x02=\x02\x03\\\n v=1"))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer endsInTime(body)()
		_, err := NewParser(DefaultLineLimits()).Parse(body, PrecisionNanosecond, testDefaultTime, keyChecker{t})
		if err != nil {
			t.Fatal(err)
		}
	})
}

type keyChecker struct{ t *testing.T }

func (c keyChecker) Append(p *shard.Point) error {
	if bytes.IndexByte(p.Measurement, 0) >= 0 {
		c.t.Fatalf("measurement %q holds what ends it in a key", p.Measurement)
	}
	want := make([]segment.Tag, 0, len(p.Tags))
	for _, tag := range p.Tags {
		want = append(want, segment.Tag(tag))
		if !p.Control && (bytes.ContainsFunc(tag.Key, isControl) || bytes.ContainsFunc(tag.Value, isControl)) {
			c.t.Fatalf("tag %q=%q holds control bytes, and the point does not tell", tag.Key, tag.Value)
		}
	}
	slices.SortFunc(want, func(a, b segment.Tag) int { return bytes.Compare(a.Key, b.Key) })
	for i := 1; i < len(want); i++ {
		if bytes.Equal(want[i-1].Key, want[i].Key) {
			return &shard.PointError{Reason: "duplicate tag"}
		}
	}
	got, err := segment.ParseKey(segment.AppendKey(nil, want))
	if err != nil {
		c.t.Fatal(err)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		c.t.Fatalf("got tags %q, want %q", got, want)
	}
	return nil
}

// TestParseRandomLines checks bodies of good and nearly good lines, which random bytes seldom make.
func TestParseRandomLines(t *testing.T) {
	const bodies, linesMax = 10_000, 5
	random := rand.New(rand.NewPCG(5, 6))
	for range bodies {
		var body []byte
		for range 1 + random.IntN(linesMax) {
			body = appendRandomLine(body, random)
		}
		checkParse(t, body, PrecisionNanosecond)
	}
}

var (
	randomNames = []string{
		"m", "a", "b", "c", "time", "a\\,b", "a\\ b", "a\\=b", "a\\\\=b", "a\\\\\\=b", "\"", "a\"b", "a\\\"b", "\\a",
		"a\\", "é", "\\\n", "\x00", "a\x01b", "\x7f\\\n\r", "\\\t\\\x00", "\ufdd0\x02", "\ufdd0",
	}
	randomValues = []string{
		"1", "-1.5", "1i", "1u", "t", "1=", "x", "1\"", "\"\"", "\"x\"", "\"\\\"\"", "\"\\\\\"", "\"\\\\\\\"", "\"\n\"",
		"\"a\nm v=1 1\n\"", "\"a\\\nm v=1\n\"", "\"a\"b\"", "\"=,\"", "\"\\n\"", "\"", "\"\xff\n\"",
	}
	randomTokens = []string{
		"\\", "\"", ",", "=", " ", "\n", "\r", "\t", "#", "\x00", "\x1b", "\\\n", " v=1", "=\"", "\xff", "m,a=b v=1,", "\nm s=\"", "\" 9\n",
	}
)

func appendRandomLine(body []byte, random *rand.Rand) []byte {
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	start := len(body)
	body = append(body, pick(randomNames)...)
	for range random.IntN(3) {
		body = fmt.Appendf(body, ",%s=%s", pick(randomNames), pick(randomNames))
	}
	separator := byte(' ')
	for range 1 + random.IntN(4) {
		body = fmt.Appendf(body, "%c%s=%s", separator, pick(randomNames), pick(randomValues))
		separator = ','
	}
	if random.IntN(2) == 0 {
		body = append(body, " 7"...)
	}
	if random.IntN(3) == 0 {
		body = slices.Insert(body, start+random.IntN(len(body)-start), []byte(pick(randomTokens))...)
	}
	return append(body, '\n')
}
