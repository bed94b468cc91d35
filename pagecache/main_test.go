package pagecache

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handClock is a clock that only the test moves.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func newHandClock() *handClock { return &handClock{now: time.Unix(1_700_000_000, 0)} }

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const mib = 1 << 20

// newTestController has a tier of 100 MiB with its soft limit at 60 MiB.
func newTestController(clock *handClock) *Controller {
	return NewController(Options{CapacityBytes: 100 * mib, SoftFraction: 0.6, Now: clock.Now})
}

// reserve fails the test if there's no grant.
func reserve(t testing.TB, c *Controller, sizeBytes int64) *Reservation {
	t.Helper()
	r, ok := c.Reserve(sizeBytes)
	if !ok {
		t.Fatalf("Reserve(%d) refused at %+v", sizeBytes, c.Ledger())
	}
	return r
}
