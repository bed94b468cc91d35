package segment

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	promoteAfterFailures = 3
	retryAfterMin        = 100 * time.Millisecond
	retryAfterMax        = 5 * time.Second
	restAfterFailure     = 10 * time.Minute
)

// attempts remembers which merges failed. After a failure a measurement is tried again with fewer of its oldest
// segments, so that what can't be merged is soon alone: then it is promoted, and the drain goes on. Segments of level 1
// that may be why a merge failed are left alone for some minutes; nothing waits for them.
type attempts struct {
	byMeasurement map[measurementKey]*attempt
	failures      map[uint64]int       // of segments of level 0
	restUntil     map[uint64]time.Time // of segments of level 1
}

type attempt struct {
	width   int // segments that the next merge may take
	tries   int
	retryAt time.Time
	alone   uint64 // the segment that failed by itself
}

func newAttempts() *attempts {
	return &attempts{
		byMeasurement: make(map[measurementKey]*attempt),
		failures:      make(map[uint64]int),
		restUntil:     make(map[uint64]time.Time),
	}
}

// admit is the admission of planL0.
func (a *attempts) admit(key measurementKey, oldest *Segment, now time.Time) (width int, retryAt time.Time) {
	last := a.byMeasurement[key]
	id := oldest.meta.ID
	switch {
	case last == nil:
		return math.MaxInt, time.Time{}
	case now.Before(last.retryAt):
		return 0, last.retryAt
	case last.alone == id && a.failures[id] >= promoteAfterFailures:
		return promoteOldest, time.Time{}
	default:
		return last.width, time.Time{}
	}
}

func (a *attempts) resting(now time.Time) func(*Segment) bool {
	return func(sg *Segment) bool { return now.Before(a.restUntil[sg.meta.ID]) }
}

// failed takes note of a merge that failed, and of the inputs that may be why.
func (a *attempts) failed(m mergeTask, suspects []*Segment, now time.Time) {
	if m.level > 0 {
		a.rest(suspects, now)
		return
	}
	last := a.byMeasurement[m.key]
	if last == nil {
		last = &attempt{}
		a.byMeasurement[m.key] = last
	}
	for _, sg := range suspects {
		a.failures[sg.meta.ID]++
	}
	if len(m.inputs) == 1 {
		last.alone = m.inputs[0].meta.ID
	}
	last.width = max(1, narrower(m.inputs, suspects))
	last.backOff(now)
}

// narrower is how many of the oldest inputs to try next: those older than the only suspect, or half of them.
func narrower(inputs, suspects []*Segment) int {
	if len(suspects) == 1 {
		return len(inputs) - 1 - slices.Index(inputs, suspects[0])
	}
	return len(inputs) / 2
}

func (a *attempt) backOff(now time.Time) {
	a.retryAt = now.Add(min(retryAfterMin<<min(a.tries, 10), retryAfterMax))
	a.tries++
}

// postpone takes note of promotions that failed.
func (a *attempts) postpone(segments []*Segment, now time.Time) {
	for _, sg := range segments {
		if last := a.byMeasurement[keyOf(sg.meta)]; last != nil {
			last.backOff(now)
		}
	}
}

func (a *attempts) rest(suspects []*Segment, now time.Time) {
	maps.DeleteFunc(a.restUntil, func(_ uint64, until time.Time) bool { return !now.Before(until) })
	for _, sg := range suspects {
		a.restUntil[sg.meta.ID] = now.Add(restAfterFailure)
	}
}

// merged forgets what is over, and lets the next merge take twice as many.
func (a *attempts) merged(m mergeTask) {
	for _, sg := range m.inputs {
		delete(a.failures, sg.meta.ID)
	}
	last := a.byMeasurement[m.key]
	if m.level > 0 || last == nil {
		return
	}
	*last = attempt{width: 2 * len(m.inputs)}
	if last.width >= mergeFilesMax {
		delete(a.byMeasurement, m.key)
	}
}

// promoted lets the next segment be tried at once and by itself: whatever was wrong may be wrong with it too.
func (a *attempts) promoted(sg *Segment) {
	delete(a.failures, sg.meta.ID)
	if last := a.byMeasurement[keyOf(sg.meta)]; last != nil {
		*last = attempt{width: 1}
	}
}
