package pagecache

import (
	"sync/atomic"
	"testing"

	"github.com/dgraph-io/ristretto/v2"
)

// These tests hold what this package relies on, and works around, in ristretto v2.4.2. An upgrade that breaks one needs
// a look at the code that says why.

// plug is a value whose cost ristretto asks for, and doesn't get before the plug is pulled.
type plug struct{ pulled chan struct{} }

func openRistretto(t *testing.T, config ristretto.Config[uint64, any]) *ristretto.Cache[uint64, any] {
	t.Helper()
	config.NumCounters, config.BufferItems = 1000, 64
	if config.MaxCost == 0 {
		config.MaxCost = 1 << 20
	}
	cache, err := ristretto.NewCache(&config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return cache
}

func TestRistrettoSetIsBufferedAndLossy(t *testing.T) {
	cache := openRistretto(t, ristretto.Config[uint64, any]{
		IgnoreInternalCost: true,
		Cost: func(value any) int64 {
			<-value.(plug).pulled // holds up the one goroutine that works off the buffer
			return 1
		},
	})
	pulled := make(chan struct{})
	cache.Set(0, plug{pulled}, 0)
	key := uint64(1)
	for cache.Set(key, "page", 1) {
		key++
	}
	if key < 32<<10 {
		t.Errorf("the buffer refused after %d sets, want 32 Ki", key)
	}
	if _, ok := cache.Get(1); ok {
		t.Error("a set is seen before the buffer is worked off")
	}
	close(pulled)
	cache.Wait()
	if _, ok := cache.Get(key - 1); !ok {
		t.Error("a set isn't seen after Wait")
	}
	if _, ok := cache.Get(key); ok {
		t.Error("a refused set is there")
	}
	if !cache.Set(key, "page", 1) {
		t.Error("the buffer still refuses after Wait")
	}
}

func TestRistrettoCountsDelAsEviction(t *testing.T) {
	evicted := 0
	cache := openRistretto(t, ristretto.Config[uint64, any]{
		Metrics: true,
		OnEvict: func(*ristretto.Item[any]) { evicted++ },
	})
	cache.Set(1, "page", 1)
	cache.Wait()
	cache.Del(1)
	cache.Wait()
	if got := cache.Metrics.KeysEvicted(); got != 1 {
		t.Errorf("KeysEvicted is %d, want 1: then count by it", got)
	}
	if evicted != 0 {
		t.Errorf("OnEvict ran %d times for a Del, want never", evicted)
	}
}

func TestRistrettoAddsInternalCostUnlessToldNotTo(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		cache := openRistretto(t, ristretto.Config[uint64, any]{IgnoreInternalCost: ignore})
		cache.Set(1, "page", 100)
		cache.Wait()
		if used := cache.MaxCost() - cache.RemainingCost(); (used == 100) != ignore {
			t.Errorf("with IgnoreInternalCost %t a page of 100 costs %d", ignore, used)
		}
	}
}

func TestRistrettoAsksForTheCostOfZeroOnly(t *testing.T) {
	var asked atomic.Int64
	cache := openRistretto(t, ristretto.Config[uint64, any]{
		IgnoreInternalCost: true,
		Cost:               func(any) int64 { asked.Add(1); return 7 },
	})
	cache.Set(1, "page", 100)
	cache.Set(2, "page", 0)
	cache.Wait()
	if used := cache.MaxCost() - cache.RemainingCost(); asked.Load() != 1 || used != 107 {
		t.Errorf("asked %d times and used %d, want once and 107", asked.Load(), used)
	}
}

func TestRistrettoCloseEvictsEverything(t *testing.T) {
	evicted := 0
	cache := openRistretto(t, ristretto.Config[uint64, any]{OnEvict: func(*ristretto.Item[any]) { evicted++ }})
	cache.Set(1, "page", 1)
	cache.Set(2, "page", 1)
	cache.Wait()
	cache.Close()
	if evicted != 2 {
		t.Errorf("OnEvict ran %d times in Close, want 2: then onEvict need not ask the gate", evicted)
	}
	if _, ok := cache.Get(1); ok || cache.Set(1, "page", 1) {
		t.Error("a closed cache takes or gives")
	}
	cache.Del(1)
	cache.Wait() // neither blocks nor panics once Close has returned; beside Close both may
}

func TestRistrettoRejectsTheSecondOfTwoQueuedSets(t *testing.T) {
	rejected := 0
	cache := openRistretto(t, ristretto.Config[uint64, any]{
		IgnoreInternalCost: true,
		OnReject:           func(*ristretto.Item[any]) { rejected++ },
		Cost: func(value any) int64 {
			<-value.(plug).pulled
			return 1
		},
	})
	pulled := make(chan struct{})
	cache.Set(0, plug{pulled}, 0)
	cache.Set(1, "first", 1)
	cache.Set(1, "second", 1)
	close(pulled)
	cache.Wait()
	if got, _ := cache.Get(1); got != "first" || rejected != 1 {
		t.Errorf("got %v and %d rejections, want the first and 1", got, rejected)
	}
}

func TestRistrettoWorksOffDelsAndSetsInOrder(t *testing.T) {
	evicted := 0
	cache := openRistretto(t, ristretto.Config[uint64, any]{
		MaxCost:            100,
		IgnoreInternalCost: true,
		OnEvict:            func(*ristretto.Item[any]) { evicted++ },
	})
	for key := range uint64(1000) { // always full, and never one too many
		cache.Set(key, "page", 100)
		cache.Del(key)
	}
	cache.Set(1000, "page", 100)
	cache.Wait()
	if _, ok := cache.Get(1000); !ok || evicted != 0 {
		t.Errorf("the last page is there: %t, with %d evictions; want it without any", ok, evicted)
	}
}
