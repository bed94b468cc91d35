package segment

import (
	"fmt"
	"testing"
)

// manySegments are the segments of one flush with that many measurements.
func manySegments(s *Store, measurements, columns int) []Meta {
	metas := make([]Meta, measurements)
	for i := range metas {
		var defs []ColumnDef
		for c := range columns {
			kind := KindFloat
			if c < columns/2 {
				kind = KindTag
			}
			defs = append(defs, ColumnDef{Name: fmt.Sprintf("column_%d_%d", i%100, c), Kind: kind})
		}
		metas[i] = Meta{
			ID: s.nextID.Add(1) - 1, Database: "telegraf", Measurement: fmt.Sprintf("measurement_%d", i),
			SizeBytes: 12345, Rows: 100, MinTime: 1700000000000000000, MaxTime: 1700000060000000000,
			MinSequence: 1000, MaxSequence: 2000, Columns: defs,
		}
	}
	return metas
}

// BenchmarkApply registers the segments of one flush, syncs included.
func BenchmarkApply(b *testing.B) {
	for _, measurements := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("segments=%d", measurements), func(b *testing.B) {
			b.ReportAllocs()
			s := openTestStore(b, StoreOptions{Dir: b.TempDir()})
			for b.Loop() {
				metas := manySegments(s, measurements, 20)
				ids := make([]uint64, len(metas))
				for i, m := range metas {
					ids[i] = m.ID
				}
				mustApply(b, s, Edit{Add: metas})
				mustApply(b, s, Edit{Remove: ids})
			}
		})
	}
}

// BenchmarkReplay reads a manifest with 10,000 live segments.
func BenchmarkReplayManifest(b *testing.B) {
	b.ReportAllocs()
	dir := b.TempDir()
	s := openTestStore(b, StoreOptions{Dir: dir})
	mustApply(b, s, Edit{Add: manySegments(s, 10_000, 20)})
	for b.Loop() {
		if _, err := replayManifest(s.options.FS, s.manifest.dir); err != nil {
			b.Fatal(err)
		}
	}
}
