package load

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyMax is the longest time that is told apart from longer ones.
const latencyMax = time.Hour

// Latency is a distribution of times, in seconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_seconds"`
	P90   float64 `json:"p90_seconds"`
	P99   float64 `json:"p99_seconds"`
	P999  float64 `json:"p999_seconds"`
	Max   float64 `json:"max_seconds"`
}

// latency gathers times with a resolution of a microsecond.
type latency struct {
	histogram *hdrhistogram.Histogram
	longest   time.Duration
}

// newLatency has so many significant digits.
func newLatency(digits int) *latency {
	return &latency{histogram: hdrhistogram.New(1, latencyMax.Microseconds(), digits)}
}

func (l *latency) record(d time.Duration) {
	d = min(max(d, 0), latencyMax)
	l.longest = max(l.longest, d)
	if err := l.histogram.RecordValue(d.Microseconds()); err != nil {
		panic("BUG: a time is out of the range of its histogram: " + err.Error())
	}
}

func (l *latency) summary() Latency {
	values := l.histogram.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9})
	seconds := make([]float64, len(values))
	for i, value := range values {
		// The histogram answers with the upper end of a bucket.
		seconds[i] = min(time.Duration(value)*time.Microsecond, l.longest).Seconds()
	}
	slices.Sort(seconds) // so they are already, but for what min changed
	return Latency{
		Count: l.histogram.TotalCount(), P50: seconds[0], P90: seconds[1], P99: seconds[2], P999: seconds[3],
		Max: l.longest.Seconds(),
	}
}

func (l *latency) reset() {
	l.histogram.Reset()
	l.longest = 0
}
