package segment

import (
	"context"
	"sync"
	"time"
)

// throttle spaces work out so that it takes no more than a number of bytes per second, or none while it is paused.
// Whoever pays may go ahead at once if nothing is owed, and leaves a debt that time pays off. Waiting holds no lock.
type throttle struct {
	mu             sync.Mutex
	bytesPerSecond int64 // 0: no limit
	paused         bool
	debtBytes      float64
	at             time.Time     // of the last look at the debt
	changed        chan struct{} // closed when limit or pause change
}

func newThrottle(bytesPerSecond int64) *throttle {
	return &throttle{bytesPerSecond: bytesPerSecond, at: time.Now(), changed: make(chan struct{})}
}

// set changes the limit, for those who wait now too.
func (t *throttle) set(bytesPerSecond int64, paused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked(time.Now())
	t.bytesPerSecond, t.paused = bytesPerSecond, paused
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *throttle) get() (bytesPerSecond int64, paused bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytesPerSecond, t.paused
}

func (t *throttle) settleLocked(now time.Time) {
	if t.bytesPerSecond == 0 {
		t.debtBytes = 0
	}
	t.debtBytes = max(0, t.debtBytes-now.Sub(t.at).Seconds()*float64(t.bytesPerSecond))
	t.at = now
}

// pay waits until the work of that many bytes may be done, and returns how much of the waiting was a pause. Its error
// is that of ctx.
func (t *throttle) pay(ctx context.Context, bytes int64) (paused time.Duration, err error) {
	for {
		wait, pause, changed := t.tryPay(bytes)
		if wait == 0 && !pause {
			return paused, ctx.Err()
		}
		start := time.Now()
		if err := waitFor(ctx, wait, changed); err != nil {
			return paused, err
		}
		if pause {
			paused += time.Since(start)
		}
	}
}

// tryPay takes the bytes if nothing is owed; otherwise it tells how long to wait, or that there is a pause.
func (t *throttle) tryPay(bytes int64) (wait time.Duration, pause bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked(time.Now())
	switch {
	case t.paused:
		return 0, true, t.changed
	case t.debtBytes > 0:
		return max(1, time.Duration(t.debtBytes/float64(t.bytesPerSecond)*float64(time.Second))), false, t.changed
	case t.bytesPerSecond > 0:
		t.debtBytes += float64(bytes)
	}
	return 0, false, nil
}

// step is the portion in which a large amount is paid, a quarter of a second's worth, so that it does not look like
// standstill.
func (t *throttle) step(bytes int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytesPerSecond == 0 {
		return bytes
	}
	return min(bytes, max(1, t.bytesPerSecond/4))
}

// waitFor ends after the time, if it is not 0, at a change, or with ctx.
func waitFor(ctx context.Context, wait time.Duration, changed <-chan struct{}) error {
	var timeout <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-timeout:
	case <-changed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
