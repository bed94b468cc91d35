package ingest

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLineProtocolTable runs the table of LINEPROTOCOL.md.
func TestLineProtocolTable(t *testing.T) {
	const rowsMin = 120 // so that a table that is not found fails
	rows := readTable(t)
	if len(rows) < rowsMin {
		t.Fatalf("got %d rows, want at least %d", len(rows), rowsMin)
	}
	for _, row := range rows {
		t.Run(fmt.Sprintf("%.60q", row.input), func(t *testing.T) {
			got := parseBody(t, row.input)
			if diff := cmp.Diff(row.lines, got.Lines); diff != "" {
				t.Errorf("points (-table +got):\n%s", diff)
			}
			if len(got.Errors) != len(row.reasons) {
				t.Fatalf("got errors %v, table has %q", got.Errors, row.reasons)
			}
			for i, want := range row.reasons {
				if !strings.Contains(got.Errors[i].Reason, want) {
					t.Errorf("error %d: got %q, table has %q", i, got.Errors[i].Reason, want)
				}
			}
		})
	}
}

type tableRow struct {
	input   string
	lines   []string // what is accepted
	reasons []string // parts of why the others are refused
}

var (
	tableRowPattern = regexp.MustCompile("^\\| `([^`]*)` \\|[^|]*\\|[^|]*\\|[^|]*\\| (.*?) \\|[^|]*\\|$")
	repeatPattern   = regexp.MustCompile(`<(\d+) (.)>`)
	defaultTimeMark = regexp.MustCompile(` T$`)
)

func readTable(t testing.TB) []tableRow {
	text, err := os.ReadFile("LINEPROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []tableRow
	for line := range strings.Lines(string(text)) {
		if match := tableRowPattern.FindStringSubmatch(strings.TrimSuffix(line, "\n")); match != nil {
			rows = append(rows, readRow(t, match[1], match[2]))
		} else if strings.HasPrefix(line, "| `") {
			t.Errorf("row is not understood: %s", line)
		}
	}
	return rows
}

func readRow(t testing.TB, input, outcome string) tableRow {
	row := tableRow{input: unquoteCell(t, input)}
	if outcome == "skipped" {
		return row
	}
	for part := range strings.SplitSeq(outcome, " + ") {
		if reason, ok := strings.CutPrefix(part, "✗ "); ok {
			row.reasons = append(row.reasons, reason)
			continue
		}
		line := unquoteCell(t, strings.Trim(part, "`"))
		defaultTime := " " + strconv.FormatInt(testDefaultTime.UnixNano(), 10)
		row.lines = append(row.lines, defaultTimeMark.ReplaceAllString(line, defaultTime))
	}
	return row
}

// unquoteCell reads the inside of a Go string in which quotes need no backslash, and <9 a> repeats a letter.
func unquoteCell(t testing.TB, text string) string {
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return repeatPattern.ReplaceAllStringFunc(plain, func(match string) string {
		parts := repeatPattern.FindStringSubmatch(match)
		count, err := strconv.Atoi(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Repeat(parts[2], count)
	})
}

// TestLineProtocolTableThroughHTTP writes every row of LINEPROTOCOL.md through each API, and reads it back. What has no
// timestamp must have got the time of its request.
func TestLineProtocolTableThroughHTTP(t *testing.T) {
	s := startServer(t)
	for i, row := range readTable(t) {
		for _, api := range writeAPIsUnderTest {
			t.Run(fmt.Sprintf("%s/%.60q", api.name, row.input), func(t *testing.T) {
				name := fmt.Sprintf("%s_%d", api.name, i)
				before := time.Now().UnixNano()
				answer := s.post(api.url(name), row.input)
				after := time.Now().UnixNano()
				api.checkContract(t, answer)
				checkReasons(t, api, row.reasons, answer)
				want := map[string]map[string]string{}
				gather(t, want, []byte(strings.Join(row.lines, "\n")))
				got := s.lines(name)
				for i := range got {
					got[i] = markDefaultTime(got[i], before, after)
				}
				slices.Sort(got)
				if diff := cmp.Diff(canonical(want), got); diff != "" {
					t.Errorf("stored (-table +got):\n%s", diff)
				}
			})
		}
	}
}

// markDefaultTime puts testDefaultTime in the place of a time within others.
func markDefaultTime(line string, from, to int64) string {
	at := strings.LastIndexByte(line, ' ')
	stamp, err := strconv.ParseInt(line[at+1:], 10, 64)
	if err != nil || stamp < from || stamp > to {
		return line
	}
	return line[:at+1] + strconv.FormatInt(testDefaultTime.UnixNano(), 10)
}

// checkReasons checks that an answer refuses the lines of a row, for their reasons.
func checkReasons(t *testing.T, api apiUnderTest, reasons []string, answer received) {
	t.Helper()
	if len(reasons) == 0 {
		if answer.StatusCode != http.StatusNoContent {
			t.Errorf("got %d %s, want 204", answer.StatusCode, answer.body)
		}
		return
	}
	told := api.refusal(t, answer)
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d, want 400", answer.StatusCode)
	}
	text := told.Text
	switch api.name {
	case "v1":
		if !strings.HasSuffix(text, fmt.Sprintf("; dropped=%d", len(reasons))) {
			t.Errorf("got %q, want %d lines dropped", text, len(reasons))
		}
	case "v2":
		if !strings.HasPrefix(text, fmt.Sprintf("%d of ", len(reasons))) || told.Line < 1 {
			t.Errorf("got %q and line %d, want %d lines", text, told.Line, len(reasons))
		}
	default:
		if len(told.Data) != len(reasons) {
			t.Errorf("got %+v, want %d lines", told.Data, len(reasons))
		}
		text = fmt.Sprint(told.Data)
	}
	for _, reason := range reasons {
		if !strings.Contains(text, reason) {
			t.Errorf("got %q, want it to hold %q", text, reason)
		}
	}
}
