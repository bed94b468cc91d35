package shard

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecentRefusalsAreBoundedNewestFirst(t *testing.T) {
	for _, added := range []int{0, 1, recentMax - 1, recentMax, recentMax + 1, 3*recentMax + 7} {
		var r refusals
		for i := range added {
			r.add(&Refusal{RetryAfterSeconds: i})
		}
		got, want := r.newestFirst(), []Refusal{}
		for i := added - 1; i >= max(0, added-recentMax); i-- {
			want = append(want, Refusal{RetryAfterSeconds: i})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %d refusals (-want +got):\n%s", added, diff)
		}
	}
}

func TestRefusalsAreNotedSideBySide(t *testing.T) {
	var r refusals
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 1000 {
				r.add(&Refusal{Cause: CauseL0Full})
				if got := len(r.newestFirst()); got > recentMax {
					t.Errorf("%d refusals, want at most %d", got, recentMax)
				}
			}
		})
	}
	writers.Wait()
	if got := len(r.newestFirst()); got != recentMax {
		t.Errorf("%d refusals, want %d", got, recentMax)
	}
}

// The status page says from these what is held back, why, and until when.
func TestStatusOfABlockedShard(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Shards = 1
	e, gate := startGated(t, o)
	if got := e.Status(); got.Shards[0].BlockedSince != nil || got.Shards[0].BlockedBy != "" ||
		len(got.Admission.RecentRefusals) != 0 || got.Admission.LastRefusal != nil {
		t.Errorf("before the first refusal: %+v", got)
	}
	_, refused := fillUntilRefused(t, e, "a")
	got := e.Status()
	if got.Shards[0].BlockedSince == nil || got.Shards[0].BlockedBy != CauseL0Full {
		t.Errorf("got %+v, want it blocked by %s", got.Shards[0], CauseL0Full)
	}
	latest := got.Admission.RecentRefusals[0]
	if latest.Cause != refused.Cause || latest.RetryAfterSeconds != int(refused.RetryAfter.Seconds()) ||
		!latest.Time.Equal(got.Admission.LastRefusal.Time) {
		t.Errorf("the latest refusal is %+v, want that of %v", latest, refused)
	}
	gate.open.Store(true)
	e.kick()
	eventually(t, "the shard is not blocked", func() bool {
		s := e.Status().Shards[0]
		return s.BlockedSince == nil && s.BlockedBy == "" && s.ExpectedWaitSeconds == nil
	})
}

func TestASealIsExpectedOnceTheDrainIsMeasured(t *testing.T) {
	e := start(t, testOptions(t.TempDir()))
	if err := put(e, "db", at("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	tier, full := e.tier.controller, e.tier.controller.Ledger().CapacityBytes
	var filled *shardState
	for _, s := range e.allShards() {
		if s.Fill().active.rows > 0 {
			filled = s
		}
	}
	tier.Register(full)
	defer tier.Retire(full)
	if got := e.expectedSeconds(filled); got != nil {
		t.Errorf("a seal is expected in %v s, though nothing was ever drained", *got)
	}
	tier.Drained(1<<20, 1e9)
	if got := e.expectedSeconds(filled); got == nil || *got <= 0 {
		t.Errorf("got %v, want seconds above 0 at a drain of 1 MiB/s", got)
	}
}
