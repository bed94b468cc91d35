package segment

import (
	"io"
	"testing"
)

func countRows(blocks []*Block) (rows int) {
	for _, b := range blocks {
		rows += len(b.Times)
	}
	return rows
}

// benchmarkWrite writes the blocks as one file of the given level, again and again.
func benchmarkWrite(b *testing.B, info FileInfo, blocks []*Block, level int) {
	info.Level = level
	var pool WriterPool
	var written Written
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if written, err = pool.Write(io.Discard, info, &replay{blocks: blocks}); err != nil {
			b.Fatal(err)
		}
	}
	rows := float64(written.Rows)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	b.ReportMetric(float64(written.SizeBytes)/rows, "B/row")
}

func BenchmarkWriteL0(b *testing.B) {
	eachData(b, func(b *testing.B, info FileInfo, blocks []*Block) {
		benchmarkWrite(b, info, blocks, 0)
	})
}

func BenchmarkWriteL1(b *testing.B) {
	eachData(b, func(b *testing.B, info FileInfo, blocks []*Block) {
		benchmarkWrite(b, info, blocks, 1)
	})
}
