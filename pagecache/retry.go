package pagecache

import (
	"math"
	"time"
)

const (
	// retryJitter is how far an answer may lie from the prediction, so that clients refused together don't return
	// together.
	retryJitter = 0.25

	// retryStalledMax caps the answer while nobody knows the drain rate. Clients that were sent away for longer would
	// leave the tier idle after it has recovered.
	retryStalledMax = 10 * time.Second
)

// retryBounds are the shortest and the longest answer, in whole seconds from 1 on.
type retryBounds struct {
	min, max time.Duration
}

// whileStalled is the bounds with the low cap.
func (b retryBounds) whileStalled() retryBounds {
	return retryBounds{min: b.min, max: max(b.min, min(b.max, retryStalledMax))}
}

// retryAfter turns a prediction into what a client is told: jittered, in whole seconds, within the bounds. jitter and
// rounding are uniform in [0, 1). The prediction is capped before the jitter, so that answers at the cap are spread as
// well. Rounding up as often as the fraction says keeps the mean true: always rounding up would double a second and a
// bit, and would bring the herd back on the same tick.
func retryAfter(predicted time.Duration, b retryBounds, jitter, rounding float64) time.Duration {
	shortest, longest := b.min.Seconds(), b.max.Seconds()
	seconds := min(predicted.Seconds(), longest/(1+retryJitter))
	seconds *= 1 - retryJitter + 2*retryJitter*jitter
	whole := math.Floor(seconds)
	if rounding < seconds-whole {
		whole++
	}
	return time.Duration(max(shortest, min(whole, longest))) * time.Second
}
