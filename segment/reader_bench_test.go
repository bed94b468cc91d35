package segment

import (
	"io"
	"testing"
)

func scanAll(b testing.TB, f *File, sel Selection) (rows int) {
	s := f.Scan(sel)
	for {
		block, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		rows += len(block.Times)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return rows
}

func benchmarkScan(b *testing.B, info FileInfo, blocks []*Block, level int) {
	info.Level = level
	file, _ := encodeBlocks(b, info, blocks)
	rows := 0
	b.ReportAllocs()
	for b.Loop() {
		rows = scanAll(b, open(b, file), AllTime())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

func BenchmarkScanL0(b *testing.B) {
	eachData(b, func(b *testing.B, info FileInfo, blocks []*Block) {
		benchmarkScan(b, info, blocks, 0)
	})
}

func BenchmarkScanL1(b *testing.B) {
	eachData(b, func(b *testing.B, info FileInfo, blocks []*Block) {
		benchmarkScan(b, info, blocks, 1)
	})
}

// A flush of many measurements makes many small files.
func BenchmarkSmallFile(b *testing.B) {
	info, blocks := agentData(2, 5)
	var pool WriterPool
	file, _ := encodeBlocks(b, info, blocks)
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := pool.Write(io.Discard, info, &replay{blocks: blocks}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(file)), "B/file")
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			open(b, file)
		}
	})
	b.Run("open and scan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			scanAll(b, open(b, file), AllTime())
		}
	})
}
