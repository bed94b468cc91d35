package pagecache

import (
	"math"
	"testing"
	"time"
)

func TestDrainHistory(t *testing.T) {
	second := func(history drainHistory, sizeBytes int64) drainHistory {
		for range 100 { // reported in parts, as a job does
			history = history.add(sizeBytes/100, 10*time.Millisecond)
		}
		return history
	}
	seconds := func(history drainHistory, n int, sizeBytes int64) drainHistory {
		for range n {
			history = second(history, sizeBytes)
		}
		return history
	}
	steady := seconds(drainHistory{}, 60, 20*mib)
	tests := []struct {
		name      string
		history   drainHistory
		want      float64 // bytes per second
		tolerance float64
	}{
		{"unknown", drainHistory{}, 0, 0},
		{"busy without progress", drainHistory{}.add(0, time.Second), 0, 0},
		{"first measurement counts in full", drainHistory{}.add(20*mib, time.Second), 20 * mib, 0.001},
		{"progress without time is bounded", drainHistory{}.add(1, 0), 1000, 0.001},
		{"steady", steady, 20 * mib, 0.01},
		{"one long report equals many short ones", drainHistory{}.add(600*mib, 30*time.Second), 20 * mib, 0.001},
		{"halved, after a moment", seconds(steady, 1, 10*mib), 18.2 * mib, 0.02},
		{"halved, after 15 s", seconds(steady, 15, 10*mib), 10.5 * mib, 0.02},
		{"halved, in one report", steady.add(300*mib, 30*time.Second), 10 * mib, 0.01},
		{"tenth, after 15 s", seconds(steady, 15, 2*mib), 2.9 * mib, 0.05},
		{"restart", restartDrain(mib, 500*time.Millisecond), 2 * mib, 0.001},
		{"restart that carries the stall", restartDrain(10*mib, 40*time.Second), mib / 4, 0.001},
		{"then four seconds of work", seconds(restartDrain(10*mib, 40*time.Second), 4, 20*mib), 17.5 * mib, 0.03},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.history.bytesPerSecond()
			if math.Abs(got-test.want) > test.tolerance*test.want {
				t.Errorf("got %.0f bytes/s, want %.0f ± %g", got, test.want, test.tolerance)
			}
		})
	}
}

func TestSettlementsShare(t *testing.T) {
	tests := []struct {
		name        string
		settlements settlements
		want        float64
	}{
		{"unknown", settlements{}, 1},
		{"nothing was written", settlements{}.add(100, 0), 0},
		{"half", settlements{}.add(100, 50).add(10, 5), 0.5},
		{"never above the whole", settlements{}.add(100, 150), 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.settlements.share(); math.Abs(got-test.want) > 1e-9 {
				t.Errorf("got %g, want %g", got, test.want)
			}
		})
	}
}

// A slow flush, as the first one of a server is, must not send clients away for long.
func TestASlowFlushIsSoonForgotten(t *testing.T) {
	h := drainHistory{}.addFlush(mib, time.Second)
	if got := h.bytesPerSecond(); got != mib {
		t.Errorf("%.0f bytes/s after one flush, want %d", got, mib)
	}
	for range 20 {
		h = h.addFlush(mib, 10*time.Millisecond)
	}
	if got := h.bytesPerSecond(); got < 75*mib || got > 100*mib {
		t.Errorf("%.0f MiB/s after 20 flushes of 100 MiB/s, want nearly that", got/mib)
	}
}
