package segment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// costOf counts rows as an engine would, row by row.
func costOf(info FileInfo, rows []row) FileCost {
	c := FileCost{Files: 1, NameBytes: int64(len(info.Database) + len(info.Measurement))}
	for _, name := range info.Tags {
		c.Add(FileCost{Tags: 1, NameBytes: int64(len(name))})
	}
	for _, field := range info.Fields {
		c.Add(FileCost{Fields: 1, NameBytes: int64(len(field.Name))})
	}
	seriesRows := map[string]int{}
	tagValues := map[string]bool{}
	for _, r := range rows {
		c.Rows++
		tags, err := ParseKey([]byte(r.Key))
		if err != nil {
			panic(err)
		}
		if seriesRows[r.Key]++; seriesRows[r.Key] == 1 {
			c.SeriesTags += int64(len(tags))
		}
		c.TagRows += int64(len(tags))
		if seriesRows[r.Key] <= IndexedRows {
			c.TagIndexes += int64(len(tags))
		}
		for _, tag := range tags {
			if id := string(tag.Key) + "=" + string(tag.Value); !tagValues[id] {
				tagValues[id] = true
				c.Add(FileCost{TagStrings: 1, TagBytes: int64(len(tag.Value))})
			}
		}
		for _, value := range r.Fields {
			if value.Kind == KindString {
				c.Add(FileCost{Strings: 1, StringBytes: int64(len(value.Text))})
			} else {
				c.Numbers++
			}
		}
	}
	return c
}

