package pagecache

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestGrantedBytesFollowTheDrain holds the tier at one fill, and counts what a writer is granted that asks as soon as
// NextGrant says.
func TestGrantedBytesFollowTheDrain(t *testing.T) {
	const drain, size, duration = 10 * mib, mib, 2 * time.Minute
	for _, test := range []struct {
		name string
		fill float64 // between soft and hard
		keep float64 // the share of a reservation that its flush writes
	}{
		{"soft limit", 0, 1},
		{"quarter", 0.25, 1},
		{"half", 0.5, 1},
		{"near the bound", 0.9, 1},
		{"half, and settled to a third", 0.5, 1.0 / 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewController(Options{CapacityBytes: 100 * mib, SoftFraction: 0.6})
				c.Register(int64((60 + test.fill*40) * mib))
				c.Drained(drain, time.Second)
				c.JobEnded()
				start, written := time.Now(), int64(0)
				for time.Since(start) < duration {
					if wait, ok := c.NextGrant(size); !ok {
						t.Fatalf("no grant in sight at %+v", c.Ledger())
					} else if wait > 0 {
						<-time.After(wait)
					}
					kept := int64(size * test.keep)
					reserve(t, c, size).Settle(kept)
					c.Drained(drain/100, 10*time.Millisecond)
					c.Retire(kept) // at once, to stay at this fill
					c.JobEnded()
					written += kept
				}
				got := float64(written) / time.Since(start).Seconds()
				want := drain * grantFraction(test.fill)
				if math.Abs(got-want) > want/25 {
					t.Errorf("%.2f MiB/s, want %.2f", got/mib, want/mib)
				}
			})
		})
	}
}

// TestAStalledDrainFillsTheTierSlowly also holds that the bound is met exactly, and that grants come back at once.
func TestAStalledDrainFillsTheTierSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController(Options{CapacityBytes: 100 * mib, SoftFraction: 0.6})
		c.Register(60 * mib)
		c.Drained(20*mib, time.Second)
		c.JobEnded()
		<-time.After(stallAfter)
		if !c.Stalled() {
			t.Fatalf("not stalled: %+v", c.Ledger())
		}
		start := time.Now()
		for c.MaySeal(0) || c.Ledger().RegisteredBytes < 100*mib {
			wait, ok := c.NextGrant(2 * mib)
			if !ok {
				break
			}
			<-time.After(wait)
			reserve(t, c, 2*mib).Settle(2 * mib)
		}
		if got := c.Ledger(); got.RegisteredBytes != 100*mib || got.HighestBytes != 100*mib {
			t.Errorf("got %+v, want a tier that is full to the byte", got)
		}
		if got, want := time.Since(start), floorFill*38/40; (got - want).Abs() > time.Second {
			t.Errorf("filled in %s, want about %s", got, want)
		}
		c.Retire(30 * mib)
		c.Drained(30*mib, 2*time.Second)
		c.JobEnded()
		if wait, ok := c.NextGrant(2 * mib); !ok || wait > 500*time.Millisecond {
			t.Errorf("next grant in %s (%t) after the recovery, want soon", wait, ok)
		}
	})
}
