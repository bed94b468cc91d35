package ingest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"lineweir/shard"
)

// Short lines take many times their text: the claim follows while the batch grows, and a spent budget ends the parse.
func TestTheClaimGrowsWithTheBatch(t *testing.T) {
	limits := shard.Limits{ColumnsPerMeasurement: 10, MeasurementsPerBatch: 10, MeasurementsPerMemtable: 10}
	text := bytes.Repeat([]byte("m v=1\n"), 100_000)
	tests := map[string]struct {
		limitBytes, othersBytes int64
		want                    error
	}{
		"room":      {limitBytes: 64 << 20},
		"too large": {limitBytes: 1 << 20, want: errBodyTooLarge},
		"spent":     {limitBytes: 64 << 20, othersBytes: 63 << 20, want: &shard.BackpressureError{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := &budget{limitBytes: tc.limitBytes}
			b.usedBytes.Store(tc.othersBytes)
			c := claim{budget: b}
			batch := shard.NewBatch("db", limits, 1)
			m := meter{batch: batch, claim: &c}
			result, err := NewParser(DefaultLineLimits()).Parse(text, PrecisionNanosecond, time.Now(), &m)
			var refused *shard.BackpressureError
			switch {
			case tc.want == nil:
				if err != nil || m.settle() != nil || c.heldBytes != batch.SizeBytes() {
					t.Errorf("%v; claimed %d of %d bytes", err, c.heldBytes, batch.SizeBytes())
				}
			case !errors.Is(err, tc.want) && !errors.As(err, &refused):
				t.Errorf("got %v, want %T", err, tc.want)
			case result.Points >= 100_000 || b.usedBytes.Load() > tc.limitBytes:
				t.Errorf("%d points parsed, %d of %d bytes used", result.Points, b.usedBytes.Load(), tc.limitBytes)
			}
		})
	}
}
