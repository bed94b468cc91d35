package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/influxdata/influxql"

	"lineweir/shard"
)

// controlled puts control bytes in the place of letters in the names of points.
type controlled struct {
	letters *strings.Replacer
	points  []string // as lines
}

func (c *controlled) Append(p *shard.Point) error {
	change := func(name []byte) []byte { return []byte(c.letters.Replace(string(name))) }
	changed := shard.Point{Measurement: change(p.Measurement), Time: p.Time}
	for _, tag := range p.Tags {
		changed.Tags = append(changed.Tags, shard.Tag{Key: change(tag.Key), Value: change(tag.Value)})
	}
	for _, field := range p.Fields {
		field.Key = change(field.Key)
		changed.Fields = append(changed.Fields, field)
	}
	c.points = append(c.points, string(appendPoint(nil, &changed)))
	return nil
}

// TestControlBytesAreReadLikeLetters reads lines whose names got control bytes in the place of letters: they must be
// what the lines with letters are, byte by byte. So nothing depends on where in a line a control byte stands.
func TestControlBytesAreReadLikeLetters(t *testing.T) {
	const bodies = 10_000
	letters := strings.NewReplacer("m", "\x01", "a", "\x7f", "b", "\r", "c", "\x1b", "é", "\ufdd0")
	random := rand.New(rand.NewPCG(7, 8))
	read := 0
	for range bodies {
		written := controlled{letters: letters}
		body := appendRandomLine(appendRandomLine(nil, random), random)
		if _, err := NewParser(DefaultLineLimits()).Parse(body, PrecisionNanosecond, testDefaultTime, &written); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(written.points, "")
		again := controlled{letters: strings.NewReplacer()}
		result, err := NewParser(DefaultLineLimits()).Parse([]byte(text), PrecisionNanosecond, testDefaultTime, &again)
		if err != nil || result.Refused > 0 {
			t.Fatalf("%q of %q: %v, %v", text, body, err, result.Errors)
		}
		if diff := cmp.Diff(written.points, again.points); diff != "" {
			t.Fatalf("%q (-written +read):\n%s", text, diff)
		}
		read += len(again.points)
	}
	if read < bodies/4 {
		t.Errorf("read %d points, too few to show anything", read)
	}
}

func TestShieldsAreUndone(t *testing.T) {
	every := make([]byte, 0, 64)
	for c := byte(0); c < ' '; c++ {
		every = append(every, c, 'x')
	}
	for _, name := range []string{
		string(every), "\x7f", shieldMark, shieldMark + shieldMark, shieldMark + "00", "\x00" + shieldMark + "7f\x01", "\ufdd1", "\ufdcf\x00",
	} {
		line := "m,a=" + strings.ReplaceAll(name, "\n", "\\\n") + " v=1"
		var s shield
		s.cover([]byte(line), &lineSpan{end: len(line)})
		if bytes.ContainsFunc(s.text, isControl) {
			t.Errorf("%q: got %q, which holds control bytes", line, s.text)
		}
		if got := string(unshield(bytes.Clone(s.text))); s.count > 0 && got != line {
			t.Errorf("got %q, want %q", got, line)
		}
	}
}

// TestReasonsQuoteTheBytes checks what is told of names, and that it is not mistaken.
func TestReasonsQuoteTheBytes(t *testing.T) {
	tests := []struct{ line, want string }{
		{"m,\x01a\ufdd0b\n v=1", `missing fields`},
		{"m,\x01a\ufdd0b v=1", `expected '=' after tag key "\x01a\ufdd0b", but got ' ' instead`},
		{"m \x01a\\ufdd001=", `expected field value, found end of input`},
		{"m \x01a\\ufdd001", `want '=' after field key "\x01a\\ufdd001", found end of input`},
		{"m \x01\\\n\x7f=1x", `field "\x01\\\n\x7f": float "1x" is invalid`},
		{"m a\x01=1,b=1 10\ufdd00", `invalid timestamp ("10\ufdd00")`},
		{"m a\x01=1 x\ufdd0zz", `invalid timestamp ("x\ufdd0zz")`},
	}
	for _, test := range tests {
		errors := parseBody(t, test.line).Errors
		if len(errors) == 0 || errors[0].Reason != test.want {
			t.Errorf("%q: got %v, want %q", test.line, errors, test.want)
		}
	}
}

// controlSeries differ in control bytes alone, among them those that structure a series key.
var controlSeries = []map[string]string{
	{"a": "b", "c": "d"}, {"a": "b\x00c\x01d"}, {"a": "b\x00"}, {"a": "b\x01"}, {"a": "b\x02"}, {"a": "b\x02\x03"}, {"a": "b\x03"},
	{"a\x00": "b"}, {"a\x01": "b"}, {"a\x01b": "\x00"}, {"a\x02": "b"}, {"a": "\t\r\x1b[31m\x7f"}, {"a": "b\\\nc"}, {"a\\\n": "\\\n"},
}

