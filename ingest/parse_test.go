package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"lineweir/shard"
)

func TestParseNumbersPhysicalLines(t *testing.T) {
	body := "# comment\n" + // 1
		"cpu v=1 1\n" + // 2
		"\n" + // 3
		"bad\r\n" + // 4
		"cpu s=\"two\nlines\" 2\n" + // 5
		"  bad, v=1\n" + // 7
		"bad s=\"three\n\nlines\"x\n" + // 8
		"#\todd comment\n" + // 11
		"\tbad v=x\n" + // 12
		"cpu v=3 3\n" + // 13
		"bad\\\nstill bad\n" + // 14
		"bad\n" + // 16
		"cpu,p=a\\\nb v=4 4\n" + // 17
		"cpu,p\x01=\\\n\\\n s=\"\n\" 5\n" + // 19
		"bad\x01\\\n v=x\n" + // 23
		"bad" // 25
	got := parseBody(t, body)
	wantLines := []string{
		"cpu v=1 1", "cpu s=\"two\nlines\" 2", "cpu v=3 3", "cpu,p=a\\\nb v=4 4", "cpu,p\x01=\\\n\\\n s=\"\n\" 5",
	}
	if diff := cmp.Diff(wantLines, got.Lines); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	var numbers []int
	for _, e := range got.Errors {
		numbers = append(numbers, e.Line)
	}
	if want := []int{4, 7, 8, 12, 14, 16, 23, 25}; !slices.Equal(numbers, want) {
		t.Errorf("got errors in lines %v, want %v", numbers, want)
	}
}

func TestParseCountsAllErrorsAndDescribesTheFirst(t *testing.T) {
	var body strings.Builder
	for range 3 * LineErrorsMax {
		body.WriteString("bad\nbad v=1 99999999999999999999\ngood v=1\nbad,time=1 v=1\n")
	}
	got, result := parseWith(t, DefaultLineLimits(), PrecisionNanosecond, body.String())
	if len(got.Errors) != LineErrorsMax || result.Refused != 9*LineErrorsMax || result.Points != 3*LineErrorsMax {
		t.Errorf("got %d errors, %d refused, %d points", len(got.Errors), result.Refused, result.Points)
	}
	faults := [faultKinds]int{
		FaultSyntax: 3 * LineErrorsMax, FaultTime: 3 * LineErrorsMax, FaultReserved: 3 * LineErrorsMax,
	}
	if result.Faults != faults {
		t.Errorf("got faults %v, want %v", result.Faults, faults)
	}
}

func TestParseErrorsAreBoundedAndPrintable(t *testing.T) {
	bodies := []string{
		"\x00\x1b[31m\r\xff" + strings.Repeat("\n", 3),
		strings.Repeat("\x01", 1<<20),
		"cpu," + strings.Repeat("é\u2028", 30_000) + "=1 v=",
		"cpu v=" + strings.Repeat("9", 1<<16) + "x",
		"cpu " + strings.Repeat("k", 60_000) + "=\"" + strings.Repeat("\x7f", 1<<20) + "x\"",
		"cpu v=1 1" + strings.Repeat("\t", 1<<20),
		"cpu,\x01" + strings.Repeat("\x1b", 1<<15) + "=1 v=x",
		"cpu,a=" + strings.Repeat("\ufdd0\x02\\\n", 1<<13) + ",",
		"cpu a\x00b=1i,c\x7f=\"\"x",
		"cpu,a\x01=b,c\x01\xff=d v=1",
		"cpu,a\x01=1,a\x01=2 v=1",
		"cpu,a\x01=1 a\x01=2",
	}
	for _, body := range bodies {
		for _, e := range parseBody(t, body).Errors {
			if len(e.Reason) > reasonBytesMax+len("…") || len(e.Text) > lineExcerptBytes+len("…") {
				t.Errorf("%.20q: reason of %d bytes, text of %d", body, len(e.Reason), len(e.Text))
			}
			if i := strings.IndexFunc(e.Error()+e.Text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%.20q: %q with %q is not printable", body, e.Reason, e.Text)
			}
		}
	}
}

