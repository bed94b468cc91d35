package segment

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// cell is one value of a field.
type cell struct {
	Kind   Kind
	Number uint64
	Text   string
}

func float(f float64) cell   { return cell{Kind: KindFloat, Number: math.Float64bits(f)} }
func integer(i int64) cell   { return cell{Kind: KindInt, Number: uint64(i)} }
func unsigned(u uint64) cell { return cell{Kind: KindUint, Number: u} }
func text(s string) cell     { return cell{Kind: KindString, Text: s} }

func boolean(b bool) cell {
	if b {
		return cell{Kind: KindBool, Number: 1}
	}
	return cell{Kind: KindBool}
}

// row is a point in the form in which tests compare them.
type row struct {
	Key    string
	Time   int64
	Fields map[string]cell
}

// key returns the key of a series given as name, value, name, value ...
func key(tags ...string) string {
	var parsed []Tag
	for i := 0; i < len(tags); i += 2 {
		parsed = append(parsed, Tag{[]byte(tags[i]), []byte(tags[i+1])})
	}
	slices.SortFunc(parsed, func(a, b Tag) int { return bytes.Compare(a.Key, b.Key) })
	return string(AppendKey(nil, parsed))
}

// infoOf returns the FileInfo for rows, which it sorts.
func infoOf(rows []row) FileInfo {
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Time, b.Time))
	})
	tags, fields := map[string]bool{}, map[string]Kind{}
	for _, r := range rows {
		EachTag([]byte(r.Key), func(name, _ []byte) { tags[string(name)] = true })
		for name, c := range r.Fields {
			fields[name] = c.Kind
		}
	}
	info := FileInfo{Database: "db", Measurement: "m", Tags: slices.Sorted(maps.Keys(tags))}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		info.Fields = append(info.Fields, ColumnDef{name, fields[name]})
	}
	return info
}

// blocksOf returns sorted rows as blocks of at most blockRows rows.
func blocksOf(rows []row, blockRows int) []*Block {
	var blocks []*Block
	for part := range slices.Chunk(rows, blockRows) {
		blocks = append(blocks, blockOf(part))
	}
	return blocks
}

