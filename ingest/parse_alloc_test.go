//go:build !race

package ingest

import (
	"bytes"
	"strings"
	"testing"
)

// TestParseAllocatesNothingPerLine parses into a batch that was used before. What other goroutines of the engine
// allocate meanwhile is counted too, so a few allocations more say nothing: one for every 50 lines would be 100. Under
// the race detector sync.Pool loses batches on purpose, so it does not run there.
func TestParseAllocatesNothingPerLine(t *testing.T) {
	engine := newTestEngine(t)
	for _, body := range benchmarkBodies {
		parser := NewParser(DefaultLineLimits())
		count := func(lines int) float64 {
			text := body.make(lines)
			return testing.AllocsPerRun(10, func() {
				batch := engine.NewBatch("db")
				defer batch.Release()
				if _, err := parser.Parse(text, PrecisionNanosecond, testDefaultTime, batch); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := count(10), count(benchmarkLines); many-few > benchmarkLines/50 {
			t.Errorf("%s: %v allocations for 10 lines, %v for 5,000", body.name, few, many)
		}
	}
}

// TestControlBytesCostLittle parses bodies of lines with control bytes in their names. Each such line costs what the
// Decoder allocates to refuse it, and a second Decoder; one with a quote or a backslash, a third to go on behind it. The
// copy is made in one place, which a long line does not leave behind.
func TestControlBytesCostLittle(t *testing.T) {
	const lines = 1000
	for _, test := range []struct {
		line           string
		allocationsMax float64
	}{
		{"m,a\x01=b c\x02=1\n", 7}, {"m,a=b\\\nc v=1\n", 8}, {"m,a\x01=b c=\"\n\",d=x\n", 14},
	} {
		text := bytes.Repeat([]byte(test.line), lines)
		parser := NewParser(DefaultLineLimits())
		got := testing.AllocsPerRun(10, func() {
			result, err := parser.Parse(text, PrecisionNanosecond, testDefaultTime, discardPoints{})
			if err != nil || result.Points+result.Refused != lines {
				t.Fatalf("%q: %+v, %v", test.line, result, err)
			}
		})
		if got > lines*test.allocationsMax {
			t.Errorf("%q: %v allocations for %d lines, want at most %v a line", test.line, got, lines, test.allocationsMax)
		}
	}
	parser := NewParser(DefaultLineLimits())
	long := []byte("m,a=" + strings.Repeat("\x01", 60_000) + " v=1")
	result, err := parser.Parse(long, PrecisionNanosecond, testDefaultTime, discardPoints{})
	if err != nil || result.Points != 1 || cap(parser.shield.text) > shieldTextKept {
		t.Errorf("got %+v, %v, and a copy of %d bytes kept", result, err, cap(parser.shield.text))
	}
}