func TestAcceptedTextParsesToTheSamePoints(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"nothing refused", "\tcpu v=1 1\n# c\ncpu v=2 2", "\tcpu v=1 1\n# c\ncpu v=2 2"},
		{"all refused", "bad\nbad", ""},
		{"first", "bad\ncpu v=1 1\n", "cpu v=1 1\n"},
		{"last", "cpu v=1 1\n  bad", "cpu v=1 1\n"},
		{"middle", "cpu v=1 1\n\tbad s=\"\n\"x\n# c\ncpu v=2 2\n", "cpu v=1 1\n# c\ncpu v=2 2\n"},
		{"runs", "bad\nbad\na v=1\nb v=1\nbad\nbad\nc v=1\nbad\n", "a v=1\nb v=1\nc v=1\n"},
		{"comments alone", "bad\n# c\n\nbad\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := []byte(test.body)
			before := pointRecorder{batch: newUncheckedBatch()}
			result, err := NewParser(DefaultLineLimits()).Parse(body, PrecisionNanosecond, testDefaultTime, &before)
			if err != nil {
				t.Fatal(err)
			}
			text := result.AppendAccepted([]byte("x"), body)[1:]
			if string(text) != test.want {
				t.Errorf("got accepted text %q, want %q", text, test.want)
			}
			after := parseBody(t, string(text))
			if diff := cmp.Diff(before.lines, after.Lines); diff != "" || len(after.Errors) > 0 {
				t.Errorf("errors %v, points (-before +after):\n%s", after.Errors, diff)
			}
		})
	}
}

func TestParseLimits(t *testing.T) {
	repeat := strings.Repeat
	limits := LineLimits{
		LinesMax: 10, PointsMax: 10, LineBytesMax: 4 << 20, TagsMax: 3, FieldsMax: 4,
		SeriesKeyBytesMax: seriesKeyBytesLimit, StringBytesMax: stringBytesLimit,
	}
	text := func(content string) string { return "cpu s=\"" + content + "\"" }
	line := func(bytes int) string { return text(repeat("x", bytes-len(text("")))) }
	wide := limits
	wide.LineBytesMax, wide.StringBytesMax = 300, 300
	tests := []struct {
		name         string
		limits       LineLimits
		atMax, above string
		fault        Fault
		reason       string
	}{
		{"line", wide, line(300), line(301), FaultLineBytes, "line is longer than 300 bytes"},
		{"line with white space", wide, "  " + line(298), "  " + line(299), FaultLineBytes, "line is longer"},
		{"line over several lines", wide, text(repeat("\n", 292)), text(repeat("\n", 293)), FaultLineBytes, "line is longer"},
		{"tags", limits, "cpu,a=1,b=2,c=3 v=1", "cpu,a=1,b=2,c=3,d=4 v=1", FaultTags, "line has more than 3 tags"},
		{"fields", limits, "cpu a=1,b=2,c=3,c=4", "cpu a=1,b=2,c=3,c=4,c=5", FaultFields, "line has more than 4 fields"},
		{"string", limits, text(repeat("x", stringBytesLimit)), text(repeat("x", stringBytesLimit+1)),
			FaultStringBytes, "string is longer than 1048576 bytes"},
		{"escaped string", limits, text(repeat("\\\\", stringBytesLimit)), text(repeat("\\\\", stringBytesLimit) + "x"),
			FaultStringBytes, "string is longer than 1048576 bytes"},
		// 3 for cpu, 1 + 1 around the key and value, 1 for k, 4 + 2 for the field, leaves 65,523 for the value.
		{"series key", limits, "cpu,k=" + repeat("x", 65_523) + " vv=1", "cpu,k=" + repeat("x", 65_524) + " vv=1",
			FaultKeyBytes, "max key length"},
		// In these the reason must count bytes, not what stands for them.
		{"series key of control bytes", limits, "cpu,k=" + repeat("\x01", 65_523) + " vv=1",
			"cpu,k=" + repeat("\x01", 65_524) + " vv=1", FaultKeyBytes, "max key length"},
		{"field key of control bytes", limits, "cpu " + repeat("\x7f", 65_528) + "=1", "cpu " + repeat("\x7f", 65_529) + "=1",
			FaultKeyBytes, "max key length"},
		{"tags with control bytes", limits, "cpu,a\x01=1,b=\\\n,c=3 v=1", "cpu,a\x01=1,b=\\\n,c=3,d=4 v=1", FaultTags,
			"line has more than 3 tags"},
		{"joined line", wide, "a\\\n\x01" + repeat("x", 292) + " v=1", "a\\\n\x01" + repeat("x", 293) + " v=1", FaultLineBytes,
			"line is longer than 300 bytes"},
		{"control bytes in field keys", limits, "cpu " + repeat("\x01", 65_500) + "=1," + repeat("\x01", 35) + "=1",
			"cpu " + repeat("\x01", 65_500) + "=1," + repeat("\x01", 36) + "=1", FaultSyntax, "invalid character"},
		{"field key", limits, "cpu " + repeat("x", 65_528) + "=1", "cpu " + repeat("x", 65_529) + "=1", FaultKeyBytes,
			"max key length"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			around := "ok v=1 1\n%s\nok v=2 2\n"
			atMax, _ := parseWith(t, test.limits, PrecisionNanosecond, fmt.Sprintf(around, test.atMax))
			if len(atMax.Lines) != 3 || len(atMax.Errors) != 0 {
				t.Errorf("at the limit: %d points, errors %v", len(atMax.Lines), atMax.Errors)
			}
			above, result := parseWith(t, test.limits, PrecisionNanosecond, fmt.Sprintf(around, test.above))
			if len(above.Lines) != 2 || len(above.Errors) != 1 || result.Faults[test.fault] != 1 {
				t.Fatalf("above: %d points, errors %v", len(above.Lines), above.Errors)
			}
			if !strings.Contains(above.Errors[0].Reason, test.reason) {
				t.Errorf("got reason %q, want %q", above.Errors[0].Reason, test.reason)
			}
		})
	}
}

