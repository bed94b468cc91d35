package ingest

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/shard"
)

func TestClaim(t *testing.T) {
	b := &budget{limitBytes: 100}
	first, second := claim{budget: b}, claim{budget: b}
	if err := first.grow(60); err != nil {
		t.Fatal(err)
	}
	var busy *shard.BackpressureError
	if err := second.grow(41); !errors.As(err, &busy) || busy.Cause != shard.CauseMemory ||
		busy.RetryAfter < time.Second || busy.RetryAfter%time.Second != 0 {
		t.Errorf("got %v, want backpressure with whole seconds", err)
	}
	if err := second.grow(40); err != nil {
		t.Errorf("the rest of the budget: got %v", err)
	}
	if err := first.grow(41); !errors.Is(err, errBodyTooLarge) {
		t.Errorf("more than the budget: got %v, want too large", err)
	}
	first.restore(10)
	if got := b.usedBytes.Load(); got != 50 {
		t.Errorf("after a restore: %d bytes used, want 50", got)
	}
	first.release()
	second.release()
	second.release()
	if got := b.usedBytes.Load(); got != 0 {
		t.Errorf("after the release: %d bytes used, want 0", got)
	}
}

func TestBudgetHoldsUnderConcurrency(t *testing.T) {
	b := &budget{limitBytes: 10}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				if b.take(3) {
					if used := b.usedBytes.Load(); used > b.limitBytes {
						t.Errorf("%d bytes used of %d", used, b.limitBytes)
					}
					b.usedBytes.Add(-3)
				}
			}
		})
	}
	group.Wait()
}

// TestASpentBudgetRefuses lets each part of a request meet a budget that others have spent.
func TestASpentBudgetRefuses(t *testing.T) {
	lines := strings.Repeat("m v=1i 1\n", 1000)
	h := newTestHandler(t)
	f := fake(h)
	refused := 0
	for free := int64(0); ; free += 4 << 10 {
		h.budget.usedBytes.Store(h.budget.limitBytes - free)
		answer := post(t, h, "/write?db=d", lines)
		if used := h.budget.usedBytes.Load(); used != h.budget.limitBytes-free {
			t.Fatalf("%d bytes free: %d bytes were not given back", free, used+free-h.budget.limitBytes)
		}
		if answer.Code == http.StatusNoContent {
			break
		}
		refused++
		body := object(t, answer.Body.Bytes())
		if answer.Code != http.StatusServiceUnavailable || body["cause"] != shard.CauseMemory {
			t.Fatalf("%d bytes free: got %d %s, want 503 for memory", free, answer.Code, answer.Body)
		}
	}
	h.budget.usedBytes.Store(0)
	if refused < 5 || len(f.refusals) != refused {
		t.Errorf("%d refusals, %d recorded; want some and all of them", refused, len(f.refusals))
	}
	if diff := cmp.Diff(1, len(points(t, h, "d", "m"))); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}
