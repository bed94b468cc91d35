//go:build !race

package ingest

import "testing"

// TestParseAllocatesNothingPerLine parses into a batch that was used before. Under the race detector sync.Pool loses
// batches on purpose, so it does not run there.
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
		if few, many := count(10), count(benchmarkLines); few != many {
			t.Errorf("%s: %v allocations for 10 lines, %v for 5,000", body.name, few, many)
		}
	}
}
