package pagecache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Bounds and defaults of Options.
const (
	PageBytesDefault     = 64 << 10
	PageBytesMin         = 4 << 10
	PageBytesMax         = 16 << 20
	CapacityBytesMax     = 1 << 50
	SoftFractionDefault  = 0.75
	RetryAfterMinDefault = time.Second
	RetryAfterMaxDefault = time.Minute
	RetryAfterLimit      = 10 * time.Minute // Telegraf waits no longer, whatever it is told
)

// Options configure the cache and the controller of one tier. A zero field takes its default.
type Options struct {
	// CapacityBytes bounds the tier: registered and reserved bytes together, and so the pages in memory. Required.
	CapacityBytes int64
	// SoftFraction of the capacity is where grants begin to be paced; between 0 and 1, default 0.75.
	SoftFraction float64
	// PageBytes is the size of a page but for the last one of a file; default 64 KiB.
	PageBytes int
	// RetryAfterMin and RetryAfterMax bound what RetryAfter answers, in whole seconds; default 1 s and 60 s.
	RetryAfterMin time.Duration
	RetryAfterMax time.Duration
	// Now is the clock, which must be monotonic; default time.Now.
	Now func() time.Time
	// Random spreads what RetryAfter answers: uniform in [0, 1), safe for concurrent use; default rand.Float64.
	Random func() float64
}

// Validate returns every problem at once, or nil.
func (o Options) Validate() error {
	o = o.withDefaults()
	var problems []error
	refuse := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: %s", ErrInvalidOptions, fmt.Sprintf(format, args...)))
	}
	if o.PageBytes < PageBytesMin || o.PageBytes > PageBytesMax {
		refuse("page size is %d bytes, want %d to %d", o.PageBytes, PageBytesMin, PageBytesMax)
	}
	if o.CapacityBytes < 1 || o.CapacityBytes > CapacityBytesMax {
		refuse("capacity is %d bytes, want 1 to %d", o.CapacityBytes, int64(CapacityBytesMax))
	}
	if !(o.SoftFraction > 0 && o.SoftFraction < 1) { // also refuses NaN
		refuse("soft fraction is %g, want more than 0 and less than 1", o.SoftFraction)
	}
	if o.RetryAfterMin < time.Second || o.RetryAfterMin%time.Second != 0 {
		refuse("shortest Retry-After is %s, want whole seconds, at least 1s", o.RetryAfterMin)
	}
	if o.RetryAfterMax < o.RetryAfterMin || o.RetryAfterMax > RetryAfterLimit || o.RetryAfterMax%time.Second != 0 {
		refuse("longest Retry-After is %s, want whole seconds, the shortest, %s, to %s",
			o.RetryAfterMax, o.RetryAfterMin, RetryAfterLimit)
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	if o.SoftFraction == 0 {
		o.SoftFraction = SoftFractionDefault
	}
	if o.PageBytes == 0 {
		o.PageBytes = PageBytesDefault
	}
	if o.RetryAfterMin == 0 {
		o.RetryAfterMin = RetryAfterMinDefault
	}
	if o.RetryAfterMax == 0 {
		o.RetryAfterMax = max(RetryAfterMaxDefault, o.RetryAfterMin)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o
}
