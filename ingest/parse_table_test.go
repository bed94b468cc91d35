package ingest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
