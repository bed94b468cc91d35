package load

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseProfile(t *testing.T) {
	got, err := ParseProfile("0.5x:30s, 10x:1m,0x:5s")
	want := Profile{{0.5, 30 * time.Second}, {10, time.Minute}, {0, 5 * time.Second}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got := want.String(); got != "0.5x:30s,10x:1m0s,0x:5s" {
		t.Errorf("got %s", got)
	}
	for _, text := range []string{"", "10", "10x", "x:3s", "-1x:3s", "1x:0s", "1x:-3s", "NaNx:3s", "1e9x:1s", "1x:3s,"} {
		if got, err := ParseProfile(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if _, err := ParseProfile(strings.Repeat("1x:1s,", StepsMax-1) + "1x:1s"); err != nil {
		t.Errorf("%d steps: %v", StepsMax, err)
	}
	if _, err := ParseProfile(strings.Repeat("1x:1s,", StepsMax) + "1x:1s"); err == nil {
		t.Errorf("%d steps: got no error", StepsMax+1)
	}
}

// TestDueTimesFollowTheRate compares when points are due with how many are due at a moment.
func TestDueTimesFollowTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pace := Pace{Rate: rapid.Float64Range(1, 1e6).Draw(t, "rate")}
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			pace.Profile = append(pace.Profile, Step{
				rapid.SampledFrom([]float64{0, 0.1, 1, 10}).Draw(t, "factor"),
				time.Duration(rapid.IntRange(1, 10_000).Draw(t, "ms")) * time.Millisecond,
			})
		}
		s := newSchedule(&pace)
		all := s.points(s.end())
		before := rapid.Int64Range(0, all+10).Draw(t, "before")
		at, ok := s.due(before)
		if ok != (before < all) {
			t.Fatalf("of %d points, the one behind %d is due: %v", all, before, ok)
		}
		if !ok {
			return
		}
		if at < 0 || at > s.end() {
			t.Fatalf("a point is due at %v of %v", at, s.end())
		}
		if later, ok := s.due(before + 1); ok && later < at {
			t.Fatalf("point %d is due at %v and the next one at %v", before, at, later)
		}
		// Rounding to nanoseconds moves a point by less than another microsecond does.
		if got := s.points(at + time.Microsecond); got <= before && s.points(s.end()) != got {
			t.Fatalf("at %v %d points are due, want more than %d", at, got, before)
		}
	})
}

func TestStepOfAMoment(t *testing.T) {
	s := newSchedule(&Pace{Rate: 1, Profile: Profile{{1, time.Second}, {2, time.Second}}})
	for at, want := range map[time.Duration]int{0: 0, time.Second - 1: 0, time.Second: 1, time.Hour: 1} {
		if got := s.step(at); got != want {
			t.Errorf("%v: got step %d, want %d", at, got, want)
		}
	}
}
