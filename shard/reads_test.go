package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"lineweir/segment"
)

// startWithReads starts an engine whose reads may take so many bytes, with points of one measurement in memory.
func startWithReads(t *testing.T, readBytes int64, series int) *Engine {
	t.Helper()
	o := testOptions(t.TempDir())
	o.ReadBytes = readBytes
	o.Memtable.MaxBytes, o.Tier.CapacityBytes = 16<<20, 64<<20
	e := start(t, o)
	putSeries(t, e, 0, series)
	return e
}

func putSeries(t *testing.T, e *Engine, from, to int) {
	t.Helper()
	var points []testPoint
	for i := from; i < to; i++ {
		points = append(points, at(fmt.Sprintf("%06d", i), int64(i), int64(i)))
	}
	mustPut(t, e, points...)
}

func openScan(e *Engine) (*Rows, error) {
	return e.Scan(context.Background(), Query{Database: "db", Measurement: "m", Selection: segment.AllTime()})
}

// scanUntilRefused opens scans until one is refused, at most so many.
func scanUntilRefused(t *testing.T, e *Engine, most int) (open []*Rows, refused *ReadLimitError) {
	t.Helper()
	for range most {
		rows, err := openScan(e)
		if errors.As(err, &refused) {
			return open, refused
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, rows)
	}
	return open, nil
}

