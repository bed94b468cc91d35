package segment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// seriesData returns one row for each of many series with two tags and one field.
func seriesData(series int) (FileInfo, []*Block) {
	info := FileInfo{Database: "benchmark", Measurement: "series", Tags: []string{"device", "site"},
		Fields: []ColumnDef{{"value", KindFloat}}}
	var keys []string
	for i := range series {
		keys = append(keys, key("device", fmt.Sprintf("device-%07d", i), "site", fmt.Sprint("site-", i%1000)))
	}
	slices.Sort(keys)
	rng := rand.New(rand.NewPCG(1, 1))
	var blocks []*Block
	for part := range slices.Chunk(keys, BlockRows(2)) {
		b := &Block{Columns: []Column{{Name: "value", Kind: KindFloat}}}
		for _, k := range part {
			b.Runs = append(b.Runs, Run{Key: []byte(k), Rows: 1})
			b.Times = append(b.Times, 1e18+rng.Int64N(1e10))
			b.Columns[0].Numbers = append(b.Columns[0].Numbers, math.Float64bits(rng.NormFloat64()))
		}
		blocks = append(blocks, b)
	}
	return info, blocks
}

// agentData returns what an agent like Telegraf collects of disks: five tags, of which some series lack one, and twelve
// fields of all kinds, of which some rows lack one.
func agentData(series, rowsPerSeries int) (FileInfo, []*Block) {
	rng := rand.New(rand.NewPCG(2, 2))
	var rows []row
	for i := range series {
		pairs := []string{"device", fmt.Sprint("nvme", i%8), "fstype", "ext4",
			"host", fmt.Sprintf("server-%04d.example.org", i/8), "path", fmt.Sprint("/mnt/", i%8)}
		if i%3 > 0 {
			pairs = append(pairs, "mode", "rw")
		}
		k := key(pairs...)
		used := rng.Int64N(1 << 38)
		for r := range rowsPerSeries {
			used += rng.Int64N(1<<20) - 1<<18
			f := map[string]cell{
				"total": unsigned(1 << 40), "used": integer(used), "free": integer(1<<40 - used),
				"used_percent": float(float64(used) / (1 << 40) * 100), "inodes": integer(int64(1e6 + i)),
				"ok": boolean(r%100 > 0), "latency": float(rng.ExpFloat64()),
				"temperature": float(30 + math.Round(rng.NormFloat64()*10)/10),
			}
			if r%10 > 0 {
				f["queue"] = integer(rng.Int64N(16))
				f["rate"] = float(rng.NormFloat64() * 1e6)
			}
			if r%20 == 0 {
				f["state"] = text([]string{"clean", "active", "degraded"}[rng.IntN(3)])
				f["firmware"] = text("1.2.3-4567")
			}
			rows = append(rows, row{k, 1e18 + int64(r)*10e9 + rng.Int64N(1e6), f})
		}
	}
	info := infoOf(rows)
	return info, blocksOf(rows, BlockRows(1+len(info.Fields)))
}

type benchmarkData struct {
	name   string
	info   FileInfo
	blocks []*Block
}

// eachData runs a benchmark on every kind of data.
func eachData(b *testing.B, run func(b *testing.B, info FileInfo, blocks []*Block)) {
	for _, data := range []func() benchmarkData{
		func() benchmarkData {
			info, blocks := cpuData(4000, 100, 1e18)
			return benchmarkData{"cpu", info, blocks}
		},
		func() benchmarkData {
			info, blocks := agentData(1000, 100)
			return benchmarkData{"agent", info, blocks}
		},
		func() benchmarkData {
			info, blocks := seriesData(500_000)
			return benchmarkData{"series", info, blocks}
		},
	} {
		d := data()
		b.Run(d.name, func(b *testing.B) { run(b, d.info, d.blocks) })
	}
}
