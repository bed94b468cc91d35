package shard

import (
	"math"
	"slices"
	"time"
)

// steadyClock is a wall clock that believes no jump ahead before it has lasted for a while: it shows the lowest that
// the wall clock has been in that time, carried on by a clock that nobody sets. So a step back counts at once, and a
// clock that was wrong and gets its time from the network counts after a while.
type steadyClock struct{ samples []clockSample }

// clockSample is what the wall clock showed, less the time since the start.
type clockSample struct {
	elapsed time.Duration
	offset  int64 // nanoseconds
}

// clockWindow is how long a jump ahead has to last.
const clockWindow = time.Hour

// observe takes in what the wall clock shows.
func (c *steadyClock) observe(wall time.Time, elapsed time.Duration) {
	c.samples = slices.DeleteFunc(c.samples, func(s clockSample) bool { return s.elapsed < elapsed-clockWindow })
	c.samples = append(c.samples, clockSample{elapsed: elapsed, offset: wall.UnixNano() - int64(elapsed)})
}

// read returns the time in nanoseconds since the epoch.
func (c *steadyClock) read(elapsed time.Duration) int64 {
	lowest := int64(math.MaxInt64)
	for _, s := range c.samples {
		lowest = min(lowest, s.offset)
	}
	return int64(elapsed) + lowest
}
