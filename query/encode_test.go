package query

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/influxdata/line-protocol/v2/lineprotocol"
	"pgregory.net/rapid"

	"lineweir/segment"
)

// encodeAll returns all rows of the Blocks in a format.
func encodeAll(e encoder, header []byte, blocks ...*segment.Block) []byte {
	dst := append([]byte(nil), header...)
	for _, b := range blocks {
		if err := e.block(b); err != nil {
			panic(err)
		}
		row := 0
		for _, run := range b.Runs {
			e.series(run.Key)
			for end := row + run.Rows; row < end; row++ {
				dst = e.row(dst, row)
			}
		}
	}
	return dst
}

// names are what ingest accepts: valid UTF-8 without control bytes, not ending in a backslash.
func names(first string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringOf(rapid.OneOf(
			rapid.SampledFrom([]rune(`,= \"#`)), rapid.RuneFrom(nil, unicode.Letter, unicode.Punct),
		)).Draw(t, "name")
		return first + strings.TrimRight(s, `\`)
	})
}

// TestLinesReadBack writes random rows as lines and reads them with the public decoder.
func TestLinesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		measurement, field := names("m").Draw(t, "measurement"), names("f").Draw(t, "field")
		key, value, text := names("k").Draw(t, "key"), names("v").Draw(t, "value"), rapid.String().Draw(t, "text")
		number := rapid.Float64().Filter(isFinite).Draw(t, "float")
		integer, at := rapid.Int64().Draw(t, "integer"), rapid.Int64().Draw(t, "time")
		block := &segment.Block{
			Runs: []segment.Run{{Key: seriesKey(key, value), Rows: 1}}, Times: []int64{at},
			Columns: []segment.Column{
				{Name: field + "1", Kind: segment.KindString, Strings: texts(text)},
				{Name: field + "2", Kind: segment.KindFloat, Numbers: floats(number)},
				{Name: field + "3", Kind: segment.KindInt, Numbers: []uint64{uint64(integer)}},
				{Name: field + "4", Kind: segment.KindUint, Numbers: []uint64{uint64(integer)}},
				{Name: field + "5", Kind: segment.KindBool, Numbers: []uint64{uint64(integer) & 1}},
			},
		}
		line := encodeAll(newLineEncoder(measurement), nil, block)
		want := []string{
			measurement, key, value, fmt.Sprintf("%q %q", field+"1", text), fmt.Sprintf("%q %v", field+"2", number),
			fmt.Sprintf("%q %v", field+"3", integer), fmt.Sprintf("%q %v", field+"4", uint64(integer)),
			fmt.Sprintf("%q %v", field+"5", integer&1 == 1), fmt.Sprint(at),
		}
		got, err := decodeLine(line)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("line %q: %v (-want +got):\n%s", line, err, diff)
		}
	})
}

func isFinite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }

// decodeLine returns the parts of a line with one tag.
func decodeLine(line []byte) ([]string, error) {
	d := lineprotocol.NewDecoderWithBytes(line)
	if !d.Next() {
		return nil, io.ErrUnexpectedEOF
	}
	measurement, err := d.Measurement()
	if err != nil {
		return nil, err
	}
	parts := []string{string(measurement)}
	for {
		key, value, err := d.NextTag()
		if err != nil {
			return nil, err
		}
		if key == nil {
			break
		}
		parts = append(parts, string(key), string(value))
	}
	for {
		key, value, err := d.NextField()
		if err != nil {
			return nil, err
		}
		if key == nil {
			break
		}
		if value.Kind() == lineprotocol.String {
			parts = append(parts, fmt.Sprintf("%q %q", key, value.StringV()))
			continue
		}
		parts = append(parts, fmt.Sprintf("%q %v", key, value.Interface()))
	}
	at, err := d.Time(lineprotocol.Nanosecond, time.Time{})
	return append(parts, fmt.Sprint(at.UnixNano())), err
}

// TestTextReadsBack writes random text as JSON and CSV and reads it with the standard library.
func TestTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var got string
		if err := json.Unmarshal(appendJSONString(nil, []byte(text)), &got); err != nil || got != text {
			t.Fatalf("JSON: got %q, %v, want %q", got, err, text)
		}
		if strings.Contains(text, "\r\n") {
			return // the reader makes a line feed of it
		}
		record, err := csv.NewReader(strings.NewReader(string(appendCSVText(nil, []byte(text))) + ",end\n")).Read()
		if err != nil || record[0] != text {
			t.Fatalf("CSV: got %q, %v, want %q", record, err, text)
		}
	})
}

// tsbs returns Blocks of the shape of TSBS devops cpu: 10 tags and 10 integer fields.
func tsbs(kind segment.Kind) *segment.Block {
	const rows = 4096
	tags := []string{
		"arch", "x86", "datacenter", "eu-central-1a", "hostname", "host_17", "os", "Ubuntu16.10", "rack", "67",
		"region", "eu-central-1", "service", "7", "service_environment", "production", "service_version", "0",
		"team", "SF",
	}
	b := &segment.Block{Runs: []segment.Run{{Key: seriesKey(tags...), Rows: rows}}}
	for row := range rows {
		b.Times = append(b.Times, 1451606400000000000+int64(row)*1e10)
	}
	for _, name := range []string{
		"usage_guest", "usage_guest_nice", "usage_idle", "usage_iowait", "usage_irq", "usage_nice", "usage_softirq",
		"usage_steal", "usage_system", "usage_user",
	} {
		c := segment.Column{Name: name, Kind: kind}
		for row := range rows {
			value := uint64(row*7%100 + 1)
			if kind == segment.KindFloat {
				value = math.Float64bits(float64(value) + 0.25)
			}
			c.Numbers = append(c.Numbers, value)
		}
		b.Columns = append(b.Columns, c)
	}
	return b
}

func tsbsColumns(b *segment.Block) []segment.ColumnDef {
	var columns []segment.ColumnDef
	segment.EachTag(b.Runs[0].Key, func(name, _ []byte) {
		columns = append(columns, segment.ColumnDef{Name: string(name), Kind: segment.KindTag})
	})
	for _, c := range b.Columns {
		columns = append(columns, segment.ColumnDef{Name: c.Name, Kind: c.Kind})
	}
	return columns
}

func TestRowsAllocateNothing(t *testing.T) {
	b := tsbs(segment.KindFloat)
	for _, format := range []string{formatLines, formatCSV, formatJSON} {
		e, header := newEncoder(format, "cpu", tsbsColumns(b))
		dst := encodeAll(e, header, b)
		allocations := testing.AllocsPerRun(5, func() {
			if err := e.block(b); err != nil {
				t.Fatal(err)
			}
			e.series(b.Runs[0].Key)
			for row := range b.Times {
				dst = e.row(dst[:0], row)
			}
		})
		if allocations > 2 { // the closures that walk the tags
			t.Errorf("%s: got %g allocations for %d rows, want at most 2", format, allocations, len(b.Times))
		}
	}
}

func BenchmarkScanEncode(b *testing.B) {
	for _, kind := range []segment.Kind{segment.KindInt, segment.KindFloat} {
		for _, format := range []string{formatLines, formatCSV, formatJSON} {
			b.Run(format+"/"+kind.String(), func(b *testing.B) {
				block := tsbs(kind)
				e, header := newEncoder(format, "cpu", tsbsColumns(block))
				dst := encodeAll(e, header, block)
				b.SetBytes(int64(len(dst)))
				b.ReportAllocs()
				for b.Loop() {
					if err := e.block(block); err != nil {
						b.Fatal(err)
					}
					e.series(block.Runs[0].Key)
					dst = dst[:0]
					for row := range block.Times {
						dst = e.row(dst, row)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(block.Times)), "ns/row")
			})
		}
	}
}
