package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

func open(t testing.TB, file []byte) *File {
	t.Helper()
	f, err := OpenFile("test.parquet", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wideRows returns rows of 1,000 fields, of which each row has a few.
func wideRows(n int) []row {
	var rows []row
	for i := range n {
		r := row{Key: key("s", fmt.Sprint(i%5)), Time: int64(i), Fields: map[string]cell{}}
		for f := range 1 + i%7 {
			r.Fields[fmt.Sprintf("f%03d", (i*31+f*197)%1000)] = integer(int64(i * f))
		}
		rows = append(rows, r)
	}
	return rows
}

func roundTripCases() map[string][]row {
	one := map[string]cell{"f": integer(1)}
	extremes := []row{{key("s", "1"), math.MinInt64, one}, {key("s", "1"), -1, one}, {key("s", "1"), 0, one},
		{key("s", "1"), 1, one}, {key("s", "1"), math.MaxInt64 - 1, one}, {key("s", "1"), math.MaxInt64, one}}
	kinds := []row{}
	infinity := math.Inf(1)
	for i, f := range []float64{0, math.Copysign(0, -1), infinity, -infinity, math.NaN(), math.MaxFloat64, 5e-324} {
		kinds = append(kinds, row{key(), int64(i), map[string]cell{"f": float(f), "i": integer(math.MinInt64 >> i),
			"u": unsigned(math.MaxUint64 >> i), "b": boolean(i%2 == 0), "s": text(strings.Repeat("ä\x00\n", i))}})
	}
	nan := []row{}
	for i := range 20_000 { // the first page has only NaN, the next one zeros, the last one both
		f := float(math.NaN())
		if i >= 8192 && i < 16384 || i%2 == 0 && i > 16384 {
			f = float(0)
		}
		nan = append(nan, row{key("s", "1"), int64(i), map[string]cell{"f": f, "g": float(math.NaN())}})
	}
	long := []row{}
	for i := range 20 {
		long = append(long, row{key("s", fmt.Sprint(i%3)), int64(i), map[string]cell{
			"long": text(strings.Repeat("0123456789abcdef", 1<<16)), "t": text(fmt.Sprint(i)), "n": integer(int64(i))}})
	}
	names := []row{{key("a.b", "x", "c d=e,f", "\"y\\", "日本", strings.Repeat("z", 300)), 1, map[string]cell{
		"list.element": integer(1), "": integer(2), "key_value": integer(3), "TIME": integer(4),
		"日.本": text("語")}}}
	control := []row{}
	for i, tags := range controlTags {
		control = append(control, row{key(tags...), int64(i), map[string]cell{"\x00f\x7f": integer(int64(i)), "g\n": text("\x01")}})
	}
	return map[string][]row{
		"one row":             {{key("s", "1"), 1, one}},
		"no tags":             {{key(), 1, one}, {key(), 2, one}},
		"nanosecond extremes": extremes,
		"kinds":               kinds,
		"NaN":                 nan,
		"names":               names,
		"control bytes":       control,
		"strings of 1 MiB":    long,
		"1,000 fields":        wideRows(3000),
		"mixed":               mixedRows(30000),
	}
}

// controlTags are tags, each series as name, value, name, value: of bytes that structure a key, and that differ in them
// alone.
var controlTags = [][]string{
	{"a", "b", "c", "d"}, {"a", "b\x00c\x01d"}, {"a", "b\x00"}, {"a", "b\x01"}, {"a", "b\x02"}, {"a", "b\x02\x03"}, {"a", "b\x03"},
	{"a\x00", "b"}, {"a\x01", "b"}, {"a\x01b", "\x00"}, {"a\x02", "b"}, {"a\x02\x03", "b"}, {"\x00", "\x02"}, {"\n", "\r\n\x1b\x7f"},
}

// TestControlBytesStandInTheFile reads a file with parquet-go alone: its columns hold the bytes, not their escapes.
func TestControlBytesStandInTheFile(t *testing.T) {
	rows := roundTripCases()["control bytes"]
	file, info, _ := encode(t, rows, 1)
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{} // by key
	for _, tags := range controlTags {
		series := map[string]string{}
		for i := 0; i < len(tags); i += 2 {
			series[tags[i]] = tags[i+1]
		}
		want[key(tags...)] = series
	}
	got := make([]map[string]string, len(rows))
	for i, tag := range info.Tags {
		if name := f.Schema().Fields()[1+i].Name(); name != tag {
			t.Errorf("column %d is called %q, want %q", 1+i, name, tag)
		}
		values := make([]parquet.Value, len(rows)+1)
		pages := f.RowGroups()[0].ColumnChunks()[1+i].Pages()
		page, err := pages.ReadPage()
		if err != nil {
			t.Fatal(err)
		}
		n, err := page.Values().ReadValues(values)
		if n != len(rows) || !errors.Is(err, io.EOF) {
			t.Fatalf("tag %q: got %d values, %v", tag, n, err)
		}
		for row, value := range values[:n] {
			if got[row] == nil {
				got[row] = map[string]string{}
			}
			if !value.IsNull() {
				got[row][tag] = string(value.ByteArray())
			}
		}
		parquet.Release(page)
		_ = pages.Close()
	}
	for i, r := range rows { // encode has sorted them
		if diff := cmp.Diff(want[r.Key], got[i]); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for name, rows := range roundTripCases() {
		for level := range 2 {
			t.Run(fmt.Sprintf("%s, level %d", name, level), func(t *testing.T) {
				file, info, written := encode(t, rows, level)
				f := open(t, file)
				if diff := cmp.Diff(info, f.Info()); diff != "" {
					t.Errorf("info (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(written, f.Written()); diff != "" {
					t.Errorf("footer (-written +read)\n%s", diff)
				}
				for _, every := range []int{1, 3} {
					verified, err := f.Verify(every)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(written, verified); diff != "" {
						t.Errorf("verified (-written +read)\n%s", diff)
					}
				}
				if diff := diffRows(rows, collect(t, f.Scan(AllTime()))); diff != "" {
					t.Errorf("rows (-want +got)\n%s", diff)
				}
			})
		}
	}
}
