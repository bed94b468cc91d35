package segment

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// selectRows is what Scan should yield.
func selectRows(rows []row, sel Selection) []row {
	var selected []row
	for _, r := range rows {
		tags := map[string]string{}
		EachTag([]byte(r.Key), func(name, value []byte) { tags[string(name)] = string(value) })
		wanted := sel.ContainsTime(r.Time)
		for _, tag := range sel.Tags {
			wanted = wanted && tags[tag.Key] == tag.Value
		}
		if !wanted {
			continue
		}
		fields := map[string]cell{}
		for name, value := range r.Fields {
			if sel.Fields == nil || slices.Contains(sel.Fields, name) {
				fields[name] = value
			}
		}
		if len(fields) > 0 {
			selected = append(selected, row{r.Key, r.Time, fields})
		}
	}
	return selected
}

func TestScanSelects(t *testing.T) {
	rows := mixedRows(30000)
	infoOf(rows)
	all := AllTime()
	for name, sel := range map[string]Selection{
		"everything":         all,
		"start is included":  {Start: 5e9 - 5, Stop: math.MaxInt64},
		"stop is excluded":   {Start: math.MinInt64, Stop: 5e9 - 5},
		"one nanosecond":     {Start: 5e9 - 5, Stop: 5e9 - 4},
		"between rows":       {Start: 5e9 - 4, Stop: 5e9},
		"before all":         {Start: math.MinInt64, Stop: -5},
		"after all":          {Start: 97e9, Stop: math.MaxInt64},
		"nothing":            {Start: 5, Stop: 5},
		"tag":                {Start: all.Start, Stop: all.Stop, Tags: []TagEqual{{"host", "h5"}}},
		"two tags":           {Start: 1e9, Stop: 90e9, Tags: []TagEqual{{"host", "h2"}, {"region", "r101"}}},
		"contradiction":      {Start: all.Start, Stop: all.Stop, Tags: []TagEqual{{"host", "h5"}, {"host", "h6"}}},
		"missing tag":        {Start: all.Start, Stop: all.Stop, Tags: []TagEqual{{"host", ""}}},
		"missing and other":  {Start: all.Start, Stop: all.Stop, Tags: []TagEqual{{"region", ""}, {"host", "x"}}},
		"unknown tag":        {Start: all.Start, Stop: all.Stop, Tags: []TagEqual{{"unknown", "x"}}},
		"unknown tag, empty": {Start: 50e9, Stop: all.Stop, Tags: []TagEqual{{"unknown", ""}}},
		"unknown value":      {Start: all.Start, Stop: all.Stop, Tags: []TagEqual{{"host", "h99999"}}},
		"one field":          {Start: all.Start, Stop: all.Stop, Fields: []string{"always"}},
		"sparse fields":      {Start: all.Start, Stop: all.Stop, Fields: []string{"rare", "float"}},
		"rare strings": {Start: 3e9, Stop: all.Stop, Fields: []string{"text", "rare"},
			Tags: []TagEqual{{"host", "x"}}},
		"unknown field": {Start: all.Start, Stop: all.Stop, Fields: []string{"unknown"}},
		"no field":      {Start: all.Start, Stop: all.Stop, Fields: []string{}},
	} {
		want := selectRows(rows, sel)
		for level := range 2 {
			file, _, _ := encode(t, rows, level)
			if diff := diffRows(want, collect(t, open(t, file).Scan(sel))); diff != "" {
				t.Errorf("%s, level %d: (-want +got)\n%s", name, level, diff)
			}
		}
	}
}

