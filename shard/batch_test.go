package shard

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"lineweir/segment"
)

// heapBytes returns what fn adds to the heap. What others left in pools goes before, and what fn did goes after.
func heapBytes(fn func()) int64 {
	var before, after runtime.MemStats
	emptyPools()
	runtime.ReadMemStats(&before)
	fn()
	emptyPools()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// The size of a batch is about its memory, whatever its shape: the budget of the writes in flight relies on it.
func TestSizeBytesIsAboutTheMemory(t *testing.T) {
	wide := load{name: "wide", batch: func(b *Batch, _ int64) {
		for i := range 100 {
			p := &Point{Measurement: fmt.Appendf(nil, "x%d", i)}
			for f := range 300 {
				p.Fields = append(p.Fields, field(fmt.Sprintf("%x", f), 1.5))
			}
			mustAppend(b, p)
		}
	}}
	sparse := load{name: "sparse", batch: func(b *Batch, _ int64) {
		for i := range 1000 {
			mustAppend(b, &Point{Measurement: []byte("m"), Time: int64(i), Fields: []Field{field(fmt.Sprintf("f%d", i), 1.5)}})
		}
	}}
	short := load{name: "short", batch: func(b *Batch, _ int64) {
		for i := range 50_000 {
			mustAppend(b, &Point{Measurement: []byte("m"), Time: int64(i), Fields: []Field{field("v", int64(1))}})
		}
	}}
	measurements := load{name: "measurements", batch: func(b *Batch, _ int64) {
		for i := range 10_000 {
			mustAppend(b, &Point{Measurement: fmt.Appendf(nil, "m%d", i), Fields: []Field{field("v", int64(1))}})
		}
	}}
	limits := Limits{ColumnsPerMeasurement: 2000, MeasurementsPerBatch: 10_000, MeasurementsPerMemtable: 10_000}
	for _, l := range append(loads(), wide, sparse, short, measurements) {
		t.Run(l.name, func(t *testing.T) {
			var b *Batch
			took := heapBytes(func() {
				b = NewBatch("db", limits, 2)
				l.batch(b, 0)
			})
			if size := b.SizeBytes(); size < took*8/10 || size > 2*took {
				t.Errorf("SizeBytes is %d, the heap grew by %d", size, took)
			} else {
				t.Logf("SizeBytes is %d, the heap grew by %d", size, took)
			}
		})
	}
}

// Lines that are refused hold no memory, however many measurements they name.
func TestRefusedLinesHoldNoMemory(t *testing.T) {
	limits := Limits{ColumnsPerMeasurement: 10, MeasurementsPerBatch: 10_000, MeasurementsPerMemtable: 10_000}
	b := NewBatch("db", limits, 2)
	tags := []Tag{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a"), Value: []byte("2")}}
	took := heapBytes(func() {
		for i := range 20_000 {
			p := &Point{Measurement: fmt.Appendf(nil, "m%d", i), Tags: tags, Fields: []Field{field("f", 1.5)}}
			if err := b.Append(p); err == nil {
				t.Fatal("a double tag was taken")
			}
		}
	})
	if took > 1<<20 {
		t.Errorf("20,000 refused lines hold %d bytes", took)
	}
	mustAppend(b, &Point{Measurement: []byte("m1"), Fields: []Field{field("f", 1.5)}})
	if len(b.order) != 1 || b.Points() != 1 {
		t.Errorf("%d points of %d measurements", b.Points(), len(b.order))
	}
}

// What a batch keeps between requests is bounded over all of them, whatever each of them brings.
func TestAReleasedBatchKeepsLittle(t *testing.T) {
	e := start(t, testOptions(t.TempDir()))
	b := e.NewBatch("db")
	random := rand.New(rand.NewPCG(1, 1))
	text := []byte(strings.Repeat("x", 1<<20))
	for range 300 {
		b.reset("db")
		for n := range random.Int64N(12) {
			mustAppend(b, &Point{
				Measurement: fmt.Appendf(nil, "m%d", random.IntN(200)), Time: n,
				Fields: []Field{{Key: []byte("s"), Kind: segment.KindString, String: text}},
			})
		}
		b.Release()
		kept := int64(0)
		for _, m := range b.measurements {
			kept += m.sizeBytes()
		}
		if kept != b.keptBytes || kept > batchBytesKept {
			t.Fatalf("the batch keeps %d bytes and counts %d, allowed are %d", kept, b.keptBytes, batchBytesKept)
		}
	}
}
