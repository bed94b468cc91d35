package pagecache

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLedgerFollowsOneSegment(t *testing.T) {
	c := newTestController(newHandClock())
	check := func(step string, registered, reserved, highest int64) {
		t.Helper()
		want := Ledger{
			CapacityBytes: 100 * mib, SoftBytes: 60 * mib,
			RegisteredBytes: registered, ReservedBytes: reserved, HighestBytes: highest,
		}
		if diff := cmp.Diff(want, c.Ledger()); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step, diff)
		}
	}
	check("open", 0, 0, 0)
	r := reserve(t, c, 40)
	check("reserve", 0, 40, 40)
	if got := r.SizeBytes(); got != 40 {
		t.Errorf("reservation holds %d bytes, want 40", got)
	}
	if !r.Settle(30) {
		t.Error("Settle reports an overrun")
	}
	check("settle", 30, 0, 40)
	r.Release()
	check("release of what was settled", 30, 0, 40)
	c.Retire(30)
	check("retire", 0, 0, 40)
	reserve(t, c, 50).Release()
	check("release", 0, 0, 50)
	c.Register(20)
	check("register", 20, 0, 50)
}

func TestASegmentMayRetireBeforeItSettles(t *testing.T) {
	c := newTestController(newHandClock())
	r := reserve(t, c, 40)
	c.Retire(30)
	r.Settle(30)
	if got := c.Ledger(); got.RegisteredBytes != 0 || got.ReservedBytes != 0 {
		t.Errorf("got %+v, want an empty tier", got)
	}
}

func TestTheBoundIsExact(t *testing.T) {
	for _, test := range []struct {
		name string
		size int64
		want bool
	}{
		{"to the bound", 50 * mib, true},
		{"one byte beyond", 50*mib + 1, false},
		{"nothing", 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newTestController(newHandClock())
			c.Register(50 * mib)
			if got := c.MaySeal(test.size); got != test.want {
				t.Errorf("MaySeal is %t, want %t", got, test.want)
			}
			if _, got := c.Reserve(test.size); got != test.want {
				t.Errorf("Reserve is %t, want %t", got, test.want)
			}
		})
	}
}

func TestForcedReservationsAreCountedAndMayExceed(t *testing.T) {
	c := newTestController(newHandClock())
	c.Register(90 * mib)
	r := c.ReserveForced(30 * mib)
	c.Register(5 * mib) // recovery into a tier that has become too small
	got := c.Ledger()
	if got.HighestBytes != 125*mib || got.ForcedCount != 2 || got.ForcedBytes != 35*mib {
		t.Errorf("got %+v, want 125 MiB at the highest and 35 MiB forced in 2", got)
	}
	if c.MaySeal(0) {
		t.Error("a tier beyond its bound grants")
	}
	r.Release()
	if !c.MaySeal(5 * mib) {
		t.Error("no grant though there is room again")
	}
}

