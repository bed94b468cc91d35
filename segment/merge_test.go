package segment

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// merged is what Merge should yield: a map, filled from the oldest source to the newest.
func merged(sources [][]row) []row {
	type place struct {
		key  string
		time int64
	}
	fields := map[place]map[string]cell{}
	for _, rows := range slices.Backward(sources) {
		for _, r := range rows {
			at := place{r.Key, r.Time}
			if fields[at] == nil {
				fields[at] = map[string]cell{}
			}
			maps.Copy(fields[at], r.Fields)
		}
	}
	var rows []row
	for at, f := range fields {
		rows = append(rows, row{at.key, at.time, f})
	}
	infoOf(rows)
	return rows
}

// randomRows returns sorted rows of a few series and times, so that sources overlap, with random fields.
func randomRows(rng *rand.Rand, series, times, n int) []row {
	seen := map[string]bool{}
	var rows []row
	for range n {
		r := row{Key: key("s", fmt.Sprint(rng.IntN(series))), Time: int64(rng.IntN(times)), Fields: map[string]cell{}}
		if id := fmt.Sprint(r.Key, r.Time); seen[id] {
			continue
		} else {
			seen[id] = true
		}
		for field := range 4 {
			switch {
			case rng.IntN(3) == 0:
			case field == 3:
				r.Fields["d"] = text(strings.Repeat("x", rng.IntN(20)))
			default:
				r.Fields[string(rune('a'+field))] = integer(rng.Int64N(1000))
			}
		}
		if len(r.Fields) == 0 {
			r.Fields["b"] = integer(-1)
		}
		rows = append(rows, r)
	}
	infoOf(rows)
	return rows
}

func TestMergeAgreesWithAMap(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var model [][]row
		var sources []Source
		var closers []*blockSource
		for range rng.IntN(7) {
			rows := randomRows(rng, 1+rng.IntN(20), 1+rng.IntN(200), rng.IntN(400))
			source := sourceOf(blocksOf(rows, 1+rng.IntN(100))...)
			model = append(model, rows)
			sources = append(sources, source)
			closers = append(closers, source)
		}
		got := collect(t, Merge(sources))
		if diff := diffRows(merged(model), got); diff != "" {
			t.Fatalf("seed %d: (-want +got)\n%s", seed, diff)
		}
		for i, source := range closers {
			if source.closed != 1 {
				t.Errorf("seed %d: source %d closed %d times", seed, i, source.closed)
			}
		}
	}
}

// Rows of sources that don't overlap, in time or in series, give the same rows whatever the sizes of blocks are.
func TestMergeOfDisjointSources(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	for _, blockRows := range []int{1, 3, 50, 1000} {
		var model [][]row
		var sources []Source
		for i := range 5 {
			rows := randomRows(rng, 30, 100, 500)
			for j := range rows {
				rows[j].Time += int64(i%3) * 1000
				if i == 4 {
					rows[j].Key = key("t", rows[j].Key[2:3])
				}
			}
			infoOf(rows)
			rows = slices.CompactFunc(rows, func(a, b row) bool { return a.Key == b.Key && a.Time == b.Time })
			model = append(model, rows)
			sources = append(sources, sourceOf(blocksOf(rows, blockRows)...))
		}
		if diff := diffRows(merged(model), collect(t, Merge(sources))); diff != "" {
			t.Fatalf("blocks of %d: (-want +got)\n%s", blockRows, diff)
		}
	}
}

