package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// encode writes rows as one file in blocks of 1,000.
func encode(t testing.TB, rows []row, level int) ([]byte, FileInfo, Written) {
	t.Helper()
	info := infoOf(rows)
	info.Level = level
	file, written := encodeBlocks(t, info, blocksOf(rows, 1000))
	return file, info, written
}

func encodeBlocks(t testing.TB, info FileInfo, blocks []*Block) ([]byte, Written) {
	t.Helper()
	var file bytes.Buffer
	var pool WriterPool
	written, err := pool.Write(&file, info, sourceOf(blocks...))
	if err != nil {
		t.Fatal(err)
	}
	if written.SizeBytes != int64(file.Len()) {
		t.Errorf("size: got %d, want %d", written.SizeBytes, file.Len())
	}
	return file.Bytes(), written
}

// libraryRows reads a file row by row with parquet-go, which our reader has no part in.
func libraryRows(t testing.TB, file []byte, info FileInfo) []row {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, group := range f.RowGroups() {
		reader := group.Rows()
		defer reader.Close()
		buf := make([]parquet.Row, 100)
		for {
			n, err := reader.ReadRows(buf)
			for _, values := range buf[:n] {
				rows = append(rows, libraryRow(values, info))
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return rows
}

func libraryRow(values parquet.Row, info FileInfo) row {
	r := row{Time: values[0].Int64(), Fields: map[string]cell{}}
	var tags []Tag
	for i, name := range info.Tags {
		if v := values[1+i]; !v.IsNull() {
			tags = append(tags, Tag{[]byte(name), bytes.Clone(v.ByteArray())})
		}
	}
	r.Key = string(AppendKey(nil, tags))
	for i, def := range info.Fields {
		v := values[1+len(info.Tags)+i]
		switch {
		case v.IsNull():
		case def.Kind == KindString:
			r.Fields[def.Name] = text(string(v.ByteArray()))
		case def.Kind == KindBool:
			r.Fields[def.Name] = boolean(v.Boolean())
		case def.Kind == KindFloat:
			r.Fields[def.Name] = cell{Kind: KindFloat, Number: math.Float64bits(v.Double())}
		default:
			r.Fields[def.Name] = cell{Kind: def.Kind, Number: v.Uint64()}
		}
	}
	return r
}

// mixedRows returns rows of all kinds, with series of different tags and fields that come and go.
func mixedRows(n int) []row {
	var rows []row
	for i := range n {
		r := row{Time: int64(i%97)*1e9 - 5, Fields: map[string]cell{}}
		switch series := i / 97; {
		case series%5 == 0:
			r.Key = key("host", fmt.Sprint("h", series))
		case series%5 == 1:
			r.Key = key("host", fmt.Sprint("h", series%11), "region", fmt.Sprint("r", series))
		case series%5 == 2:
			r.Key = key("région = x.y", "wert, mit\\ allem", "zone", fmt.Sprint(series))
		case series == 3:
			r.Key = key()
		default:
			r.Key = key("a.b.c", fmt.Sprint(series%3), "host", "x", "n", fmt.Sprint(series))
		}
		r.Fields["always"] = integer(int64(i) * 1e12)
		if i%3 == 0 {
			r.Fields["float"] = float(float64(i) / 7)
		}
		if i%5 < 3 {
			r.Fields["text"] = text(fmt.Sprint("value ", i%13))
		}
		if i > n/2 {
			r.Fields["unsigned"] = unsigned(math.MaxUint64 - uint64(i))
		}
		if i%1000 == 7 {
			r.Fields["rare"] = boolean(i%2 == 0)
		}
		r.Fields["a.b=c d"] = boolean(i%7 < 3)
		rows = append(rows, r)
	}
	return rows
}

func TestTheLibraryReadsWhatIsWritten(t *testing.T) {
	for level := range 2 {
		for _, n := range []int{1, 7, 9000, 40000} {
			rows := mixedRows(n)
			file, info, written := encode(t, rows, level)
			if diff := diffRows(rows, libraryRows(t, file, info)); diff != "" {
				t.Fatalf("level %d, %d rows: (-want +got)\n%s", level, n, diff)
			}
			if written.Rows != int64(n) {
				t.Errorf("rows: got %d, want %d", written.Rows, n)
			}
		}
	}
}