func blockOf(rows []row) *Block {
	b := new(Block)
	fields := map[string]Kind{}
	for _, r := range rows {
		if n := len(b.Runs); n > 0 && string(b.Runs[n-1].Key) == r.Key {
			b.Runs[n-1].Rows++
		} else {
			b.Runs = append(b.Runs, Run{Key: []byte(r.Key), Rows: 1})
		}
		b.Times = append(b.Times, r.Time)
		for name, c := range r.Fields {
			fields[name] = c.Kind
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		b.Columns = append(b.Columns, columnOf(rows, name, fields[name]))
	}
	return b
}

func columnOf(rows []row, name string, kind Kind) Column {
	c := Column{Name: name, Kind: kind}
	complete := true
	for _, r := range rows {
		value, ok := r.Fields[name]
		complete = complete && ok
		c.Valid = append(c.Valid, ok)
		if kind == KindString {
			c.Strings = append(c.Strings, []byte(value.Text))
		} else {
			c.Numbers = append(c.Numbers, value.Number)
		}
	}
	if complete {
		c.Valid = nil
	}
	return c
}

// rowsOf checks a block against the rules of Block and returns its rows.
func rowsOf(t testing.TB, b *Block) []row {
	t.Helper()
	total := 0
	for _, r := range b.Runs {
		total += r.Rows
	}
	if total != len(b.Times) || total == 0 {
		t.Fatalf("runs have %d rows, times %d", total, len(b.Times))
	}
	rows := make([]row, 0, total)
	for _, r := range b.Runs {
		for range r.Rows {
			rows = append(rows, row{Key: string(r.Key), Time: b.Times[len(rows)], Fields: map[string]cell{}})
		}
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		if i > 0 && b.Columns[i-1].Name >= c.Name {
			t.Fatalf("column %q after %q", c.Name, b.Columns[i-1].Name)
		}
		if (c.Valid != nil && len(c.Valid) != total) || len(c.Numbers)+len(c.Strings) != total {
			t.Fatalf("column %q has %d numbers, %d strings, %d of validity for %d rows",
				c.Name, len(c.Numbers), len(c.Strings), len(c.Valid), total)
		}
		for j := range rows {
			switch {
			case c.Valid != nil && !c.Valid[j]:
			case c.Kind == KindString:
				rows[j].Fields[c.Name] = cell{Kind: c.Kind, Text: string(c.Strings[j])}
			default:
				rows[j].Fields[c.Name] = cell{Kind: c.Kind, Number: c.Numbers[j]}
			}
		}
	}
	return rows
}

// collect reads a source to its end, closes it, and checks the order of rows.
func collect(t testing.TB, src Source) []row {
	t.Helper()
	rows, err := drain(t, src)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(rows); i++ {
		if cmp.Or(cmp.Compare(rows[i-1].Key, rows[i].Key), cmp.Compare(rows[i-1].Time, rows[i].Time)) >= 0 {
			t.Fatalf("row %d: %q %d after %q %d", i, rows[i].Key, rows[i].Time, rows[i-1].Key, rows[i-1].Time)
		}
	}
	return rows
}

// diffRows returns the first difference between rows, or nothing.
func diffRows(want, got []row) string {
	for i := range min(len(want), len(got)) {
		a, b := &want[i], &got[i]
		if a.Key != b.Key || a.Time != b.Time || !maps.Equal(a.Fields, b.Fields) {
			return fmt.Sprintf("row %d:\n%s", i, gocmp.Diff(*a, *b))
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d rows, want %d", len(got), len(want))
	}
	return ""
}

func drain(t testing.TB, src Source) (rows []row, err error) {
	t.Helper()
	for {
		b, err := src.Next()
		if err == io.EOF {
			return rows, src.Close()
		}
		if err != nil {
			return rows, errors.Join(err, src.Close())
		}
		rows = append(rows, rowsOf(t, b)...)
	}
}

// blockSource hands out blocks. With scratch, it spoils what it has handed out before, as sources that reuse their
// memory do.
type blockSource struct {
	blocks []*Block
	last   *Block
	closed int
}

func sourceOf(blocks ...*Block) *blockSource { return &blockSource{blocks: blocks} }

func (s *blockSource) Next() (*Block, error) {
	s.spoil()
	if len(s.blocks) == 0 {
		return nil, io.EOF
	}
	s.last = cloneBlock(s.blocks[0])
	s.blocks = s.blocks[1:]
	return s.last, nil
}

func (s *blockSource) spoil() {
	if s.last == nil {
		return
	}
	for _, r := range s.last.Runs {
		clear(r.Key)
	}
	clear(s.last.Times)
	for _, c := range s.last.Columns {
		clear(c.Valid)
		clear(c.Numbers)
		for _, text := range c.Strings {
			clear(text)
		}
	}
	s.last = nil
}

func (s *blockSource) Close() error {
	s.spoil()
	s.closed++
	return nil
}

func cloneBlock(b *Block) *Block {
	clone := &Block{Times: slices.Clone(b.Times)}
	for _, r := range b.Runs {
		clone.Runs = append(clone.Runs, Run{bytes.Clone(r.Key), r.Rows})
	}
	for _, c := range b.Columns {
		c.Valid, c.Numbers = slices.Clone(c.Valid), slices.Clone(c.Numbers)
		texts := c.Strings
		c.Strings = nil
		for _, text := range texts {
			c.Strings = append(c.Strings, append([]byte{}, text...))
		}
		clone.Columns = append(clone.Columns, c)
	}
	return clone
}

// replay hands out the same blocks again and again, without copying them. For benchmarks.
type replay struct {
	blocks []*Block
	next   int
}

func (s *replay) Next() (*Block, error) {
	if s.next == len(s.blocks) {
		s.next = 0
		return nil, io.EOF
	}
	s.next++
	return s.blocks[s.next-1], nil
}

func (s *replay) Close() error { return nil }

// cpuData returns data like that of the TSBS devops cpu workload: 10 tags, 10 integer fields that walk between 0 and
// 100, one row per host every ten seconds.
func cpuData(hosts, rowsPerHost int, start int64) (FileInfo, []*Block) {
	info := FileInfo{Database: "benchmark", Measurement: "cpu"}
	info.Tags = []string{"arch", "datacenter", "hostname", "os", "rack", "region", "service", "service_environment",
		"service_version", "team"}
	for name := range strings.FieldsSeq("guest guest_nice idle iowait irq nice softirq steal system user") {
		info.Fields = append(info.Fields, ColumnDef{"usage_" + name, KindInt})
	}
	rng := rand.New(rand.NewPCG(7, uint64(start)))
	var keys []string
	for host := range hosts {
		region := fmt.Sprintf("eu-central-%d", host%9)
		pick := func(values ...string) string { return values[host%len(values)] }
		keys = append(keys, key("arch", pick("x64", "x86"), "datacenter", region+pick("a", "b", "c"),
			"hostname", fmt.Sprintf("host_%d", host), "os", pick("Ubuntu15.10", "Ubuntu16.04LTS", "Ubuntu16.10"),
			"rack", fmt.Sprint(host%100), "region", region, "service", fmt.Sprint(host%20),
			"service_environment", pick("production", "staging", "test"), "service_version", pick("0", "1"),
			"team", pick("CHI", "LON", "NYC", "SF")))
	}
	slices.Sort(keys)
	var blocks []*Block
	limit := BlockRows(1 + len(info.Fields))
	var b *Block
	walk := make([]uint64, len(info.Fields))
	for _, k := range keys {
		for i := range walk {
			walk[i] = rng.Uint64N(101)
		}
		for r := range rowsPerHost {
			if b == nil || len(b.Times) == limit {
				b = &Block{Columns: make([]Column, len(info.Fields))}
				for i, def := range info.Fields {
					b.Columns[i] = Column{Name: def.Name, Kind: def.Kind}
				}
				blocks = append(blocks, b)
			}
			if n := len(b.Runs); n > 0 && string(b.Runs[n-1].Key) == k {
				b.Runs[n-1].Rows++
			} else {
				b.Runs = append(b.Runs, Run{Key: []byte(k), Rows: 1})
			}
			b.Times = append(b.Times, start+int64(r)*10e9)
			for i := range walk {
				walk[i] = min(max(walk[i]+rng.Uint64N(3), 1)-1, 100)
				b.Columns[i].Numbers = append(b.Columns[i].Numbers, walk[i])
			}
		}
	}
	return info, blocks
}

// skipUnderRace leaves out a test that works in one goroutine and takes long under the race detector.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("one goroutine: the race detector would find nothing, slowly")
	}
}