func TestAnOverrunIsCountedAndTakenInAnew(t *testing.T) {
	tests := []struct {
		name       string
		registered int64 // besides
		want       Ledger
	}{
		{"with room", 10 * mib, Ledger{RegisteredBytes: 40 * mib, OverReservations: 1, HighestBytes: 40 * mib}},
		{"exactly at the bound", 70 * mib, Ledger{RegisteredBytes: 100 * mib, OverReservations: 1, HighestBytes: 100 * mib}},
		{"without room", 75 * mib, Ledger{
			RegisteredBytes: 105 * mib, OverReservations: 1, HighestBytes: 105 * mib,
			ForcedBytes: 30 * mib, ForcedCount: 1,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newTestController(newHandClock())
			r := reserve(t, c, 20*mib)
			c.Register(test.registered)
			if r.Settle(30 * mib) {
				t.Error("Settle doesn't report the overrun")
			}
			test.want.CapacityBytes, test.want.SoftBytes = 100*mib, 60*mib
			if diff := cmp.Diff(test.want, c.Ledger()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitKeepsTheSum(t *testing.T) {
	c := newTestController(newHandClock())
	sum := reserve(t, c, 90*mib)
	part := sum.Split(30 * mib)
	if got := c.Ledger().ReservedBytes; got != 90*mib {
		t.Errorf("%d bytes reserved after the split, want %d", got, 90*mib)
	}
	part.Settle(10 * mib)
	if got := c.Ledger(); got.ReservedBytes != 60*mib || got.RegisteredBytes != 10*mib {
		t.Errorf("got %+v, want 60 MiB reserved and 10 MiB registered", got)
	}
	sum.Settle(0)
	if got := c.Ledger(); got.ReservedBytes != 0 || got.RegisteredBytes != 10*mib {
		t.Errorf("got %+v, want 10 MiB registered", got)
	}
}

func TestMisuseIsABug(t *testing.T) {
	settled := func(c *Controller) *Reservation {
		r, _ := c.Reserve(10)
		r.Settle(5)
		return r
	}
	tests := []struct {
		name   string
		misuse func(c *Controller)
	}{
		{"settle twice", func(c *Controller) { settled(c).Settle(5) }},
		{"split what is settled", func(c *Controller) { settled(c).Split(0) }},
		{"split too much", func(c *Controller) { r, _ := c.Reserve(10); r.Split(11) }},
		{"retire twice", func(c *Controller) { c.Register(5); c.Retire(5); c.Retire(5) }},
		{"negative reservation", func(c *Controller) { c.Reserve(-1) }},
		{"negative forced reservation", func(c *Controller) { c.ReserveForced(-1) }},
		{"negative segment", func(c *Controller) { c.Register(-1) }},
		{"negative retirement", func(c *Controller) { c.Retire(-1) }},
		{"negative settlement", func(c *Controller) { r, _ := c.Reserve(1); r.Settle(-1) }},
		{"negative progress", func(c *Controller) { c.Drained(-1, 0) }},
		{"invalid options", func(c *Controller) { NewController(Options{}) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newTestController(newHandClock())
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
				if !c.MaySeal(1) { // also shows that no lock was left held
					t.Error("the controller is unusable afterwards")
				}
				reserve(t, c, 1).Release()
			}()
			test.misuse(c)
		})
	}
}

func TestListenersRunWithoutTheLock(t *testing.T) {
	c := newTestController(newHandClock())
	var calls atomic.Int64
	for range 2 {
		c.OnChange(func() {
			calls.Add(1)
			c.Register(0) // would deadlock under the lock
		})
	}
	expect := func(step string, want int64) {
		t.Helper()
		if got := calls.Swap(0); got != want {
			t.Errorf("%d calls after %s, want %d", got, step, want)
		}
	}
	first, second := reserve(t, c, 10), reserve(t, c, 10)
	expect("reserve", 0)
	first.Settle(5)
	expect("settle", 2)
	second.Release()
	expect("release", 2)
	second.Release()
	expect("release again", 0)
	c.Register(5)
	expect("register", 0)
	c.Retire(5)
	expect("retire", 2)
	c.Drained(1, time.Second)
	expect("drain", 2)
}

// TestNeverBeyondTheBoundUnderSixteenWriters is I2 at the controller: writers reserve, settle and retire as they like.
func TestNeverBeyondTheBoundUnderSixteenWriters(t *testing.T) {
	clock := newHandClock()
	c := newTestController(clock)
	c.Drained(1<<40, time.Second) // fast enough that the bound, not the pacing, is what refuses
	var granted, refused atomic.Int64
	var writers sync.WaitGroup
	for seed := range uint64(16) {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			var segments []int64
			for range 3000 {
				clock.Advance(time.Millisecond)
				size := 1 + random.Int64N(20*mib)
				r, ok := c.Reserve(size)
				if ledger := c.Ledger(); ledger.RegisteredBytes+ledger.ReservedBytes > ledger.CapacityBytes {
					t.Errorf("%+v is beyond the bound", ledger)
				}
				if !ok {
					refused.Add(1)
				} else if granted.Add(1); random.IntN(8) == 0 {
					r.Release()
				} else {
					segments = append(segments, size/2)
					r.Settle(size / 2)
				}
				if len(segments) > 0 && (!ok || random.IntN(4) == 0) {
					c.Retire(segments[0])
					c.Drained(segments[0], time.Microsecond)
					segments = segments[1:]
				}
			}
			for _, size := range segments {
				c.Retire(size)
			}
		})
	}
	writers.Wait()
	ledger := c.Ledger()
	if ledger.HighestBytes > ledger.CapacityBytes || ledger.HighestBytes <= ledger.SoftBytes {
		t.Errorf("highest level is %d, want above %d and at most %d",
			ledger.HighestBytes, ledger.SoftBytes, ledger.CapacityBytes)
	}
	if ledger.RegisteredBytes != 0 || ledger.ReservedBytes != 0 || ledger.ForcedCount != 0 {
		t.Errorf("got %+v, want an empty tier and nothing forced", ledger)
	}
	if granted.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d granted and %d refused, want some of both", granted.Load(), refused.Load())
	}
}

func TestHalvingTheDrainDoublesRetryAfter(t *testing.T) {
	mean := func(drain int64, prepare func(c *Controller)) float64 {
		c := newTestController(newHandClock())
		c.Drained(10*drain, 10*time.Second)
		c.JobEnded()
		prepare(c)
		sum := time.Duration(0)
		const n = 20_000
		for range n {
			sum += c.RetryAfter(5*mib, 15*mib)
		}
		return sum.Seconds() / n
	}
	tests := []struct {
		name    string
		prepare func(c *Controller)
	}{
		{"tier at its bound", func(c *Controller) { c.Register(100 * mib) }},
		{"paced", func(c *Controller) {
			c.Register(59 * mib)
			reserve(t, c, 30*mib)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			full, half := mean(4*mib, test.prepare), mean(2*mib, test.prepare)
			if ratio := half / full; math.Abs(ratio-2) > 0.05 {
				t.Errorf("%.2f s became %.2f s, a factor of %.2f, want 2", full, half, ratio)
			}
		})
	}
}

func TestRetryAfterIsShortWhileNobodyKnows(t *testing.T) {
	clock := newHandClock()
	c := newTestController(clock)
	c.Register(100 * mib)
	within := func(state string, low, high time.Duration) {
		t.Helper()
		for range 200 {
			if got := c.RetryAfter(0, 50*mib); got < low || got > high || got%time.Second != 0 {
				t.Fatalf("%s: got %s, want whole seconds from %s to %s", state, got, low, high)
			}
		}
	}
	within("unknown", 6*time.Second, 10*time.Second)
	c.Drained(mib, time.Second)
	c.JobEnded()
	within("known and slow", 36*time.Second, 60*time.Second)
	clock.Advance(stallAfter)
	if !c.Stalled() || c.Ledger().DrainBytesPerSecond != 0 {
		t.Errorf("got %+v, want a stall", c.Ledger())
	}
	within("stalled", 6*time.Second, 10*time.Second)
	if got := c.ExpectedWait(0, 50*mib); got != waitMax {
		t.Errorf("expected wait in a stall is %s, want %s", got, waitMax)
	}
	c.Drained(10*mib, time.Second)
	c.JobEnded()
	if got := c.Ledger().DrainBytesPerSecond; got != 10*mib {
		t.Errorf("drain after the stall is %.0f, want %d: the older rate must be forgotten", got, 10*mib)
	}
	within("recovered", 3*time.Second, 7*time.Second)
}

func TestAnUnneededReservationOwesNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(r *Reservation)
		want int64 // bytes that are owed in the end
	}{
		{"used in full", func(r *Reservation) { r.Settle(20 * mib) }, 20 * mib},
		{"used by half", func(r *Reservation) { r.Settle(10 * mib) }, 10 * mib},
		{"released", func(r *Reservation) { r.Release() }, 0},
		{"split", func(r *Reservation) { r.Split(5 * mib).Settle(5 * mib); r.Settle(0) }, 5 * mib},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newTestController(newHandClock())
			c.Drained(mib, time.Second)
			c.JobEnded()
			c.Register(60 * mib)
			test.end(reserve(t, c, 20*mib))
			if got := c.published.Load().owed; math.Abs(got-float64(test.want)) > 1 {
				t.Errorf("%.0f bytes are owed, want %d", got, test.want)
			}
		})
	}
}

func TestARefusalLeavesTheLedgerAlone(t *testing.T) {
	c := newTestController(newHandClock())
	c.Register(95 * mib)
	before := c.Ledger()
	for range 3 {
		if _, ok := c.Reserve(10 * mib); ok {
			t.Fatal("granted beyond the bound")
		}
	}
	if _, ok := c.Reserve(101 * mib); ok {
		t.Fatal("granted more than the tier")
	}
	if diff := cmp.Diff(before, c.Ledger()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
