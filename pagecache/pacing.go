package pagecache

import (
	"math"
	"time"
)

const (
	// fractionAtSoft and fractionAtHard are the ends of f, which turns the drain rate into the rate of grants. A bit
	// above 1 at the soft limit, so that a tier that is drained steadily is also used; above 0 at the hard limit, so
	// that what is owed is always paid off some time.
	fractionAtSoft = 1.1
	fractionAtHard = 0.05

	// floorFill is the time in which the slowest pacing fills the tier from the soft to the hard limit. With it a
	// stalled drain, or one whose speed nobody knows yet, doesn't shut the gate while there is room.
	floorFill = 5 * time.Minute

	// owedMin is what rounding may leave of a debt: less than a byte is nothing.
	owedMin = 1

	// waitMax stands for a wait whose end nobody can tell.
	waitMax = time.Hour

	// grainDrain is the drain that one grant above the soft limit takes: 20 grants in a second are smooth to the eye of
	// any client.
	grainDrain = 50 * time.Millisecond

	// grainMin keeps seals, each of which costs an fsync and a file per measurement, worth their while.
	grainMin = 1 << 20
)

// grain is how large the next memtable may become, at most maxBytes. What drains is the true size of segments, of which
// a memtable's bytes are the worst case.
func (s *state) grain(maxBytes int64, now time.Time) int64 {
	if s.level() < s.softBytes {
		return maxBytes
	}
	drains := s.drainRate(now) * grainDrain.Seconds()
	if share := s.settlements.share(); share > 0 {
		drains /= share
	}
	return int64(min(float64(maxBytes), max(grainMin, drains)))
}

// pacedLevel is the level less what the running job has merged already. A job frees its bytes in one lump at its end;
// pacing by the level itself would turn that saw-tooth into one of grants. The bound is held by the level.
func (s *state) pacedLevel() int64 { return s.level() - min(s.merged, s.registered) }

// pacedFill is how far the tier is between the soft limit, 0, and the hard one, 1.
func (s *state) pacedFill() float64 {
	fill := float64(s.pacedLevel()-s.softBytes) / float64(s.capacityBytes-s.softBytes)
	return min(1, max(0, fill))
}

// grantFraction is f, linear in the fill between the limits.
func grantFraction(pacedFill float64) float64 {
	return fractionAtSoft + (fractionAtHard-fractionAtSoft)*pacedFill
}

// grantRate is the bytes per second that may be granted above the soft limit.
func (s *state) grantRate(drainRate float64) float64 {
	floor := float64(s.capacityBytes-s.softBytes) / floorFill.Seconds()
	return max(drainRate*grantFraction(s.pacedFill()), floor)
}

// Pacing is a debt: a grant is given when nothing is owed, and owes its bytes above the soft limit, which time pays off
// at the rate of grants. So bursts are one reservation long, and whoever comes after a pause waits for nothing. The
// alternative, to save up for a grant first, makes the first one after a pause late, or needs a queue to know for whom
// to save.

// owedBytes is what is still owed. The rate changes once on the way if the drain becomes stalled.
func (s *state) owedBytes(now time.Time) float64 {
	elapsed := now.Sub(s.owedAt)
	if elapsed <= 0 {
		return s.owed
	}
	before, rate := s.untilStall(elapsed)
	paid := rate*before.Seconds() + s.grantRate(0)*(elapsed-before).Seconds()
	return max(0, s.owed-paid)
}

// untilStall is how much of a time from owedAt on passes before the drain is stalled, and the rate of grants up to
// then.
func (s *state) untilStall(elapsed time.Duration) (time.Duration, float64) {
	rate := s.grantRate(s.drain.bytesPerSecond())
	stall, ok := s.stallTime()
	if !ok {
		return elapsed, rate
	}
	return min(elapsed, max(0, stall.Sub(s.owedAt))), rate
}

// payTime is the time from now until nothing is owed, if nothing else changes.
func (s *state) payTime(now time.Time) time.Duration {
	owed := s.owedBytes(now)
	if owed < owedMin {
		return 0
	}
	rate := s.grantRate(s.drainRate(now))
	stall, ok := s.stallTime()
	if left := stall.Sub(now); ok && left > 0 && owed > rate*left.Seconds() {
		return left + secondsToPay(owed-rate*left.Seconds(), s.grantRate(0))
	}
	return secondsToPay(owed, rate)
}

