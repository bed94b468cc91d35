package shard

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
	"lineweir/segment"
)

// A load makes the points of one batch; n counts batches.
type load struct {
	name  string
	batch func(b *Batch, n int64)
}

const benchRows = 5000

// tsbs is the devops cpu shape: ten tags, ten integer fields, 4,000 hosts, each once per tick of ten seconds.
func tsbs() load {
	const hosts = 4000
	tagNames := []string{
		"arch", "datacenter", "hostname", "os", "rack", "region", "service", "service_environment", "service_version", "team",
	}
	fieldNames := []string{
		"usage_guest", "usage_guest_nice", "usage_idle", "usage_iowait", "usage_irq", "usage_nice", "usage_softirq",
		"usage_steal", "usage_system", "usage_user",
	}
	series := make([][]Tag, hosts)
	for h := range series {
		for i, name := range tagNames {
			value := fmt.Sprintf("value-%d", h%(3+i*7))
			if name == "hostname" {
				value = fmt.Sprintf("host_%d", h)
			}
			series[h] = append(series[h], Tag{Key: []byte(name), Value: []byte(value)})
		}
	}
	return load{name: "tsbs", batch: func(b *Batch, n int64) {
		random := rand.New(rand.NewPCG(uint64(n), 7))
		p := Point{Measurement: []byte("cpu")}
		for i := range int64(benchRows) {
			row := n*benchRows + i
			p.Tags = append(p.Tags[:0], series[row%hosts]...)
			p.Time = 1_700_000_000e9 + row/hosts*10e9
			p.Fields = p.Fields[:0]
			for _, name := range fieldNames {
				p.Fields = append(p.Fields, Field{Key: []byte(name), Kind: segment.KindInt, Number: random.Uint64N(101)})
			}
			mustAppend(b, &p)
		}
	}}
}

// telegraf is a mix of six measurements with two to five tags and five to twenty mixed fields.
func telegraf() load {
	return load{name: "telegraf", batch: func(b *Batch, n int64) {
		random := rand.New(rand.NewPCG(uint64(n), 8))
		for i := range int64(benchRows) {
			row := n*benchRows + i
			kind, host := row%6, row/6%200
			p := Point{Measurement: fmt.Appendf(nil, "input%d", kind), Time: 1_700_000_000e9 + row/1200*10e9}
			for tag := range 2 + kind%4 {
				p.Tags = append(p.Tags, Tag{Key: fmt.Appendf(nil, "tag%d", tag), Value: fmt.Appendf(nil, "v%d", host/(1+tag))})
			}
			for f := range 5 + kind*3 {
				p.Fields = append(p.Fields, mixedField(f, random))
			}
			mustAppend(b, &p)
		}
	}}
}

func mixedField(f int64, random *rand.Rand) Field {
	field := Field{Key: fmt.Appendf(nil, "field%02d", f)}
	switch f % 5 {
	case 0, 1:
		field.Kind, field.Number = segment.KindFloat, math.Float64bits(random.Float64()*100)
	case 2, 3:
		field.Kind, field.Number = segment.KindInt, random.Uint64N(1<<30)
	default:
		field.Kind, field.Number = segment.KindBool, random.Uint64N(2)
	}
	return field
}

// cardinality is a million series with one field.
func cardinality() load {
	return load{name: "cardinality", batch: func(b *Batch, n int64) {
		p := Point{Measurement: []byte("hc")}
		for i := range int64(benchRows) {
			row := n*benchRows + i
			p.Tags = append(p.Tags[:0], Tag{Key: []byte("id"), Value: fmt.Appendf(nil, "series-%07d", row%1_000_000)})
			p.Fields = append(p.Fields[:0], Field{Key: []byte("value"), Kind: segment.KindFloat, Number: uint64(row)})
			p.Time = 1_700_000_000e9 + row/1_000_000
			mustAppend(b, &p)
		}
	}}
}

func mustAppend(b *Batch, p *Point) {
	if err := b.Append(p); err != nil {
		panic(err)
	}
}

func loads() []load { return []load{tsbs(), telegraf(), cardinality()} }

func benchBatch(l load, n int64) *Batch {
	limits := Limits{ColumnsPerMeasurement: 1024, MeasurementsPerBatch: 10000, MeasurementsPerMemtable: 20000}
	b := NewBatch("db", limits, 1)
	l.batch(b, n)
	return b
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
}

func BenchmarkApply(b *testing.B) {
	for _, l := range loads() {
		b.Run(l.name, func(b *testing.B) {
			batches := []*Batch{benchBatch(l, 0), benchBatch(l, 1), benchBatch(l, 2), benchBatch(l, 3)}
			b.ReportAllocs()
			var m *Memtable
			n := 0
			for b.Loop() {
				if n%40 == 0 {
					m = newMemtable(1, 64<<20)
				}
				m.insert(batches[n%len(batches)], 0, uint64(n+1), nil)
				n++
			}
			perRow(b, benchRows)
		})
	}
}

func BenchmarkFlush(b *testing.B) {
	for _, l := range loads() {
		b.Run(l.name, func(b *testing.B) {
			store, err := segment.OpenStore(segment.StoreOptions{FS: vfs.OS, Dir: b.TempDir(), Logger: zap.NewNop()})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			c, err := NewFlushController(ControllerOptions{
				Memtable: MemtableOptions{MaxBytes: 1 << 30, MaxRows: 1 << 30, FrozenMax: 1, MaxAge: time.Hour}, Files: store,
			})
			if err != nil {
				b.Fatal(err)
			}
			const batches = 20
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for n := range int64(batches) {
					if err := c.InsertWithWALSeq(benchBatch(l, n), uint64(n+1)); err != nil {
						b.Fatal(err)
					}
				}
				freeze(b, c)
				b.StartTimer()
				if _, err := c.FlushFrozen(); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, batches*benchRows)
		})
	}
}

// benchOptions returns options near the defaults of a small machine.
func benchOptions(dir string) Options {
	o := testOptions(dir)
	o.Memtable = MemtableOptions{MaxBytes: 64 << 20, MaxRows: 1_000_000, MaxAge: time.Minute, FrozenMax: 1}
	o.Tier = TierOptions{CapacityBytes: 512 << 20, SoftFraction: 0.75, PageBytes: 64 << 10}
	o.WAL = WALOptions{FileBytes: 64 << 20, MaxBytes: 4 << 30}
	o.Admission.MaxWait = 2 * time.Second
	return o
}

func BenchmarkAdmit(b *testing.B) {
	e := start(b, benchOptions(b.TempDir()))
	batch := e.NewBatch("db")
	tsbs().batch(batch, 0)
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Admit(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommit writes batches of one point from many writers: commit, group fsync, apply.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			e := start(b, benchOptions(b.TempDir()))
			payload := make([]byte, 300)
			var series atomic.Int64
			b.SetParallelism((writers + 1) / 2)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				p := at(fmt.Sprintf("s%d", series.Add(1)), 0, 1)
				point := p.point()
				for pb.Next() {
					batch := e.NewBatch("db")
					point.Time++
					mustAppend(batch, point)
					if err := e.Write(context.Background(), batch, payload); err != nil {
						b.Error(err)
					}
					batch.Release()
				}
			})
		})
	}
}
