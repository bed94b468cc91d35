package ingest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"lineweir/shard"
)

// budget bounds the memory of all writes in flight together: their bodies, texts, batches and payloads.
type budget struct {
	limitBytes int64
	usedBytes  atomic.Int64
}

// take adds to what is used, if that stays within the limit.
func (b *budget) take(sizeBytes int64) bool {
	for {
		used := b.usedBytes.Load()
		if used+sizeBytes > b.limitBytes {
			return false
		}
		if b.usedBytes.CompareAndSwap(used, used+sizeBytes) {
			return true
		}
	}
}

// pressed refuses a slow body while more than half of the budget is used, so that slow clients, however many, leave the
// other half to those that are done with it soon.
func (b *budget) pressed() error {
	if b.usedBytes.Load() <= b.limitBytes/2 {
		return nil
	}
	return b.refusal(", and this body comes slowly")
}

func (b *budget) refusal(addition string) error {
	return &shard.BackpressureError{
		Cause: shard.CauseMemory, RetryAfter: spreadRetryAfter(),
		Detail: fmt.Sprintf("the writes in flight hold %d of %d bytes%s", b.usedBytes.Load(), b.limitBytes, addition),
	}
}

// claim is the share of the budget that one request holds. It belongs to one goroutine.
type claim struct {
	budget    *budget
	heldBytes int64
}

// grow takes more of the budget. What could never fit is too large, what does not fit now is backpressure.
func (c *claim) grow(sizeBytes int64) error {
	if c.heldBytes+sizeBytes > c.budget.limitBytes {
		return errBodyTooLarge
	}
	if !c.budget.take(sizeBytes) {
		return c.budget.refusal("")
	}
	c.heldBytes += sizeBytes
	return nil
}

// shrink gives a part back.
func (c *claim) shrink(sizeBytes int64) {
	c.budget.usedBytes.Add(-sizeBytes)
	c.heldBytes -= sizeBytes
}

// restore gives back what was taken since the claim held so many bytes.
func (c *claim) restore(heldBytes int64) { c.shrink(c.heldBytes - heldBytes) }

// release gives everything back.
func (c *claim) release() { c.shrink(c.heldBytes) }

// spreadRetryAfter spreads the clients that found a bound reached which the time of a few requests moves.
func spreadRetryAfter() time.Duration {
	const secondsMax = 3
	return time.Duration(1+rand.N(secondsMax)) * time.Second
}
