package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

func TestTheSteadyClockBelievesNoJumpAhead(t *testing.T) {
	begin := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	// What the wall clock shows beside the time since the start, minute by minute, and what is believed.
	for _, tc := range []struct {
		name string
		off  func(minute int) time.Duration
		want func(minute int) time.Duration
	}{
		{"a good clock", func(int) time.Duration { return 0 }, func(int) time.Duration { return 0 }},
		{"a step back", func(m int) time.Duration { return step(m >= 10, -24*time.Hour) },
			func(m int) time.Duration { return step(m >= 10, -24*time.Hour) }},
		{"a jump ahead that lasts", func(m int) time.Duration { return step(m >= 10, 1000*time.Hour) },
			func(m int) time.Duration { return step(m > 69, 1000*time.Hour) }},
		{"a jump ahead and back", func(m int) time.Duration { return step(m >= 10 && m < 40, 1000*time.Hour) },
			func(int) time.Duration { return 0 }},
		{"wrong at the start, then set back", func(m int) time.Duration { return step(m < 2, 1000*time.Hour) },
			func(m int) time.Duration { return step(m < 2, 1000*time.Hour) }},
	} {
		var clock steadyClock
		for minute := range 100 {
			elapsed := time.Duration(minute) * time.Minute
			clock.observe(begin.Add(elapsed+tc.off(minute)), elapsed)
			want := begin.Add(elapsed + tc.want(minute)).UnixNano()
			if got := clock.read(elapsed); got != want {
				t.Errorf("%s: in minute %d it shows %s, want %s", tc.name, minute, time.Unix(0, got), time.Unix(0, want))
			}
		}
		if len(clock.samples) > 61 {
			t.Errorf("%s: it keeps %d samples", tc.name, len(clock.samples))
		}
	}
}

func step(after bool, by time.Duration) time.Duration {
	if after {
		return by
	}
	return 0
}

// What is too old is told by the lower of clock and newest point; without points by the clock alone.
func TestCutoffs(t *testing.T) {
	const hour = int64(time.Hour)
	at := func(hours int64) time.Time { return time.Unix(0, hours*hour) }
	for _, tc := range []struct {
		name     string
		standard time.Duration
		own      map[string]time.Duration
		newest   map[string]int64
		want     int64 // door
		expired  int64
	}{
		{"for ever", 0, nil, map[string]int64{"db": 100 * hour}, segment.KeepsAll, segment.KeepsAll},
		{"the configured one", 10 * time.Hour, nil, map[string]int64{"db": 100 * hour}, 90 * hour, 90 * hour},
		{"its own", 10 * time.Hour, map[string]time.Duration{"db": 20 * time.Hour}, map[string]int64{"db": 100 * hour},
			80 * hour, 80 * hour},
		{"its own: for ever", 10 * time.Hour, map[string]time.Duration{"db": 0}, map[string]int64{"db": 100 * hour},
			segment.KeepsAll, segment.KeepsAll},
		{"the newest point is old", 10 * time.Hour, nil, map[string]int64{"db": 50 * hour}, 40 * hour, 40 * hour},
		{"the newest point lies ahead", 10 * time.Hour, nil, map[string]int64{"db": 5000 * hour}, 90 * hour, 90 * hour},
		{"no point", 10 * time.Hour, nil, nil, 90 * hour, segment.KeepsAll},
		{"points of others", 10 * time.Hour, nil, map[string]int64{"other": 50 * hour}, 90 * hour, segment.KeepsAll},
		{"before all time", 10 * time.Hour, nil, map[string]int64{"db": math.MinInt64}, segment.KeepsAll, segment.KeepsAll},
	} {
		r := newRetention(tc.standard)
		for database, kept := range tc.own {
			r.set([]segment.Retention{{Database: database, Duration: kept}})
		}
		r.refresh(at(100), 0, tc.newest)
		if got, expired := r.cutoff("db"), r.cutoffs.Load().expired("db"); got != tc.want || expired != tc.expired {
			t.Errorf("%s: the door refuses before %d, files go before %d; want %d and %d",
				tc.name, got, expired, tc.want, tc.expired)
		}
	}
}

// aged returns a point that is so old.
func aged(series string, age time.Duration, value int64) testPoint {
	return at(series, time.Now().Add(-age).UnixNano(), value)
}

