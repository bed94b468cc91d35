//go:build !race

package segment

import (
	"bytes"
	"io"
	"testing"
)

// Rows cost no allocation of their own, wherever they go: what is allocated belongs to files, columns and pages. A page
// costs the library some ten, which is 0.012 per row with 21 columns. Under the race detector sync.Pool loses what the
// library keeps in it, so this does not run there.
func TestRowsAreNotAllocatedOneByOne(t *testing.T) {
	const allocationsPerRow = 0.015
	type run func(info FileInfo, blocks []*Block) float64
	write := func(level int) run {
		return func(info FileInfo, blocks []*Block) float64 {
			info.Level = level
			var pool WriterPool
			return testing.AllocsPerRun(3, func() {
				if _, err := pool.Write(io.Discard, info, &replay{blocks: blocks}); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	scan := func(level int) run {
		return func(info FileInfo, blocks []*Block) float64 {
			info.Level = level
			var file bytes.Buffer
			if _, err := new(WriterPool).Write(&file, info, &replay{blocks: blocks}); err != nil {
				t.Fatal(err)
			}
			return testing.AllocsPerRun(3, func() { scanAll(t, open(t, file.Bytes()), AllTime()) })
		}
	}
	merge := func(_ FileInfo, blocks []*Block) float64 {
		_, others := cpuData(100, len(blocks)*41, 5e9)
		return testing.AllocsPerRun(3, func() {
			if _, err := countMerged(Merge([]Source{&replay{blocks: blocks}, &replay{blocks: others}})); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, run := range map[string]run{
		"write level 0": write(0), "write level 1": write(1), "scan level 0": scan(0), "scan level 1": scan(1),
		"merge": merge,
	} {
		few, many := 100*40, 100*800
		info, small := cpuData(100, 40, 0)
		_, large := cpuData(100, 800, 0)
		if got := (run(info, large) - run(info, small)) / float64(many-few); got > allocationsPerRow {
			t.Errorf("%s: %.3f allocations per row, want at most %.3f", name, got, allocationsPerRow)
		}
	}
}

func countMerged(m Source) (rows int, err error) {
	for {
		b, err := m.Next()
		if err == io.EOF {
			return rows, m.Close()
		}
		if err != nil {
			return rows, err
		}
		rows += len(b.Times)
	}
}
