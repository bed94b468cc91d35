package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// seriesOf returns the values of the tag s of the visited series, and how often each came.
func seriesOf(t *testing.T, e *Engine, q Query) map[string]int {
	t.Helper()
	found := map[string]int{}
	read := e.BeginRead()
	defer read.Release()
	err := e.VisitSeries(context.Background(), q, read, func(key []byte) error {
		segment.EachTag(key, func(_, value []byte) { found[string(value)]++ })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Series are visited in every tier, by tags and times, and none of what was dropped.
func TestSeriesOfAllTiersAreVisited(t *testing.T) {
	disk, fails, o := memory.New(), &failing{}, testOptions("data")
	o.FS = vfs.Inject(disk, fails.hook)
	e := start(t, o)
	write := func(tier string, time int64) {
		for _, series := range []string{tier, "all"} {
			mustPut(t, e, at(series, time, 1))
		}
	}
	write("l1", 100)
	seal(t, e)
	eventually(t, "level 1", func() bool { e.tier.compactor.Poke(); return e.store.L0Bytes() == 0 })
	pauseCompaction(t, e, true)
	write("l0", 200)
	seal(t, e)
	fails.arm("sync", "l0/")
	write("frozen", 300)
	if _, err := e.ForceSeal(context.Background()); err != nil {
		t.Fatal(err)
	}
	write("active", 400)
	between := func(start, stop int64) segment.Selection { return segment.Selection{Start: start, Stop: stop} }
	tagged := everything()
	tagged.Tags = []segment.TagEqual{{Key: "s", Value: "l0"}}
	for _, tc := range []struct {
		sel  segment.Selection
		want []string
	}{
		{everything(), []string{"active", "all", "frozen", "l0", "l1"}},
		{between(100, 101), []string{"all", "l1"}},
		{between(200, 301), []string{"all", "frozen", "l0"}},
		{between(400, 500), []string{"active", "all"}},
		{between(101, 200), nil},
		{tagged, []string{"l0"}},
	} {
		got := seriesOf(t, e, Query{Database: "db", Measurement: "m", Selection: tc.sel})
		if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("%+v:\n%s", tc.sel, diff)
		}
		if got["all"] > 4 {
			t.Errorf("a series came %d times from 4 tiers", got["all"])
		}
	}
	stop := errors.New("stop")
	calls := 0
	read := e.BeginRead()
	defer read.Release()
	err := e.VisitSeries(context.Background(), Query{Database: "db", Measurement: "m", Selection: everything()}, read,
		func([]byte) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%d calls and error %v after the first was to be the last", calls, err)
	}
	mustDrop(t, e, "db", "m")
	none := func([]byte) error { return fmt.Errorf("a series is left") }
	err = e.VisitSeries(context.Background(), Query{Database: "db", Measurement: "m", Selection: everything()}, read, none)
	if !errors.Is(err, ErrMeasurementNotFound) {
		t.Errorf("after the drop: %v", err)
	}
}