// A block that comes before all other rows is handed out as it is.
func TestMergePassesBlocksWithoutCopying(t *testing.T) {
	_, early := cpuData(20, 1000, 0)
	late := &Block{Runs: []Run{{Key: []byte(key("z", "z")), Rows: 1}}, Times: []int64{1},
		Columns: []Column{{Name: "f", Kind: KindInt, Numbers: []uint64{1}}}}
	m := Merge([]Source{&replay{blocks: []*Block{late}}, &replay{blocks: early}})
	for i, want := range append(early, late) {
		got, err := m.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("block %d was copied", i)
		}
	}
	if _, err := m.Next(); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestMergeBoundsItsBlocks(t *testing.T) {
	var rows [2][]row
	for i := range 40 {
		long := text(strings.Repeat("y", 200<<10))
		rows[i%2] = append(rows[i%2], row{key("s", "1"), int64(i), map[string]cell{"f": long}})
	}
	m := Merge([]Source{sourceOf(blocksOf(rows[0], 1)...), sourceOf(blocksOf(rows[1], 1)...)})
	total := 0
	for {
		b, err := m.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Times) > 6 {
			t.Fatalf("a block has %d rows of 200 KiB", len(b.Times))
		}
		total += len(b.Times)
	}
	if total != 40 {
		t.Errorf("got %d rows, want 40", total)
	}
	_, blocks := cpuData(100, 300, 0)
	_, more := cpuData(100, 300, 5e9)
	m = Merge([]Source{&replay{blocks: blocks}, &replay{blocks: more}})
	for {
		b, err := m.Next()
		if err == io.EOF {
			break
		}
		if got, limit := len(b.Times), BlockRows(1+len(b.Columns)); got > limit {
			t.Fatalf("a block has %d rows, more than %d", got, limit)
		}
	}
}

// failingSource ends with an error.
type failingSource struct {
	blockSource
	err error
}

func (s *failingSource) Next() (*Block, error) {
	b, err := s.blockSource.Next()
	if err == io.EOF {
		err = s.err
	}
	return b, err
}

func TestMergeHandsOutErrorsAndClosesAll(t *testing.T) {
	broken := errors.New("broken")
	fields := map[string]cell{"f": integer(1)}
	rows := []row{{key("s", "1"), 1, fields}, {key("s", "1"), 2, fields}}
	for name, err := range map[string]error{"plain": broken, "wraps the end": fmt.Errorf("%w: %w", broken, io.EOF)} {
		for _, blocks := range [][]*Block{nil, blocksOf(rows, 1), blocksOf(rows, 2)} {
			good := sourceOf(blocksOf(rows, 1)...)
			bad := &failingSource{blockSource{blocks: blocks}, err}
			m := Merge([]Source{good, bad, sourceOf()})
			_, got := drain(t, m)
			if !errors.Is(got, broken) {
				t.Errorf("%s: got %v", name, got)
			}
			if good.closed != 1 || bad.closed != 1 {
				t.Errorf("%s: closed %d and %d times, want once", name, good.closed, bad.closed)
			}
			if _, err := m.Next(); err == nil || err == io.EOF {
				t.Errorf("%s: Next after Close: got %v", name, err)
			}
		}
	}
}

func TestMergeRefusesTwoKinds(t *testing.T) {
	a := []row{{key("s", "1"), 1, map[string]cell{"f": integer(1)}}}
	b := []row{{key("s", "1"), 1, map[string]cell{"f": text("x")}}}
	_, err := drain(t, Merge([]Source{sourceOf(blocksOf(a, 1)...), sourceOf(blocksOf(b, 1)...)}))
	if !errors.Is(err, ErrKindMismatch) {
		t.Errorf("got %v, want %v", err, ErrKindMismatch)
	}
}

func BenchmarkMerge(b *testing.B) {
	for _, test := range []struct {
		name                 string
		sources, hosts, rows int
		step                 int64
	}{
		{"16 sources one after the other", 16, 1000, 25, 25 * 10e9},
		{"2 sources in turn", 2, 1000, 100, 5e9},
		{"2 sources the same", 2, 1000, 100, 0},
		{"16 sources of 1 row per series", 16, 10000, 1, 10e9},
	} {
		b.Run(test.name, func(b *testing.B) {
			var inputs [][]*Block
			total := 0
			for i := range test.sources {
				_, blocks := cpuData(test.hosts, test.rows, int64(i)*test.step)
				inputs = append(inputs, blocks)
				total += countRows(blocks)
			}
			b.ReportAllocs()
			for b.Loop() {
				var sources []Source
				for _, blocks := range inputs {
					sources = append(sources, &replay{blocks: blocks})
				}
				m := Merge(sources)
				for {
					if _, err := m.Next(); err == io.EOF {
						break
					}
				}
				if err := m.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(total), "ns/row")
		})
	}
}
