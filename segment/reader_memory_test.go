package segment

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// generated yields blocks of one series each without keeping any.
type generated struct {
	blocks, next int
	block        Block
}

func (g *generated) Next() (*Block, error) {
	if g.next == g.blocks {
		return nil, io.EOF
	}
	b := &g.block
	if b.Times == nil {
		b.Times = make([]int64, 4096)
		for _, name := range []string{"a", "b", "c", "d"} {
			b.Columns = append(b.Columns, Column{Name: name, Kind: KindInt, Numbers: make([]uint64, len(b.Times))})
		}
		for i := range b.Times {
			b.Times[i] = int64(i)
			for j := range b.Columns {
				b.Columns[j].Numbers[i] = uint64(i*i*j) % 10007
			}
		}
	}
	series := key("host", fmt.Sprintf("%06d", g.next), "os", "x")
	b.Runs = append(b.Runs[:0], Run{Key: []byte(series), Rows: len(b.Times)})
	g.next++
	return b, nil
}

func (g *generated) Close() error { return nil }

func TestScanOf5MillionRowsKeepsTheHeapSmall(t *testing.T) {
	const blocks = 1 + 5_000_000/4096
	info := FileInfo{Measurement: "m", Tags: []string{"host", "os"},
		Fields: []ColumnDef{{"a", KindInt}, {"b", KindInt}, {"c", KindInt}, {"d", KindInt}}}
	for level := range 2 {
		info.Level = level
		path := filepath.Join(t.TempDir(), "large.parquet")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		written, err := new(WriterPool).Write(file, info, &generated{blocks: blocks})
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path, file, written.SizeBytes)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		highest := before.HeapInuse
		s := f.Scan(AllTime())
		rows := 0
		for n := 0; ; n++ {
			b, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			rows += len(b.Times)
			if n%100 == 0 {
				runtime.ReadMemStats(&now)
				highest = max(highest, now.HeapInuse)
			}
		}
		if rows < 5_000_000 || int64(rows) != written.Rows {
			t.Errorf("got %d rows, want %d", rows, written.Rows)
		}
		const limit = 64 << 20
		if grown := highest - before.HeapInuse; grown > limit {
			t.Errorf("level %d: the heap grew by %d bytes, want at most %d", level, grown, limit)
		} else {
			t.Logf("level %d: the heap grew by %d KiB", level, grown>>10)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