func mustKeep(t *testing.T, e *Engine, database string, kept time.Duration) {
	t.Helper()
	if err := e.AlterRetention(context.Background(), database, kept); err != nil {
		t.Fatal(err)
	}
}

// Points beyond the retention are refused one by one; those of the log are replayed whatever the retention says.
func TestPointsBeyondTheRetentionAreRefused(t *testing.T) {
	o := testOptions("data")
	o.FS = memory.New()
	e := start(t, o)
	day := 24 * time.Hour
	mustPut(t, e, aged("a", 30*day, 1))
	mustKeep(t, e, "db", 14*day)
	b := e.NewBatch("db")
	defer b.Release()
	for _, tc := range []struct {
		age     time.Duration
		refused bool
	}{{0, false}, {13 * day, false}, {15 * day, true}, {400 * day, true}, {-day, false}} {
		p := aged("a", tc.age, 1)
		var refused *PointError
		if err := b.Append(p.point()); errors.As(err, &refused) != tc.refused || !tc.refused && err != nil {
			t.Errorf("%s old: got %v", tc.age, err)
		}
	}
	if b.Points() != 3 {
		t.Errorf("%d points were taken, want 3", b.Points())
	}
	mustPutIn(t, e, "other", aged("a", 400*day, 1))
	again := start(t, crashed(o, o.FS.(*memory.FS), 1))
	if got := again.Retention("db"); got != 14*day {
		t.Errorf("after a crash points are kept for %s", got)
	}
	if got := len(rowsOf(t, again, "m")); got != 1 {
		t.Errorf("%d rows after a crash, want the old one", got)
	}
	var refused *PointError
	if err := put(again, "db", aged("a", 15*day, 1)); !errors.As(err, &refused) {
		t.Errorf("right after a start a point of 15 days gets %v", err)
	}
}

// Files of level 1 that are wholly beyond the retention are removed, also after a restart; younger ones, level 0,
// memtables and other databases stay.
func TestFilesBeyondTheRetentionGo(t *testing.T) {
	o := testOptions("data")
	o.FS = memory.New()
	e := start(t, o)
	day := 24 * time.Hour
	for _, database := range []string{"db", "other"} {
		for n := range 10 {
			mustPutIn(t, e, database, aged(fmt.Sprintf("s%d", n), time.Duration(n)*3*day, int64(n)))
		}
	}
	seal(t, e)
	eventually(t, "level 1", func() bool { e.tier.compactor.Poke(); return e.store.L0Bytes() == 0 })
	pauseCompaction(t, e, true)
	mustPut(t, e, aged("l0", 100*day, 1))
	seal(t, e)
	mustPut(t, e, aged("active", 100*day, 1))
	mustKeep(t, e, "db", 14*day+12*time.Hour)
	source, err := e.Scan(context.Background(), Query{Database: "db", Measurement: "m", Selection: everything()})
	if err != nil {
		t.Fatal(err)
	}
	e.expire()
	if got := len(drainSource(t, source)); got != 12 {
		t.Errorf("a scan from before reads %d rows, want 12", got)
	}
	check := func(when string, e *Engine) {
		t.Helper()
		// Five in level 1: a file of a day stays as long as some of it is young enough.
		if got := len(rowsOf(t, e, "m")); got < 5+2 || got > 6+2 {
			t.Errorf("%s there are %d rows, want 5 or 6 of level 1, one of level 0 and one of the memtable", when, got)
		}
		if got := len(rowsIn(t, e, "other", "m")); got != 10 {
			t.Errorf("%s the other database has %d rows, want 10", when, got)
		}
	}
	check("at once", e)
	check("after a crash", start(t, crashed(o, o.FS.(*memory.FS), 1)))
	shutdown(t, e)
	check("after a stop", start(t, o))
}