// secondsToPay rounds up, so that a timer set to it never fires too early, and ends at waitMax.
func secondsToPay(owed, rate float64) time.Duration {
	seconds := owed / rate
	if !(seconds < waitMax.Seconds()) {
		return waitMax
	}
	return time.Duration(math.Ceil(seconds * float64(time.Second)))
}

// maySeal is the one predicate of MaySeal and Reserve.
func (s *state) maySeal(sizeBytes int64, now time.Time) bool {
	return s.fits(sizeBytes) && (s.pacedLevel() < s.softBytes || s.owedBytes(now) < owedMin)
}

// nextGrant is when maySeal turns true by time alone; false if it takes a change of the ledger.
func (s *state) nextGrant(sizeBytes int64, now time.Time) (time.Duration, bool) {
	if !s.fits(sizeBytes) {
		return 0, false
	}
	if s.pacedLevel() < s.softBytes {
		return 0, true
	}
	return s.payTime(now), true
}

// expectedWait predicts when sizeBytes are granted, after aheadBytes were granted to others.
func (s *state) expectedWait(aheadBytes, sizeBytes int64, now time.Time) time.Duration {
	return max(s.roomWait(aheadBytes, sizeBytes, now), s.pacingWait(aheadBytes, now))
}

// turnWait predicts when a write may go before which aheadBytes of others go.
func (s *state) turnWait(aheadBytes int64, seals Seals, now time.Time) time.Duration {
	return max(s.expectedWait(aheadBytes, seals.SizeBytes, now), s.flushWait(aheadBytes, seals.FlushBytes))
}

// flushWait is the time in which flushBytes and what goes before are flushed, as fast as flushes were so far. Before
// the first flush nobody knows, and nobody is refused for it.
func (s *state) flushWait(aheadBytes, flushBytes int64) time.Duration {
	rate := s.flush.bytesPerSecond()
	if flushBytes == 0 || rate == 0 {
		return 0
	}
	return secondsToPay(float64(aheadBytes+flushBytes), rate)
}

// roomWait is the time in which enough bytes drain for the reservation to fit. What is reserved now or granted before
// is expected to settle by then.
func (s *state) roomWait(aheadBytes, sizeBytes int64, now time.Time) time.Duration {
	kept := float64(s.reserved+aheadBytes) * s.settlements.share()
	missing := float64(s.registered) + kept + float64(sizeBytes) - float64(s.capacityBytes)
	if missing <= 0 {
		return 0
	}
	return secondsToPay(missing, s.drainRate(now)) // a rate of 0 gives waitMax
}

// pacingWait is the time in which the debt is paid, with that of the grants before, if the drain goes on as it does.
func (s *state) pacingWait(aheadBytes int64, now time.Time) time.Duration {
	share := s.settlements.share()
	ahead := float64(aheadBytes) * share
	above := float64(s.pacedLevel()-s.reserved) + float64(s.reserved)*share + ahead - float64(s.softBytes)
	if above < 0 {
		return 0
	}
	need := s.owedBytes(now) + min(ahead, above)
	if need < owedMin {
		return 0
	}
	span := float64(s.capacityBytes - s.softBytes)
	fill := min(1, max(0, (above-ahead)/span))
	slowest := secondsToPay(need, s.grantRate(0))
	return min(slowest, secondsToPay(bytesToDrain(need/span, fill)*span, s.drainRate(now)))
}

// bytesToDrain is how much must drain until need is granted at the pacing's rate, in a tier that starts at fill; all in
// parts of the span between the limits. While more drains than is granted the fill falls, and grants come faster, which
// makes the present rate a bad predictor: near the hard limit it is a twentieth of what it soon will be.
//
// Let x be the drained bytes. The fill obeys d(fill)/dx = f(fill) - 1, and f is linear with the slope -b, so the fill
// goes to rest, where f is 1, as exp(-b·x), and the bytes granted are x less what the fill has lost.
func bytesToDrain(need, fill float64) float64 {
	const b = fractionAtSoft - fractionAtHard
	const rest = (fractionAtSoft - 1) / b
	granted := func(x float64) float64 { return x - (fill-rest)*(1-math.Exp(-b*x)) }
	low, high := 0.0, need+max(0, fill-rest)
	for range 40 {
		if middle := (low + high) / 2; granted(middle) < need {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
