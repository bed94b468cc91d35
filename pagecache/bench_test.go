package pagecache

import (
	"bytes"
	"testing"
)

func BenchmarkReserve(b *testing.B) {
	c := NewController(Options{CapacityBytes: 1 << 30})
	for range 8 { // as many as shards have reservations open
		reserve(b, c, mib)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, _ := c.Reserve(mib)
		r.Release()
	}
}

func BenchmarkReserveRefused(b *testing.B) {
	c := NewController(Options{CapacityBytes: 1 << 30})
	c.Register(1 << 30)
	b.ReportAllocs()
	b.RunParallel(func(loop *testing.PB) {
		for loop.Next() {
			if _, ok := c.Reserve(mib); ok {
				b.Error("granted beyond the bound")
			}
		}
	})
}

func BenchmarkMaySeal(b *testing.B) {
	for _, bench := range []struct {
		name       string
		registered int64
	}{
		{"below soft", 0},
		{"paced", 900 << 20},
		{"at the bound", 1 << 30},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := NewController(Options{CapacityBytes: 1 << 30})
			c.Register(bench.registered)
			c.Drained(mib, 1e9)
			b.ReportAllocs()
			b.RunParallel(func(loop *testing.PB) {
				for loop.Next() {
					c.MaySeal(mib)
				}
			})
		})
	}
}

func BenchmarkRetryAfter(b *testing.B) {
	c := NewController(Options{CapacityBytes: 1 << 30})
	c.Register(1 << 30)
	c.Drained(mib, 1e9)
	b.ReportAllocs()
	for b.Loop() {
		c.RetryAfter(mib, mib)
	}
}

func BenchmarkReaderHit(b *testing.B) {
	const size = 64 * PageBytesDefault
	c, err := NewCache(Options{CapacityBytes: 2 * size})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	data := content(1, size)
	writeThrough(b, c, 1, data)
	opened := c.Reader(1, bytes.NewReader(data), size)
	for _, bench := range []struct {
		name   string
		length int
	}{{"4KiB", 4 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(bench.length))
			b.ReportAllocs()
			b.RunParallel(func(loop *testing.PB) {
				p := make([]byte, bench.length)
				for offset := int64(0); loop.Next(); offset = (offset + 4096) % (size - int64(bench.length)) {
					if _, err := opened.ReadAt(p, offset); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkWriteThrough(b *testing.B) {
	const size = 64 * PageBytesDefault
	c, err := NewCache(Options{CapacityBytes: 2 * size})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	file := bytes.NewReader(content(1, size))
	b.SetBytes(size)
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		id++
		if err := c.WriteThrough(id, file, size); err != nil {
			b.Fatal(err)
		}
		c.Retire(id, size)
	}
}
