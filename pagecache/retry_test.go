package pagecache

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	bounds := retryBounds{min: time.Second, max: time.Minute}
	tests := []struct {
		name             string
		predicted        time.Duration
		bounds           retryBounds
		jitter, rounding float64
		want             time.Duration
	}{
		{"now is a second", 0, bounds, 0.5, 0.5, time.Second},
		{"no jitter, no fraction", 8 * time.Second, bounds, 0.5, 0.5, 8 * time.Second},
		{"lowest jitter", 8 * time.Second, bounds, 0, 0.5, 6 * time.Second},
		{"highest jitter", 8 * time.Second, bounds, 0.999999, 0.5, 10 * time.Second},
		{"fraction rounded up", 2400 * time.Millisecond, bounds, 0.5, 0.39, 3 * time.Second},
		{"fraction rounded down", 2400 * time.Millisecond, bounds, 0.5, 0.41, 2 * time.Second},
		{"capped, lowest jitter", time.Hour, bounds, 0, 0.5, 36 * time.Second},
		{"capped, highest jitter", time.Hour, bounds, 0.999999, 0, time.Minute},
		{"not below the shortest", 0, retryBounds{min: 5 * time.Second, max: time.Minute}, 0, 0.9, 5 * time.Second},
		{"stalled, lowest jitter", time.Hour, bounds.whileStalled(), 0, 0.5, 6 * time.Second},
		{"stalled, highest jitter", time.Hour, bounds.whileStalled(), 0.999999, 0, 10 * time.Second},
		{
			"stalled, with a shortest above the low cap",
			time.Hour, retryBounds{min: 15 * time.Second, max: time.Minute}.whileStalled(), 0.5, 0.5, 15 * time.Second,
		},
		{
			"stalled, with a longest below the low cap",
			time.Hour, retryBounds{min: time.Second, max: 2 * time.Second}.whileStalled(), 0.999, 0, 2 * time.Second,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := retryAfter(test.predicted, test.bounds, test.jitter, test.rounding); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestRetryAfterIsTrueOnAverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	bounds := retryBounds{min: time.Second, max: time.Minute}
	for _, predicted := range []time.Duration{2300 * time.Millisecond, 7 * time.Second, 40 * time.Second} {
		sum, answers := time.Duration(0), map[time.Duration]bool{}
		const n = 20_000
		for range n {
			answer := retryAfter(predicted, bounds, random.Float64(), random.Float64())
			sum += answer
			answers[answer] = true
		}
		if got, want := (sum / n).Seconds(), predicted.Seconds(); math.Abs(got-want) > want/50 {
			t.Errorf("mean answer is %.3f s, want %.3f", got, want)
		}
		if len(answers) < 2 {
			t.Errorf("all answers to %s are the same", predicted)
		}
	}
}