func TestParseRefusesTextThatOffsetsCannotReach(t *testing.T) {
	body := bytes.Repeat([]byte{'x'}, TextBytesMax+1) // one line, which is refused for its length
	parser := NewParser(DefaultLineLimits())
	if _, err := parser.Parse(body[:TextBytesMax], PrecisionNanosecond, testDefaultTime, discardPoints{}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	_, err := parser.Parse(body, PrecisionNanosecond, testDefaultTime, discardPoints{})
	if !errors.Is(err, ErrTextTooLarge) {
		t.Errorf("got %v, want ErrTextTooLarge", err)
	}
}

func TestValidateLineLimitsReportsEveryProblem(t *testing.T) {
	if err := DefaultLineLimits().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	if err := replayLimits().Validate(); err == nil {
		t.Error("the limits of replay allow more tags than a configuration may")
	}
	err := LineLimits{SeriesKeyBytesMax: seriesKeyBytesLimit + 1}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 6 {
		t.Errorf("got %v, want seven problems", err)
	}
}

// failingAppender is an Appender that can't go on.
type failingAppender struct{ err error }

func (f failingAppender) Append(*shard.Point) error { return f.err }

func TestParseReturnsTheErrorOfTheAppender(t *testing.T) {
	want := errors.New("no room")
	parser := NewParser(DefaultLineLimits())
	_, err := parser.Parse([]byte("\ncpu v=1"), PrecisionNanosecond, testDefaultTime, failingAppender{want})
	if !errors.Is(err, want) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want %v in line 2", err, want)
	}
}

// TestParseWorkIsLinear needs minutes if any of these bodies takes time that grows with its square.
func TestParseWorkIsLinear(t *testing.T) {
	units := []string{
		"a\n", "a\\\n", "a v=\"", "a v=\"\n", "\"\n", "\\\"", "a v=\\\"\n", "a v=\"\\\"", "#\t\n", "\ta v=1\n",
		"a v=1\r\n", "\r",
		"a v=1\rb\n", "a,time=1 v=\"\n\"\n", "a v=x,s=\"\\", "a v=1,v=1,", "a,b=c", "\\", "=\"\\", " =\"", " ",
		"\x01", "a\x01 v=1\n", "a\x01 v=x\n", "a,b\x01=\\\n v=\"\n\"\n", "a\\\n", "\\\n", "a v=1,\x01", "a v=1,\x01=\"\n", "\ufdd0\x01",
		"a\\\x01", ",\x01=\x01",
	}
	for _, unit := range units {
		body := []byte(strings.Repeat(unit, (1<<19)/len(unit)))
		parser := NewParser(DefaultLineLimits())
		if _, err := parser.Parse(body, PrecisionNanosecond, testDefaultTime, discardPoints{}); err != nil {
			t.Errorf("%q: %v", unit, err)
		}
	}
}

func TestParseKeepsNothingOfTheBody(t *testing.T) {
	body := []byte("cpu,a=b s=\"a\\\"b\",v=1 1\nbad\n")
	parser := NewParser(DefaultLineLimits())
	r := pointRecorder{batch: newUncheckedBatch()}
	result, err := parser.Parse(body, PrecisionNanosecond, time.Time{}, &r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		body[i] = 'x'
	}
	if want := "bad"; result.Errors[0].Text != want {
		t.Errorf("got text %q, want %q", result.Errors[0].Text, want)
	}
	if parser.lines.text != nil || parser.decoder != nil || parser.point.Tags[:1][0].Key != nil {
		t.Error("the parser still refers to the body")
	}
}
