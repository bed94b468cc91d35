package segment

import (
	"fmt"
	"testing"
)

// BenchmarkManyMeasurements writes, registers and compacts a flush of many small measurements on a real disk.
func BenchmarkManyMeasurements(b *testing.B) {
	const measurements = 2000
	for b.Loop() {
		s := openTestStore(b, StoreOptions{Dir: b.TempDir()})
		c := newTestCompactor(b, CompactorOptions{Store: s})
		all := map[string][]row{}
		for i := range measurements {
			all[fmt.Sprintf("measurement_%d", i)] = series("a", noon, 10, 1)
		}
		if err := flushRows(s, all); err != nil {
			b.Fatal(err)
		}
		compactAll(b, c)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*measurements), "µs/measurement")
}