// TestControlBytesInNamesAreKept writes names with control bytes and reads them back wherever they are shown: from
// memory, after a replay, from files, and from compacted files.
func TestControlBytesInNamesAreKept(t *testing.T) {
	const measurement, field = "m\x01\x7f\\\n\x1b", "f\x00\\\n\r"
	h, dir := newPausedHandler(t)
	var lines strings.Builder
	values := map[string][]string{} // by tag
	var series []string
	for i, tags := range controlSeries {
		var names []byte
		names = appendEscaped(names, []byte(measurement), false)
		for _, key := range []string{"a", "a\x00", "a\x01", "a\x01b", "a\x02", "a\\\n", "c"} {
			if value, ok := tags[key]; ok {
				names = append(append(append(append(names, ','), key...), '='), value...)
				values[key] = append(values[key], value)
			}
		}
		series = append(series, string(names))
		fmt.Fprintf(&lines, "%s %s=%di %d\n", names, field, i, i)
	}
	check := func(when string, h *Handler) {
		t.Helper()
		if diff := cmp.Diff(canonicalText(t, lines.String()), canonicalText(t, scanned(t, h, "d", measurement))); diff != "" {
			t.Errorf("%s: scan (-want +got):\n%s", when, diff)
		}
		checkShown(t, when+": SHOW SERIES", h, "SHOW SERIES", series)
		from := " FROM " + influxql.QuoteIdent(measurement)
		checkShown(t, when+": SHOW FIELD KEYS", h, "SHOW FIELD KEYS"+from, []string{field})
		for key, want := range values {
			if strings.Contains(key, "\x00") {
				continue // the parser of InfluxQL ends at NUL
			}
			checkShown(t, when+": values of "+key, h,
				"SHOW TAG VALUES"+from+" WITH KEY = "+influxql.QuoteIdent(key), want)
		}
		for _, value := range []string{"b\x01", "b\x02\x03", "b\\\nc"} {
			checkShown(t, when+": WHERE", h, "SHOW TAG VALUES"+from+" WITH KEY = a WHERE a = "+influxql.QuoteString(value),
				[]string{value})
		}
	}
	write(t, h, "d", lines.String())
	check("memory", h)
	check("replay", crashed(t, dir))
	for range 4 { // compaction begins with four
		sealNow(t, h)
		check("file", h)
		check("file after a start", crashed(t, dir))
		write(t, h, "d", lines.String())
	}
	sealNow(t, h)
	if answer := do(t, h, http.MethodPut, "/api/compaction", strings.NewReader(`{"paused":false}`)); answer.Code != 200 {
		t.Fatalf("got %d %s", answer.Code, answer.Body)
	}
	for deadline := time.Now().Add(2 * time.Minute); h.engine.Status().Tier.Segments > 0; {
		if time.Now().After(deadline) {
			t.Fatal("level 0 is not compacted")
		}
		time.Sleep(10 * time.Millisecond)
	}
	check("compacted", h)
	answer := do(t, h, http.MethodGet, "/metrics", nil)
	if text := strings.ReplaceAll(answer.Body.String(), "\n", ""); strings.ContainsFunc(text, isControl) {
		t.Error("metrics hold control bytes")
	}
}

// canonicalText brings lines of one measurement and their tags in order.
func canonicalText(t *testing.T, lines string) string {
	t.Helper()
	all := map[string]map[string]string{}
	gather(t, all, []byte(lines))
	return strings.Join(canonical(all), "\n")
}

// checkShown checks what a statement lists, and that the answer holds no control bytes.
func checkShown(t *testing.T, what string, h *Handler, q string, want []string) {
	t.Helper()
	answer := post(t, h, "/query", url.Values{"q": {q}, "db": {"d"}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if text := strings.TrimSuffix(answer.Body.String(), "\n"); strings.ContainsFunc(text, isControl) {
		t.Errorf("%s: the answer holds control bytes: %q", what, text)
	}
	var body struct {
		Results []struct {
			Series []struct {
				Columns []string
				Values  [][]any
			}
		}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || len(body.Results) != 1 {
		t.Fatalf("%s: got %d %s, %v", what, answer.Code, answer.Body, err)
	}
	got := map[string]bool{}
	for _, table := range body.Results[0].Series {
		column := len(table.Columns) - 1
		if table.Columns[0] == "fieldKey" {
			column = 0
		}
		for _, row := range table.Values {
			got[fmt.Sprint(row[column])] = true
		}
	}
	wanted := map[string]bool{}
	for _, text := range want {
		wanted[text] = true
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