func TestScanSelectsAtRandom(t *testing.T) {
	rows := mixedRows(20000)
	file, info, _ := encode(t, rows, 1)
	f := open(t, file)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		sel := AllTime()
		if rng.IntN(2) == 0 {
			sel.Start = rng.Int64N(100e9)
			sel.Stop = sel.Start + rng.Int64N(50e9)
		}
		for range rng.IntN(3) {
			r := rows[rng.IntN(len(rows))]
			EachTag([]byte(r.Key), func(name, value []byte) {
				if rng.IntN(3) == 0 {
					sel.Tags = append(sel.Tags, TagEqual{string(name), string(value)})
				}
			})
		}
		for _, field := range info.Fields {
			if rng.IntN(3) == 0 {
				sel.Fields = append(sel.Fields, field.Name)
			}
		}
		if diff := diffRows(selectRows(rows, sel), collect(t, f.Scan(sel))); diff != "" {
			t.Fatalf("%+v: (-want +got)\n%s", sel, diff)
		}
	}
}

// countingReader counts what is read.
type countingReader struct {
	io.ReaderAt
	bytes int64
}

func (m *countingReader) ReadAt(p []byte, offset int64) (int, error) {
	m.bytes += int64(len(p))
	return m.ReaderAt.ReadAt(p, offset)
}

// Pages are read with the blocks of the checksums that they lie in, so the first and last ones of a column are read
// with a part of its neighbours.
func TestScanReadsOnlyWhatItNeeds(t *testing.T) {
	info, blocks := cpuData(200, 2000, 0)
	file, _ := encodeBlocks(t, info, blocks)
	for _, test := range []struct {
		name    string
		sel     Selection
		rows    int
		percent int64 // of the file, at most
	}{
		{"no such time", Selection{Start: -10, Stop: 0}, 0, 0},
		{"no such tag", Selection{Start: 0, Stop: math.MaxInt64, Tags: []TagEqual{{"hostname", "zzz"}}}, 0, 0},
		{"no such value", Selection{Start: 0, Stop: math.MaxInt64, Tags: []TagEqual{{"hostname", "host_1000"}}}, 0, 4},
		{"no such field", Selection{Start: 0, Stop: math.MaxInt64, Fields: []string{"none"}}, 0, 0},
		{"one host", Selection{Start: 0, Stop: math.MaxInt64, Tags: []TagEqual{{"hostname", "host_100"}}}, 2000, 13},
		{"half of the hosts", Selection{Start: 0, Stop: math.MaxInt64, Tags: []TagEqual{{"arch", "x86"}}}, 200000, 60},
		{"one field", Selection{Start: 0, Stop: math.MaxInt64, Fields: []string{"usage_user"}}, 400000, 30},
		{"everything", AllTime(), 400000, 106},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &countingReader{ReaderAt: bytes.NewReader(file)}
			f, err := OpenFile("test.parquet", m, int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			m.bytes = 0
			if got := scanAll(t, f, test.sel); got != test.rows {
				t.Errorf("got %d rows, want %d", got, test.rows)
			}
			if limit := test.percent * int64(len(file)) / 100; m.bytes > limit {
				t.Errorf("read %d bytes of %d, want at most %d", m.bytes, len(file), limit)
			}
		})
	}
}

func TestIntersect(t *testing.T) {
	for _, test := range []struct{ a, b, want []rowRange }{
		{nil, []rowRange{{0, 9}}, nil},
		{[]rowRange{{0, 9}}, []rowRange{{0, 9}}, []rowRange{{0, 9}}},
		{[]rowRange{{0, 4}, {6, 9}}, []rowRange{{2, 8}}, []rowRange{{2, 4}, {6, 8}}},
		{[]rowRange{{0, 4}, {4, 9}}, []rowRange{{2, 8}}, []rowRange{{2, 8}}},
		{[]rowRange{{0, 2}, {5, 6}}, []rowRange{{2, 5}, {6, 7}}, nil},
	} {
		if diff := cmp.Diff(test.want, intersect(test.a, test.b), cmp.AllowUnexported(rowRange{})); diff != "" {
			t.Errorf("%v and %v: (-want +got)\n%s", test.a, test.b, diff)
		}
		if diff := cmp.Diff(test.want, intersect(test.b, test.a), cmp.AllowUnexported(rowRange{})); diff != "" {
			t.Errorf("%v and %v: (-want +got)\n%s", test.b, test.a, diff)
		}
	}
}