// A clock that jumps ahead takes nothing that is younger than the newest point less the retention.
func TestAWrongClockRemovesNothingYoung(t *testing.T) {
	o := testOptions("data")
	o.FS = memory.New()
	e := start(t, o)
	day := 24 * time.Hour
	for n := range 5 {
		mustPut(t, e, aged(fmt.Sprintf("s%d", n), time.Duration(n)*day, int64(n)))
	}
	seal(t, e)
	eventually(t, "level 1", func() bool { e.tier.compactor.Poke(); return e.store.L0Bytes() == 0 })
	mustKeep(t, e, "db", 10*day)
	for round, wrong := range []time.Duration{-1000 * day, 1000 * day, 100_000 * day} {
		view := e.store.Acquire(nil)
		newest := view.NewestTimes()
		view.Release()
		e.retention.clock = steadyClock{} // as after a restart with that clock
		e.retention.refresh(time.Now().Add(wrong), time.Since(e.retention.started), newest)
		e.expire()
		if got := len(rowsOf(t, e, "m")); got != 5+round {
			t.Errorf("with a clock %s off there are %d rows, want %d", wrong, got, 5+round)
		}
		if err := put(e, "db", aged("now", 0, 1)); err != nil {
			t.Errorf("with a clock %s off a point of now is refused: %v", wrong, err)
		}
	}
}

// Nothing expires in the first ten minutes after a start; then it does, minute by minute.
func TestNothingExpiresInTheFirstMinutes(t *testing.T) {
	disk := memory.New()
	o := testOptions("data")
	o.FS = disk
	e := start(t, o)
	mustPut(t, e, aged("old", 100*time.Hour, 1))
	mustPut(t, e, aged("new", 0, 1))
	seal(t, e)
	eventually(t, "level 1", func() bool { e.tier.compactor.Poke(); return e.store.L0Bytes() == 0 })
	mustKeep(t, e, "db", time.Hour)
	shutdown(t, e)
	o.Retention = 2 * time.Hour
	bubble(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))) // the bubble begins in 2000
		e := start(t, o)
		time.Sleep(retentionGrace - time.Second)
		synctest.Wait()
		if got := len(rowsOf(t, e, "m")); got != 2 {
			t.Errorf("%d rows before the first minutes are over, want 2", got)
		}
		time.Sleep(retentionInterval + time.Second)
		synctest.Wait()
		if got := len(rowsOf(t, e, "m")); got != 1 {
			t.Errorf("%d rows after them, want 1", got)
		}
		shutdown(t, e)
	})
}

// The retention of a database is durable, goes with the database, and is changed by nobody who creates it again.
func TestRetentionOfADatabase(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	o.FS, o.Retention = disk, 48*time.Hour
	e := start(t, o)
	ctx := context.Background()
	create := func(want error, database string, kept time.Duration) {
		t.Helper()
		if err := e.CreateRetention(ctx, database, kept); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("create %s with %s: got %v, want %v", database, kept, err, want)
		}
	}
	kept := func(database string, want time.Duration) {
		t.Helper()
		if got := e.Retention(database); got != want {
			t.Errorf("%s keeps its points for %s, want %s", database, got, want)
		}
	}
	create(nil, "a", 3*time.Hour)
	create(nil, "a", 3*time.Hour)
	create(ErrRetentionConflict, "a", 4*time.Hour)
	create(nil, "b", 0)
	mustPutIn(t, e, "c", aged("a", 0, 1))
	create(ErrRetentionConflict, "c", 3*time.Hour)
	create(nil, "c", 48*time.Hour)
	if err := e.AlterRetention(ctx, "no", time.Hour); !errors.Is(err, ErrDatabaseNotFound) {
		t.Errorf("got %v, want ErrDatabaseNotFound", err)
	}
	mustKeep(t, e, "a", 5*time.Hour)
	o.Retention = 24 * time.Hour
	for seed := range uint64(3) {
		e = start(t, crashed(o, disk, seed))
		kept("a", 5*time.Hour)
		kept("b", 0)
		kept("c", 48*time.Hour)
		kept("unknown", 24*time.Hour)
		if diff := cmp.Diff([]string{"a", "b", "c"}, e.Databases()); diff != "" {
			t.Error(diff)
		}
	}
	last := e.options
	mustDropDatabase(t, e, "a")
	kept("a", 24*time.Hour)
	shutdown(t, e)
	e = start(t, last)
	kept("a", 24*time.Hour)
	if slices.Contains(e.Databases(), "a") {
		t.Error("a dropped database is back")
	}
	e.Drain()
	var refused *BackpressureError
	if err := e.CreateRetention(ctx, "d", time.Hour); !errors.As(err, &refused) {
		t.Errorf("while draining: got %v", err)
	}
}
