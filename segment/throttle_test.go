package segment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestThrottleSpacesWorkOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := newThrottle(1000)
		start := time.Now()
		for range 10 {
			if paused, err := throttle.pay(t.Context(), 500); err != nil || paused != 0 {
				t.Fatalf("pay returned %v, %v", paused, err)
			}
		}
		if got, want := time.Since(start), 4500*time.Millisecond; got != want {
			t.Errorf("10 times 500 bytes at 1000 bytes a second took %v, want %v: the first goes ahead at once", got, want)
		}
		time.Sleep(time.Hour) // time in which nothing was done saves nothing up
		start = time.Now()
		for range 3 {
			if _, err := throttle.pay(t.Context(), 500); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := time.Since(start), time.Second; got != want {
			t.Errorf("after an hour, 3 times 500 bytes took %v, want %v", got, want)
		}
	})
}

func TestThrottleWithoutLimitNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := newThrottle(0)
		start := time.Now()
		for range 100 {
			if _, err := throttle.pay(t.Context(), 1<<40); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("it took %v", got)
		}
	})
}

func TestThrottleChangesReachThoseWhoWait(t *testing.T) {
	tests := []struct {
		name   string
		before int64
		paused bool
		change func(*throttle)
		want   time.Duration // from the change on
		pause  time.Duration
	}{
		{"a higher limit shortens the wait", 1, false, func(t *throttle) { t.set(1000, false) }, 990 * time.Millisecond, 0},
		{"no limit ends the wait", 1, false, func(t *throttle) { t.set(0, false) }, 0, 0},
		{"the end of a pause ends the wait", 0, true, func(t *throttle) { t.set(0, false) }, 0, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				throttle := newThrottle(tt.before)
				throttle.set(tt.before, false)
				if _, err := throttle.pay(t.Context(), 1000); err != nil {
					t.Fatal(err)
				}
				throttle.set(tt.before, tt.paused)
				ended := make(chan time.Time)
				var pause time.Duration
				go func() {
					pause, _ = throttle.pay(t.Context(), 1)
					ended <- time.Now()
				}()
				time.Sleep(10 * time.Second)
				changed := time.Now()
				tt.change(throttle)
				if got := (<-ended).Sub(changed); got != tt.want {
					t.Errorf("the wait ended %v after the change, want %v", got, tt.want)
				}
				if pause != tt.pause {
					t.Errorf("%v of it were a pause, want %v", pause, tt.pause)
				}
			})
		})
	}
}

func TestThrottleEndsWithItsContext(t *testing.T) {
	for _, paused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			throttle := newThrottle(1)
			if _, err := throttle.pay(t.Context(), 1<<30); err != nil {
				t.Fatal(err)
			}
			throttle.set(1, paused)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if _, err := throttle.pay(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("paused %t: error is %v", paused, err)
			}
			if got := time.Since(start); got != time.Second {
				t.Errorf("paused %t: it ended after %v, want 1s", paused, got)
			}
		})
	}
}
