package pagecache

import (
	"fmt"
	"testing"
	"time"
)

// newTestTurns is a line before a tier of 100 MiB at its bound that drains 10 MiB/s.
func newTestTurns(hold time.Duration) (*handClock, *Controller, *Turns) {
	clock := newHandClock()
	c := newTestController(clock)
	c.Drained(10*mib, time.Second)
	c.JobEnded()
	c.Register(100 * mib)
	return clock, c, NewTurns(c, hold)
}

// joinAll lets writes of 1 MiB join, one for each name, and returns their places.
func joinAll(t *testing.T, turns *Turns, clients ...string) []*Place {
	t.Helper()
	places := make([]*Place, len(clients))
	for i, client := range clients {
		place, retryAfter := turns.Join(client, mib, Seals{})
		if place == nil {
			t.Fatalf("%s is refused for %s", client, retryAfter)
		}
		places[i] = place
	}
	return places
}

func TestClientsTakeTurns(t *testing.T) {
	_, _, turns := newTestTurns(time.Hour)
	places := joinAll(t, turns, "a", "a", "a", "b", "c", "b")
	want := []int{0, 3, 4, 1, 5, 2} // one of each client, then the second ones
	for i, at := range want[1:] {
		if before := places[want[i]]; !before.Before(places[at]) {
			t.Errorf("write %d is not before write %d", want[i], at)
		}
	}
	turns.Serve(places[0])
	turns.Serve(places[3])
	late := joinAll(t, turns, "d")[0]
	if !late.Before(places[1]) || late.Before(places[4]) {
		t.Error("a stranger is not between those who have had nothing and those who have had something")
	}
}

func TestARefusedClientKeepsItsPlace(t *testing.T) {
	clock, _, turns := newTestTurns(2 * time.Second)
	var present []*Place
	for i := 0; ; i++ { // until the line is full
		place, _ := turns.Join(fmt.Sprint(i), mib, Seals{})
		if place == nil {
			break
		}
		present = append(present, place)
	}
	retryAfter, ok := turns.Ask("refused", mib, Seals{})
	if ok || retryAfter < time.Second || retryAfter > 10*time.Second {
		t.Fatalf("got %s, %t; want a refusal of some seconds", retryAfter, ok)
	}
	if got := turns.Line(); got.Away != 2 || got.AwayBytes != 2*mib {
		t.Errorf("%+v, want 2 that are to return", got)
	}
	clock.Advance(retryAfter)
	for _, place := range present[:len(present)*3/4] {
		turns.Leave(place)
	}
	back := joinAll(t, turns, "refused")[0]
	if stranger := joinAll(t, turns, "stranger")[0]; !back.Before(stranger) {
		t.Error("the place was not kept")
	}
	clock.Advance(time.Minute)
	if got := turns.Line(); got.Away != 0 {
		t.Errorf("%+v a minute later, want nobody to return", got)
	}
}

func TestAPlaceIsConsumedByAWriteThatFits(t *testing.T) {
	clock, _, turns := newTestTurns(0)
	retryAfter, ok := turns.Ask("a", mib, Seals{SizeBytes: mib})
	if ok {
		t.Fatal("the write may wait")
	}
	clock.Advance(retryAfter)
	turns.Take("a", mib)
	if got := turns.Line(); got.Away != 0 || got.AwayBytes != 0 {
		t.Errorf("%+v, want nobody to return", got)
	}
}

func TestAPauseRefusesAtOnce(t *testing.T) {
	_, c, turns := newTestTurns(time.Hour - 1)
	joinAll(t, turns, "before")
	c.SetPaused(true)
	retryAfter, ok := turns.Ask("during", mib, Seals{SizeBytes: mib})
	if ok || retryAfter > retryStalledMax {
		t.Errorf("got %s, %t; want a refusal of 10 s at most", retryAfter, ok)
	}
	c.SetPaused(false)
	if _, ok = turns.Ask("after", mib, Seals{SizeBytes: mib}); !ok {
		t.Error("refused after the pause")
	}
}

// What is kept for clients is bounded, and all of it is let go of in time.
func TestTheLineIsBounded(t *testing.T) {
	clock, c, turns := newTestTurns(0)
	c.SetPaused(true)
	for i := range placesMax + 100 {
		if _, ok := turns.Ask(fmt.Sprint(i), mib, Seals{SizeBytes: mib}); ok {
			t.Fatal("a write may wait")
		}
	}
	if got := turns.Line(); got.Away > placesMax || got.Clients > membersMax+1 {
		t.Errorf("%+v, want at most %d places and %d clients", got, placesMax, membersMax+1)
	}
	clock.Advance(time.Minute)
	if got := turns.Line(); got != (Line{}) {
		t.Errorf("%+v after a minute, want nothing", got)
	}
}

