package suite

import (
	"math"
	"testing"

	"lineweir/load"
)

// seconds makes a run of the acknowledged points and refusals of its seconds.
func seconds(acknowledged, refusals []int64) *load.Report {
	r := &load.Report{}
	for i := range acknowledged {
		second := load.Second{Offset: i, Acknowledged: acknowledged[i]}
		if i < len(refusals) {
			second.Refusals = refusals[i]
		}
		r.Seconds = append(r.Seconds, second)
	}
	return r
}

func all(acknowledged ...int64) stretch {
	return between(seconds(acknowledged, nil), 0, len(acknowledged))
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestStretches(t *testing.T) {
	for _, test := range []struct {
		name                       string
		of                         stretch
		goodput, variation, lowest float64
	}{
		{"steady", all(100, 100, 100), 100, 0, 1},
		{"every other second", all(200, 0, 200, 0), 100, 1, 0},
		{"one of five", all(500, 0, 0, 0, 0), 100, 2, 0},
		{"silence", all(0, 0, 0, 0), 0, 2, 0},
		{"nothing", all(), 0, 0, 0},
	} {
		s := test.of
		if !near(s.goodput(), test.goodput) || !near(s.variation(), test.variation) || !near(s.lowestShare(), test.lowest) {
			t.Errorf("%s: got %v, %v, %v", test.name, s.goodput(), s.variation(), s.lowestShare())
		}
	}
}

func TestStretchesEndWithTheRun(t *testing.T) {
	r := seconds([]int64{1, 2, 3, 4}, nil)
	for _, test := range []struct{ first, end, want int }{{0, 4, 4}, {1, 3, 2}, {2, 99, 2}, {7, 9, 0}} {
		if got := between(r, test.first, test.end); len(got) != test.want {
			t.Errorf("[%d, %d) has %d seconds, want %d", test.first, test.end, len(got), test.want)
		}
	}
}

func TestRefusedShare(t *testing.T) {
	for _, test := range []struct {
		acknowledged, refusals []int64
		want                   float64
	}{
		{[]int64{1000, 1000}, []int64{0, 0}, 0},
		{[]int64{1000, 2000}, []int64{3, 7}, 0.25}, // 30 batches of 100 taken, 10 refused
		{[]int64{0, 0}, []int64{0, 5}, 1},
		{[]int64{0, 0}, []int64{0, 0}, 1},
	} {
		got := between(seconds(test.acknowledged, test.refusals), 0, 2).refusedShare(100)
		if !near(got, test.want) {
			t.Errorf("%v, %v: got %v, want %v", test.acknowledged, test.refusals, got, test.want)
		}
	}
}

func TestRecovery(t *testing.T) {
	for _, test := range []struct {
		name  string
		of    stretch
		after int
		share float64
	}{
		{"at once", all(90, 100, 110, 100), 0, 100},
		{"a burst alone is none", all(200, 0, 0, 80, 100, 100, 100), 3, 280.0 / 3},
		{"never", all(10, 10, 10, 10), 4, 10},
		{"shorter than the row", all(95), 0, 95},
	} {
		after, share := test.of.recovery(3, 90)
		if after != test.after || !near(share, test.share) {
			t.Errorf("%s: got %d, %v, want %d, %v", test.name, after, share, test.after, test.share)
		}
	}
}

func TestRefusalsThatSayTooLittle(t *testing.T) {
	told := []load.RetryAfterCount{{Seconds: 1, Count: 3}, {Seconds: 2, Count: 1}}
	for _, test := range []struct {
		name    string
		answers []load.AnswerCount
		told    []load.RetryAfterCount
		sound   bool
	}{
		{"none", []load.AnswerCount{{Status: 204, Count: 9}}, nil, true},
		{"all told", []load.AnswerCount{{Status: 503, Cause: "l0_full", Count: 4}}, told, true},
		{"one not", []load.AnswerCount{{Status: 503, Cause: "l0_full", Count: 5}}, told, false},
		{"no cause", []load.AnswerCount{{Status: 503, Count: 4}}, told, false},
		{"quota", []load.AnswerCount{{Status: 429, Count: 4}}, told, false},
		{"at once", []load.AnswerCount{{Status: 503, Cause: "l0_full", Count: 1}},
			[]load.RetryAfterCount{{Seconds: 0, Count: 1}}, false},
	} {
		err := checkRefusals(&load.Report{Counts: load.Counts{Answers: test.answers, RetryAfter: test.told}})
		if (err == nil) != test.sound {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

func TestViolations(t *testing.T) {
	report := &load.Report{Measurements: load.Measurements{Pressure: &load.PressureReport{}}}
	now := &status{}
	now.Tier.CapacityBytes, now.Tier.HighestBytes = 1000, 1000
	if got := violations(report, now); got != 0 {
		t.Errorf("at the bound: got %v", got)
	}
	now.Tier.HighestBytes = 1001
	report.Pressure.SamplesAboveBound = 2
	now.Tier.OverReservations = 4
	if got := violations(report, now); got != 7 {
		t.Errorf("got %v, want 7", got)
	}
}

func TestParseRows(t *testing.T) {
	rows, err := parseRows([]byte("/d/wal/1.wal: 5 frames\nsegments: 12 with 3456 rows in 78 bytes, 0 damaged\n"))
	if rows != 3456 || err != nil {
		t.Errorf("got %d, %v", rows, err)
	}
	if rows, err = parseRows([]byte("no segments\n")); err == nil {
		t.Errorf("got %d", rows)
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("got %v", got)
	}
}

func TestATierIsFilled(t *testing.T) {
	r := seconds([]int64{9, 9, 9, 9, 9, 9}, nil)
	if got := filled(r, 3); got != 3 {
		t.Errorf("never: got %d", got)
	}
	r.Seconds[1].Pressure = &load.PressureSample{LevelBytes: 50, SoftBytes: 100}
	r.Seconds[2].Pressure = &load.PressureSample{LevelBytes: 98, SoftBytes: 100}
	for first, want := range map[int]int{0: 4, 3: 4, 5: 5} {
		if got := filled(r, first); got != want {
			t.Errorf("from %d on: got %d, want %d", first, got, want)
		}
	}
}
