package pagecache

import (
	"math"
	"testing"
	"time"
)

// paced is a tier of 100 bytes, soft limit 60, that drains 20 bytes/s, with one byte per second as the floor of f.
func paced(registered, reserved int64, owed float64, now time.Time) state {
	s := state{
		capacityBytes: 100,
		softBytes:     60,
		registered:    registered,
		drain:         drainHistory{bytes: 20, busySeconds: 1},
		lastProgress:  now,
		owedAt:        now,
	}
	s.conclude(reserved, now)
	s.owed = owed
	return s
}

func TestGrantRate(t *testing.T) {
	now := time.Unix(0, 0)
	const floor = 40.0 / 300 // 40 bytes from soft to hard in 5 min
	tests := []struct {
		name  string
		level int64
		drain float64
		want  float64
	}{
		{"empty", 0, 20, 22},
		{"soft limit", 60, 20, 22},
		{"half way", 80, 20, 11.5},
		{"hard limit", 100, 20, 1},
		{"beyond the hard limit", 150, 20, 1},
		{"stalled or unknown", 60, 0, floor},
		{"slower than the floor", 100, 1, floor},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := paced(test.level, 0, 0, now)
			if got := s.grantRate(test.drain); math.Abs(got-test.want) > 1e-9 {
				t.Errorf("got %g, want %g", got, test.want)
			}
		})
	}
}

func TestNextGrant(t *testing.T) {
	now := time.Unix(0, 0)
	type answer struct {
		Wait time.Duration
		OK   bool
	}
	tests := []struct {
		name  string
		state state
		size  int64
		want  answer
	}{
		{"empty tier", paced(0, 0, 0, now), 100, answer{0, true}},
		{"more than the tier", paced(0, 0, 0, now), 101, answer{0, false}},
		{"below soft", paced(59, 0, 0, now), 41, answer{0, true}},
		{"below soft, no room", paced(59, 0, 0, now), 42, answer{0, false}},
		{"soft, nothing owed", paced(60, 0, 0, now), 10, answer{0, true}},
		{"soft, owing", paced(60, 0, 11, now), 10, answer{500 * time.Millisecond, true}},
		{"reservations count", paced(40, 20, 11, now), 10, answer{500 * time.Millisecond, true}},
		{"half way, owing", paced(80, 0, 11.5, now), 20, answer{time.Second, true}},
		{"half way, no room", paced(80, 0, 11.5, now), 21, answer{0, false}},
		{"at the bound", paced(100, 0, 0, now), 1, answer{0, false}},
		{"beyond the bound", paced(110, 0, 0, now), 0, answer{0, false}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wait, ok := test.state.nextGrant(test.size, now)
			if got := (answer{wait, ok}); got != test.want {
				t.Fatalf("got %+v, want %+v", got, test.want)
			}
			if got, want := test.state.maySeal(test.size, now), test.want == (answer{0, true}); got != want {
				t.Errorf("maySeal is %t, want %t", got, want)
			}
			if ok && !test.state.maySeal(test.size, now.Add(wait)) {
				t.Errorf("no grant %s later", wait)
			}
		})
	}
}

func TestDebtIsPaidAcrossAStall(t *testing.T) {
	start := time.Unix(0, 0)
	s := paced(60, 0, 230, start) // 22 bytes/s for 10 s, then the floor
	const floor = 40.0 / 300
	for _, test := range []struct {
		after time.Duration
		want  float64
	}{
		{-time.Second, 230},
		{0, 230},
		{time.Second, 208},
		{stallAfter, 10},
		{stallAfter + time.Minute, 10 - 60*floor},
		{stallAfter + 2*time.Minute, 0},
	} {
		if got := s.owedBytes(start.Add(test.after)); math.Abs(got-test.want) > 1e-6 {
			t.Errorf("after %s %g bytes are owed, want %g", test.after, got, test.want)
		}
	}
	want := stallAfter + time.Duration(10/floor*float64(time.Second))
	if got := s.payTime(start); (got - want).Abs() > time.Millisecond {
		t.Errorf("paid in %s, want %s", got, want)
	}
	inTheStall := start.Add(stallAfter + time.Second)
	if got := s.payTime(inTheStall); (got + stallAfter + time.Second - want).Abs() > time.Millisecond {
		t.Errorf("paid in %s once stalled, want %s", got, want-stallAfter-time.Second)
	}
}

func TestExpectedWait(t *testing.T) {
	now := time.Unix(0, 0)
	halfSettles := func(s state) state {
		s.settlements = settlements{reserved: 10, registered: 5}
		return s
	}
	unknown := paced(100, 0, 0, now)
	unknown.drain = drainHistory{}
	tests := []struct {
		name        string
		state       state
		ahead, size int64
		want        time.Duration
	}{
		{"empty tier", paced(0, 0, 0, now), 0, 100, 0},
		{"others fit as well", paced(0, 0, 0, now), 50, 10, 0},
		{"room must drain", paced(100, 0, 0, now), 0, 10, 500 * time.Millisecond},
		{"others take the room first", paced(60, 0, 0, now), 40, 10, 1880 * time.Millisecond},
		{"long queue", paced(100, 0, 0, now), 200, 20, 11806 * time.Millisecond},
		{"paced", paced(80, 0, 23, now), 0, 10, 1612 * time.Millisecond},
		{"paced behind others", paced(60, 0, 11, now), 11, 10, 1021 * time.Millisecond},
		{"near the bound the rate soon grows", paced(95, 0, 20, now), 0, 5, 2019 * time.Millisecond},
		{"half of what is reserved will stay", halfSettles(paced(80, 20, 0, now)), 0, 20, 500 * time.Millisecond},
		{"all that is missing will settle", halfSettles(paced(60, 40, 0, now)), 0, 10, 0},
		{"nobody knows", unknown, 0, 10, waitMax},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.state.expectedWait(test.ahead, test.size, now)
			if (got - test.want).Abs() > time.Millisecond {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestBytesToDrainAgreesWithSmallSteps integrates the pacing in small steps.
func TestBytesToDrainAgreesWithSmallSteps(t *testing.T) {
	for _, fill := range []float64{0, 0.1, 0.5, 1} {
		for _, need := range []float64{0.01, 0.5, 3} {
			const step = 1e-5
			x, granted, at := 0.0, 0.0, fill
			for ; granted < need; x += step {
				f := grantFraction(at)
				granted += f * step
				at += (f - 1) * step
			}
			if got := bytesToDrain(need, fill); math.Abs(got-x) > 1e-3 {
				t.Errorf("need %g at fill %g: got %g, want %g", need, fill, got, x)
			}
		}
	}
}

func TestStalledNeedsPressure(t *testing.T) {
	start := time.Unix(0, 0)
	late := start.Add(stallAfter)
	noRoom := paced(50, 0, 0, start)
	noRoom.refuse(51)
	noRoom.conclude(0, start)
	roomAgain := noRoom
	roomAgain.registered = 40
	roomAgain.conclude(0, start)
	progress := paced(60, 0, 0, start)
	progress.lastProgress = start.Add(time.Second)
	tests := []struct {
		name  string
		state state
		now   time.Time
		want  bool
	}{
		{"below soft nobody needs it", paced(59, 0, 0, start), late, false},
		{"at soft, a moment early", paced(60, 0, 0, start), late.Add(-1), false},
		{"at soft", paced(60, 0, 0, start), late, true},
		{"progress in between", progress, late, false},
		{"reserved alone can't be drained", paced(0, 80, 0, start), late, false},
		{"below soft, but somebody found no room", noRoom, late, true},
		{"there is room for them now", roomAgain, late, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.state.stalled(test.now); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