// costlyRows returns rows of a random schema with values that no encoding makes smaller.
func costlyRows(rng *rand.Rand) []row {
	series, times := 1+rng.IntN(1<<rng.IntN(11)), 1+rng.IntN(1<<rng.IntN(10))
	tags, fields := rng.IntN(1+rng.IntN(20)), 1+rng.IntN(1<<rng.IntN(10))
	tagCardinality, presence := 1+rng.IntN(1<<rng.IntN(14)), rng.Float64()*rng.Float64()
	tagLength, textLength := rng.IntN(100), rng.IntN(1<<rng.IntN(12))
	n := min(series*times, 1+rng.IntN(1<<(4+rng.IntN(11))), 1+200000/fields)
	keys := make([]string, series)
	for i := range keys {
		pairs := []string{"id", fmt.Sprint(i)}
		for tag := range tags {
			if rng.IntN(3) > 0 {
				value := strings.Repeat("v", tagLength) + fmt.Sprint(rng.IntN(tagCardinality))
				pairs = append(pairs, fmt.Sprint("tag", tag), value)
			}
		}
		keys[i] = key(pairs...)
	}
	var rows []row
	for _, place := range rng.Perm(series * times)[:n] {
		r := row{Key: keys[place%series], Time: int64(place/series)<<32 + rng.Int64N(1<<32), Fields: map[string]cell{}}
		for f := range fields {
			if f == place%fields || rng.Float64() < presence {
				r.Fields[fmt.Sprint("field", f)] = costlyValue(rng, f, textLength)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

func costlyValue(rng *rand.Rand, field, textLength int) cell {
	switch field % 5 {
	case 0:
		return integer(int64(rng.Uint64()))
	case 1:
		return unsigned(rng.Uint64())
	case 2:
		return float(math.Float64frombits(rng.Uint64()))
	case 3:
		return text(strings.Repeat("t", rng.IntN(1+textLength)))
	default:
		return boolean(rng.IntN(2) == 0)
	}
}

func TestAFileIsNeverLargerThanItsCost(t *testing.T) {
	skipUnderRace(t)
	tightest, loosest := 0.0, math.Inf(1)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		rows := costlyRows(rng)
		file, info, _ := encode(t, rows, 0)
		share := checkCost(t, fmt.Sprint("seed ", seed), info, rows, int64(len(file)))
		tightest, loosest = max(tightest, share), min(loosest, share)
	}
	t.Logf("files fill %.0f to %.0f %% of their bounds", 100*loosest, 100*tightest)
}

func checkCost(t *testing.T, name string, info FileInfo, rows []row, sizeBytes int64) (share float64) {
	t.Helper()
	bound := costOf(info, rows).Bytes()
	if sizeBytes > bound {
		t.Errorf("%s: %d bytes, bound %d: %+v", name, sizeBytes, bound, costOf(info, rows))
	}
	return float64(sizeBytes) / float64(bound)
}

// sparseRows returns rows whose pages end because of their number, with deltas that leave most of a block empty.
func sparseRows(rng *rand.Rand, fields int) []row {
	perPage := pageRows(2+fields, 0)
	rows := make([]row, 2*perPage)
	for i := range rows {
		rows[i] = row{key(), int64(i), map[string]cell{"dense": boolean(true)}}
	}
	for f := range fields {
		for _, at := range []int{f, f + 1, f + 2, f + perPage, f + perPage + 1, f + perPage + 2} {
			rows[at].Fields[fmt.Sprintf("f%03d", f)] = integer(int64(rng.Uint64()))
		}
	}
	return rows
}

func TestCostOfSpecialFiles(t *testing.T) {
	skipUnderRace(t)
	rng := rand.New(rand.NewPCG(1, 1))
	cases := roundTripCases()
	cases["1,000 fields, one value each"] = nil
	cases["400 fields, alone in 40 rows"] = nil
	cases["200 tags"] = nil
	cases["300 fields, three values in a page"] = sparseRows(rng, 300)
	for i := range 16_000 {
		field := func(fields int) map[string]cell {
			return map[string]cell{fmt.Sprintf("f%03d", i%fields): integer(int64(rng.Uint64()))}
		}
		if i < 1000 {
			one := row{key("s", "1"), int64(i), field(1000)}
			cases["1,000 fields, one value each"] = append(cases["1,000 fields, one value each"], one)
		}
		alone := row{key("s", "1"), int64(i), field(400)}
		cases["400 fields, alone in 40 rows"] = append(cases["400 fields, alone in 40 rows"], alone)
		if i < 4000 {
			pairs := []string{}
			for tag := range 200 {
				if rng.IntN(4) == 0 {
					pairs = append(pairs, fmt.Sprint("t", tag), fmt.Sprint(rng.IntN(3000)))
				}
			}
			r := row{key(pairs...), int64(i), map[string]cell{"f": integer(1)}}
			cases["200 tags"] = append(cases["200 tags"], r)
		}
	}
	for name, rows := range cases {
		file, info, _ := encode(t, rows, 0)
		t.Logf("%s: %.0f %% of the bound", name, 100*checkCost(t, name, info, rows, int64(len(file))))
	}
}

// The bound of many small files is the sum of theirs, so one that holds for each holds for 10,000 measurements.
func TestCostOfSmallFiles(t *testing.T) {
	total, bound := int64(0), int64(0)
	for _, tags := range []int{0, 1, 5} {
		for _, fields := range []int{1, 8, 40} {
			rows := []row{{Time: math.MaxInt64, Fields: map[string]cell{}}}
			pairs := []string{}
			for tag := range tags {
				pairs = append(pairs, fmt.Sprint("tag", tag), strings.Repeat("v", 64))
			}
			rows[0].Key = key(pairs...)
			for f := range fields {
				rows[0].Fields[fmt.Sprint("f", f)] = integer(math.MinInt64)
			}
			info := infoOf(rows)
			info.Database, info.Measurement = strings.Repeat("d", 100), strings.Repeat("m", 100)
			info.MinSequence, info.MaxSequence, info.Rank = math.MaxUint64, math.MaxUint64, math.MaxUint64
			file, _ := encodeBlocks(t, info, blocksOf(rows, 1))
			total += int64(len(file))
			bound += costOf(info, rows).Bytes()
			t.Logf("%d tags, %d fields: %d bytes, bound %d", tags, fields, len(file), costOf(info, rows).Bytes())
			checkCost(t, "small", info, rows, int64(len(file)))
		}
	}
	t.Logf("together %d bytes, bound %d", total, bound)
}

func TestCostOfCPUData(t *testing.T) {
	for _, test := range []struct{ hosts, rows int }{{400, 50}, {10, 2000}, {5000, 1}} {
		info, blocks := cpuData(test.hosts, test.rows, 1e18)
		file, _ := encodeBlocks(t, info, blocks)
		var rows []row
		for _, b := range blocks {
			rows = append(rows, rowsOf(t, b)...)
		}
		checkCost(t, "cpu", info, rows, int64(len(file)))
		bound := costOf(info, rows).Bytes()
		t.Logf("%d hosts, %d rows each: %.1f B per row, bound %.1f, bound/true %.1f", test.hosts, test.rows,
			float64(len(file))/float64(len(rows)), float64(bound)/float64(len(rows)), float64(bound)/float64(len(file)))
	}
}

// Counting rows in parts, each with its own series and tag values, costs at least as much as counting them together.
func TestCostIsSubadditive(t *testing.T) {
	for seed := range uint64(100) {
		rows := costlyRows(rand.New(rand.NewPCG(seed, 10)))
		info := infoOf(rows)
		var sum int64
		for part := range slices.Chunk(rows, 1+len(rows)/7) {
			sum += costOf(infoOf(slices.Clone(part)), part).Bytes()
		}
		if total := costOf(info, rows).Bytes(); total > sum {
			t.Errorf("seed %d: %d together, %d in parts", seed, total, sum)
		}
	}
}

func TestSubtractTakesBackWhatAddBrought(t *testing.T) {
	cost := costOf(infoOf(smallRows()), smallRows())
	sum := cost
	sum.Add(cost)
	sum.Subtract(cost)
	if sum != cost {
		t.Errorf("got %+v, want %+v", sum, cost)
	}
	if sum.Subtract(cost); sum != (FileCost{}) {
		t.Errorf("left: %+v", sum)
	}
}
