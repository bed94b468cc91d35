package pagecache

import (
	"fmt"
	"time"
)

// StallDelayMax is the delay of a write that needs a seal when the tier or the memtables are full.
const StallDelayMax = 100 * time.Millisecond

// stallDelay is 0 up to the soft fraction and grows linearly to StallDelayMax at a fill of 1.
func stallDelay(fill, softFraction float64) time.Duration {
	if fill <= softFraction {
		return 0
	}
	share := min(1, (fill-softFraction)/(1-softFraction))
	return time.Duration(share * float64(StallDelayMax))
}

// checkCapacity says which of the two has reached its bound, the tier first.
func checkCapacity(level, capacityBytes, memtableBytes, memtableMaxBytes int64) error {
	if level >= capacityBytes {
		return fmt.Errorf("%d of %d bytes registered or reserved: %w", level, capacityBytes, ErrTierFull)
	}
	if memtableBytes >= memtableMaxBytes {
		return fmt.Errorf("%d of %d bytes in memtables: %w", memtableBytes, memtableMaxBytes, ErrMemoryFull)
	}
	return nil
}