func closeScans(t *testing.T, open []*Rows) {
	t.Helper()
	for _, rows := range open {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReadsAreBounded opens scans of memtables and of segments until there is no memory for one more. Writes go on, and
// what ends makes room. Without a limit none is refused.
func TestReadsAreBounded(t *testing.T) {
	const series, most = 2000, 200
	for _, sealed := range []bool{false, true} {
		for _, limit := range []int64{0, 8 << 20} {
			e := startWithReads(t, limit, series)
			if sealed {
				sealAll(t, e)
			}
			open, refused := scanUntilRefused(t, e, most)
			if (refused != nil) != (limit > 0) {
				t.Fatalf("sealed %t, limit %d: %d scans are open, refused: %v", sealed, limit, len(open), refused)
			}
			putSeries(t, e, series, series+10)
			if status := e.Status().Reads; limit > 0 {
				if refused.RetryAfter < time.Second || refused.RetryAfter > time.Minute || len(open) < 2 {
					t.Errorf("got %d scans and %+v, want some and a time to come back", len(open), refused)
				}
				if status.Bytes > limit || status.Bytes < limit/2 || status.MaxBytes != limit || status.Refused != 1 {
					t.Errorf("got %+v with %d scans, want nearly %d bytes", status, len(open), limit)
				}
				closeScans(t, open[:2])
				rows, err := openScan(e) // it has a little more to read than each of the others
				if err != nil {
					t.Fatalf("after the end of two others: %v", err)
				}
				open[0] = rows
			}
			closeScans(t, open)
			closeScans(t, open) // counts nothing twice
			if status := e.Status().Reads; status.Bytes != 0 {
				t.Errorf("sealed %t: %d bytes were not given back", sealed, status.Bytes)
			}
		}
	}
}

// TestAReadThatIsTooLargeIsToldSo reads more than all reads may take together. No wait would help it, beside others or
// alone, and a narrower one succeeds.
func TestAReadThatIsTooLargeIsToldSo(t *testing.T) {
	const limit = 1 << 20
	e := startWithReads(t, limit, 20_000)
	for _, read := range []func() error{
		func() error { _, err := openScan(e); return err },
		func() error {
			read := e.BeginRead()
			defer read.Release()
			q := Query{Database: "db", Measurement: "m", Selection: segment.AllTime()}
			return e.VisitSeries(t.Context(), q, read, func([]byte) error { return nil })
		},
		func() error { read := e.BeginRead(); defer read.Release(); return read.Grow(limit + 1) },
	} {
		var refused *ReadLimitError
		if err := read(); !errors.As(err, &refused) || refused.RetryAfter != 0 || refused.NeedBytes <= limit {
			t.Errorf("got %v, %+v, want a refusal for good", err, refused)
		}
	}
	read := e.BeginRead()
	if err := read.Grow(limit); err != nil {
		t.Errorf("as much as there is: %v", err)
	}
	other := e.BeginRead()
	var refused *ReadLimitError
	if err := other.Grow(1); !errors.As(err, &refused) || refused.RetryAfter == 0 {
		t.Errorf("got %v beside a read that holds all, want a refusal for now", err)
	}
	read.Shrink(1)
	if err := other.Grow(1); err != nil {
		t.Errorf("one byte was given back: %v", err)
	}
	read.Release()
	other.Release()
	if used := e.Status().Reads.Bytes; used != 0 {
		t.Errorf("%d bytes were not given back", used)
	}
}

// TestAScanOfAFullTierComesBack fills level 0 with more segments than a scan may read at once. It is told to come back,
// and finds them merged. A file of level 1 that is too large by itself gets no time.
func TestAScanOfAFullTierComesBack(t *testing.T) {
	const limit = 1 << 20
	e := startWithReads(t, limit, 1)
	if err := e.SetCompaction(nil, new(true)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		putSeries(t, e, 20*i, 20*i+20)
		sealAll(t, e)
	}
	var refused *ReadLimitError
	if _, err := openScan(e); !errors.As(err, &refused) || !refused.Unmerged || refused.NeedBytes <= limit ||
		refused.RetryAfter < 7*time.Second || refused.RetryAfter > 13*time.Second {
		t.Fatalf("got %v, %+v, want to come back to a tier that is paused in about 10 s", err, refused)
	}
	if err := e.SetCompaction(nil, new(false)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "level 1", func() bool { e.tier.compactor.Poke(); return e.store.L0Bytes() == 0 })
	rows, err := openScan(e)
	if err != nil {
		t.Fatalf("when the tier is merged: %v", err)
	}
	needs := e.Status().Reads.Bytes
	closeScans(t, []*Rows{rows})
	e.reads.limitBytes = needs - 1
	if _, err := openScan(e); !errors.As(err, &refused) || refused.Unmerged || refused.RetryAfter != 0 {
		t.Errorf("got %v, %+v, want a refusal for good", err, refused)
	}
}

func TestMergeTime(t *testing.T) {
	for _, tc := range []struct {
		sizeBytes int64
		rate      float64
		low, high time.Duration
	}{
		{1 << 40, 0, 7 * time.Second, 13 * time.Second}, {0, 1, time.Second, time.Second},
		{200, 10, 15 * time.Second, 25 * time.Second}, {1 << 62, 1e-9, 45 * time.Second, time.Minute},
	} {
		for range 100 {
			if got := mergeTime(tc.sizeBytes, tc.rate); got < tc.low || got > tc.high {
				t.Fatalf("%d bytes at %g B/s: got %s, want %s to %s", tc.sizeBytes, tc.rate, got, tc.low, tc.high)
			}
		}
	}
}

// TestReadsCountWhatTheyKeepInMemory holds scans while their memtables are flushed: each table counts once, however many
// scans hold it, and until the last of them has ended.
func TestReadsCountWhatTheyKeepInMemory(t *testing.T) {
	const series = 5000
	e := startWithReads(t, 1<<30, series)
	used := func() int64 { return e.Status().Reads.Bytes }
	first, err := openScan(e)
	if err != nil {
		t.Fatal(err)
	}
	one := used()
	second, err := openScan(e)
	if err != nil {
		t.Fatal(err)
	}
	both := used()
	table := one - (both - one) // what the second scan shares with the first
	if least := int64(series * seriesMemoryBytes); table < least {
		t.Errorf("the tables count %d bytes, want at least %d", table, least)
	}
	sealAll(t, e)
	closeScans(t, []*Rows{first})
	if got := used(); got != one {
		t.Errorf("got %d bytes with one scan left, want %d", got, one)
	}
	closeScans(t, []*Rows{second})
	if got := used(); got != 0 {
		t.Errorf("got %d bytes, want 0", got)
	}
}

// TestARefusedReadIsToldTheUsualTime lets reads take a while: a refused one comes back after about that.
func TestARefusedReadIsToldTheUsualTime(t *testing.T) {
	for _, tc := range []struct{ lasted, low, high time.Duration }{
		{0, time.Second, time.Second}, {20 * time.Second, 15 * time.Second, 25 * time.Second},
		{time.Hour, time.Minute, time.Minute},
	} {
		r := reads{lasted: tc.lasted}
		for range 100 {
			if got := r.retryAfterLocked(); got < tc.low || got > tc.high {
				t.Fatalf("reads of %s: got %s, want %s to %s", tc.lasted, got, tc.low, tc.high)
			}
		}
	}
}
