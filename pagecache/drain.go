package pagecache

import (
	"math"
	"time"
)

const (
	// drainMemory is the busy time in which a measurement fades to 1/e: long enough to even out blocks and small jobs,
	// short enough to follow an operator's new rate limit within seconds.
	drainMemory = 5 * time.Second

	// drainRestart is how much busy time the first measurement after a stall may weigh. It may carry the stall itself,
	// so the next second of work must be able to outweigh it.
	drainRestart = time.Second

	// busyMin keeps a measurement without time from meaning an infinite rate.
	busyMin = time.Millisecond
)

// drainHistory is the fading memory of compaction's speed: bytes merged, and the time that jobs ran for them. Bytes per
// second of busy time is steady where bytes freed come in lumps, at the end of a job. The quotient of two fading sums
// needs no start value, unlike a mean that starts at zero.
type drainHistory struct {
	bytes       float64
	busySeconds float64
}

// add remembers one more measurement.
func (h drainHistory) add(sizeBytes int64, busy time.Duration) drainHistory {
	fade := math.Exp(-busy.Seconds() / drainMemory.Seconds())
	return drainHistory{
		bytes:       h.bytes*fade + float64(sizeBytes),
		busySeconds: h.busySeconds*fade + busy.Seconds(),
	}
}

// flushMemory is how much of the older flushes one more leaves. Time would be the wrong measure: while writes are
// refused because one flush was slow, there are few others to tell that it is over.
const flushMemory = 0.8

// addFlush remembers one more flush.
func (h drainHistory) addFlush(sizeBytes int64, busy time.Duration) drainHistory {
	return drainHistory{
		bytes:       h.bytes*flushMemory + float64(sizeBytes),
		busySeconds: h.busySeconds*flushMemory + busy.Seconds(),
	}
}

// restartDrain forgets all but one measurement.
func restartDrain(sizeBytes int64, busy time.Duration) drainHistory {
	weight := 1.0
	if busy > drainRestart {
		weight = drainRestart.Seconds() / busy.Seconds()
	}
	return drainHistory{bytes: float64(sizeBytes) * weight, busySeconds: busy.Seconds() * weight}
}

// bytesPerSecond is 0 while nothing is known.
func (h drainHistory) bytesPerSecond() float64 {
	if h.bytes == 0 {
		return 0
	}
	return h.bytes / max(h.busySeconds, busyMin.Seconds())
}

// settlementMemory is how much of the older settlements one more leaves.
const settlementMemory = 0.9

// settlements is the fading memory of what reservations came to. A reservation is the worst case, so much of what is
// reserved comes back at the settlement, without any draining; a prediction that ignored it would be too long.
type settlements struct {
	reserved   float64
	registered float64
}

func (s settlements) add(reservedBytes, registeredBytes int64) settlements {
	return settlements{
		reserved:   s.reserved*settlementMemory + float64(reservedBytes),
		registered: s.registered*settlementMemory + float64(registeredBytes),
	}
}

// share is the part of a reservation that is expected to stay; 1 while nothing is known.
func (s settlements) share() float64 {
	if s.reserved == 0 {
		return 1
	}
	return min(1, s.registered/s.reserved)
}