func TestOneClientFillsOnlyAPartOfTheLine(t *testing.T) {
	_, c, turns := newTestTurns(0)
	c.SetPaused(true)
	for range 2 * placesOfOneMax {
		turns.Ask("one", mib, Seals{SizeBytes: mib})
	}
	if got := turns.Line().Away; got != placesOfOneMax {
		t.Errorf("%d places, want %d", got, placesOfOneMax)
	}
}

func TestGrain(t *testing.T) {
	c := newTestController(newHandClock())
	if got := c.Grain(64 * mib); got != 64*mib {
		t.Errorf("%d below the soft limit, want the whole cap", got)
	}
	c.Register(80 * mib)
	for _, test := range []struct {
		name             string
		drain, max, want int64
	}{
		{"unknown drain", 0, 64 * mib, mib},
		{"slow drain", 2 * mib, 64 * mib, mib},
		{"fast drain", 100 * mib, 64 * mib, 5 * mib},
		{"faster than the cap", 100 * mib, 4 * mib, 4 * mib},
		{"cap below 1 MiB", 100 * mib, mib / 4, mib / 4},
	} {
		c.update(func(s *state, _ time.Time) { s.drain = drainHistory{bytes: float64(test.drain), busySeconds: 1} })
		if got := c.Grain(test.max); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// The level falls with what the running job merges, so that its end is no step.
func TestPacingFollowsTheRunningJob(t *testing.T) {
	c := newTestController(newHandClock())
	c.Register(95 * mib)
	before := c.published.Load().pacedFill()
	c.Drained(10*mib, time.Second)
	merged := c.published.Load().pacedFill()
	if merged >= before {
		t.Errorf("the fill is %g after a merge, was %g", merged, before)
	}
	if c.MaySeal(6 * mib) {
		t.Error("what is merged and not retired is given away")
	}
	c.Retire(10 * mib)
	c.JobEnded()
	if got := c.published.Load().pacedFill(); got != merged {
		t.Errorf("the fill is %g after the job's end, was %g", got, merged)
	}
	c.Drained(5*mib, time.Second)
	c.JobEnded()
	if got := c.published.Load().pacedFill(); got != merged {
		t.Errorf("the fill is %g after a job that failed, was %g", got, merged)
	}
}

// A refusal allocates a place and nothing that grows with the body.
func TestRefusalAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	_, c, turns := newTestTurns(0)
	c.SetPaused(true)
	if got := testing.AllocsPerRun(1000, func() { turns.Ask("one", 1<<40, Seals{SizeBytes: mib}) }); got > 3 {
		t.Errorf("%.1f allocations, want 3 at most", got)
	}
}

// BenchmarkRefusal is what a refusal costs beside 1,000 clients that are to return.
func BenchmarkRefusal(b *testing.B) {
	_, c, turns := newTestTurns(0)
	c.SetPaused(true)
	for i := range 1000 {
		turns.Ask(fmt.Sprint(i), mib, Seals{SizeBytes: mib})
	}
	b.ReportAllocs()
	for b.Loop() {
		turns.Ask("1", mib, Seals{SizeBytes: mib})
	}
}

// Where flushes are the bottleneck and not the drain, writes whose turn is too far away are refused at once as well.
func TestAFullFrozenQueueIsPredicted(t *testing.T) {
	seals := Seals{SizeBytes: mib, FlushBytes: 2 * mib}
	joined := func(flushed, frozen int64) (count int, retryAfter time.Duration) {
		c := newTestController(newHandClock())
		turns := NewTurns(c, time.Second)
		if flushed > 0 {
			c.Flushed(flushed, time.Second)
		}
		for count = range 50 {
			place, refused := turns.Join("a", mib, Seals{SizeBytes: seals.SizeBytes, FlushBytes: frozen})
			if place == nil {
				return count, refused
			}
		}
		return 50, 0
	}
	// The 2 MiB that are frozen and what waits before are flushed within the hold at 10 MiB/s.
	if count, retryAfter := joined(10*mib, seals.FlushBytes); count != 9 || retryAfter < time.Second {
		t.Errorf("%d wait and the next comes back in %s, want 9 and a second at least", count, retryAfter)
	}
	for name, count := range map[string]int{
		"the queue has room":      first(joined(10*mib, 0)),
		"nothing was flushed yet": first(joined(0, seals.FlushBytes)),
		"flushes are fast enough": first(joined(1024*mib, seals.FlushBytes)),
	} {
		if count != 50 {
			t.Errorf("%s: %d may wait, want all", name, count)
		}
	}
}

func first(count int, _ time.Duration) int { return count }
