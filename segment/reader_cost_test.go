package segment

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// noise yields series one after the other, with values that no codec makes small.
type noise struct {
	info              FileInfo
	series, rows, len int // rows of each series, bytes of each string
	next              int
	state             uint64
}

func (n *noise) Next() (*Block, error) {
	if n.next == n.series {
		return nil, io.EOF
	}
	b := new(Block)
	for n.next < n.series && len(b.Times) < 2048 {
		tags := []string{n.info.Tags[0], fmt.Sprintf("value-%08d", n.next)}
		for _, tag := range n.info.Tags[1:] {
			tags = append(tags, tag, "value")
		}
		b.Runs = append(b.Runs, Run{Key: []byte(key(tags...)), Rows: n.rows})
		for row := range n.rows {
			b.Times = append(b.Times, int64(row)*1e10)
		}
		n.next++
	}
	for _, def := range n.info.Fields {
		c := Column{Name: def.Name, Kind: def.Kind}
		for range b.Times {
			n.state = n.state*6364136223846793005 + 1442695040888963407
			if def.Kind == KindString {
				c.Strings = append(c.Strings, []byte(strings.Repeat(fmt.Sprintf("%016x", n.state), n.len/16)))
			} else {
				c.Numbers = append(c.Numbers, n.state>>12)
			}
		}
		b.Columns = append(b.Columns, c)
	}
	return b, nil
}

func (n *noise) Close() error { return nil }

// heapBytes is what is live.
func heapBytes() int64 {
	for range 3 {
		runtime.GC() // pools keep things for two
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestScansTakeWhatTheySay compares what scans say that they take with the heap, half-way through files of many shapes.
// Saying less lets reads take more memory than they may, saying much more refuses what there is room for.
func TestScansTakeWhatTheySay(t *testing.T) {
	skipUnderRace(t)
	for _, tc := range []struct {
		name                     string
		tags, numbers, strings   int
		length                   int // of strings
		series, rows, takeBlocks int
	}{
		{"few columns", 1, 1, 0, 0, 30, 4096, 10},
		{"a host", 10, 10, 0, 0, 10, 8192, 5},
		{"numbers and strings", 3, 12, 2, 32, 10, 8192, 5},
		{"many columns", 2, 200, 0, 0, 4, 1500, 2},
		{"strings", 2, 4, 4, 512, 10, 1000, 2},
		{"many series", 2, 1, 0, 0, 200_000, 1, 10},
		{"few rows", 5, 10, 0, 0, 20, 10, 1},
	} {
		for level := range 2 {
			info := FileInfo{Measurement: "m", Level: level}
			for i := range tc.tags {
				info.Tags = append(info.Tags, fmt.Sprintf("tag%02d", i))
			}
			for i := range tc.numbers + tc.strings {
				kind := KindFloat
				if i >= tc.numbers {
					kind = KindString
				}
				info.Fields = append(info.Fields, ColumnDef{fmt.Sprintf("field%04d", i), kind})
			}
			var file bytes.Buffer
			source := &noise{info: info, series: tc.series, rows: tc.rows, len: tc.length}
			written, err := new(WriterPool).Write(&file, info, source)
			if err != nil {
				t.Fatal(err)
			}
			said, taken := scansOf(t, file.Bytes(), written.SizeBytes, tc.takeBlocks)
			t.Logf("%s, level %d: takes %d KiB, says %d KiB", tc.name, level, taken>>10, said>>10)
			if said < taken*3/4 || said > 4*taken+64<<10 {
				t.Errorf("%s, level %d: a scan takes %d bytes and says %d", tc.name, level, taken, said)
			}
		}
	}
}

// scansOf reads blocks by several scans of a file, and returns what one of them says that it takes, and what it does.
func scansOf(t *testing.T, file []byte, sizeBytes int64, blocks int) (said, taken int64) {
	t.Helper()
	const scans = 8
	open := make([]*scan, scans)
	before := heapBytes()
	for i := range open {
		f, err := OpenFile("x", bytes.NewReader(file), sizeBytes)
		if err != nil {
			t.Fatal(err)
		}
		open[i] = f.scan(AllTime())
		said = open[i].memoryBytes()
	}
	for range blocks {
		for _, s := range open {
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
		}
	}
	taken = (heapBytes() - before) / scans
	for _, s := range open {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	runtime.KeepAlive(file)
	return said, taken
}
