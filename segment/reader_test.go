package segment

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	return map[string][]row{
		"one row":             {{key("s", "1"), 1, one}},
		"no tags":             {{key(), 1, one}, {key(), 2, one}},
		"nanosecond extremes": extremes,
		"kinds":               kinds,
		"NaN":                 nan,
		"names":               names,
		"strings of 1 MiB":    long,
		"1,000 fields":        wideRows(3000),
		"mixed":               mixedRows(30000),
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
