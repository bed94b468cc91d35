package pagecache

import "time"

// stallAfter is how long the drain may show no progress, while it is needed, before it counts as stalled.
const stallAfter = 10 * time.Second

// state is all that the controller decides from, as one value: it is copied, changed and published whole, so readers
// see a moment of it without a lock. Its methods read no clock and change nothing but the value itself.
type state struct {
	capacityBytes int64
	softBytes     int64

	registered int64 // bytes of L0 segments; short of the truth while a segment retires before it has settled
	reserved   int64 // sum of the open reservations
	counts     counts
	merged     int64 // by the job that runs: of registered, and free at its end
	paused     bool  // compaction is

	drain        drainHistory
	flush        drainHistory // of all shards together, in bytes of memtables
	lastProgress time.Time
	settlements  settlements

	owed   float64   // bytes granted above the soft limit and not yet paced off, at owedAt
	owedAt time.Time // never after the present

	refusedBytes int64     // the latest reservation that found no room, until one is granted
	pressedSince time.Time // since when the drain is needed; zero while it isn't
}

// counts only grow.
type counts struct {
	highestBytes     int64
	forcedBytes      int64
	forcedCount      int64
	overReservations int64
}

// level is what counts against the bound.
func (s *state) level() int64 { return s.registered + s.reserved }

// fits reports whether the bound has room.
func (s *state) fits(sizeBytes int64) bool { return sizeBytes <= s.capacityBytes-s.level() }

// advance pays off what time has paid, at the rates that held until now. It precedes every other change.
func (s *state) advance(now time.Time) {
	if !now.After(s.owedAt) {
		return
	}
	s.owed = s.owedBytes(now)
	s.owedAt = now
}

// conclude follows every other change, with the sum of the open reservations.
func (s *state) conclude(reservedBytes int64, now time.Time) {
	s.reserved = reservedBytes
	s.counts.highestBytes = max(s.counts.highestBytes, s.level())
	if s.pacedLevel() < s.softBytes {
		s.owed = 0
	}
	switch pressed := s.level() >= s.softBytes || !s.fits(s.refusedBytes); {
	case !pressed:
		s.pressedSince = time.Time{}
	case s.pressedSince.IsZero():
		s.pressedSince = now
	}
}

// pressed reports whether bytes must drain before everyone who asked gets a grant.
func (s *state) pressed() bool { return !s.pressedSince.IsZero() }

// above is how much of a reservation lies above the soft limit.
func (s *state) above(sizeBytes int64) float64 {
	return float64(min(sizeBytes, max(0, s.pacedLevel()+sizeBytes-s.softBytes)))
}

// grant takes a reservation in and returns what it owes the pacing: what is expected to stay of its bytes above the
// soft limit.
func (s *state) grant(above float64) (owed float64) {
	s.refusedBytes = 0
	owed = above * s.settlements.share()
	s.owed += owed
	return owed
}

// refuse remembers that someone waits for room.
func (s *state) refuse(sizeBytes int64) {
	if !s.fits(sizeBytes) {
		s.refusedBytes = sizeBytes
	}
}

// force counts bytes that come in without asking for room.
func (s *state) force(sizeBytes int64) {
	s.counts.forcedBytes += sizeBytes
	s.counts.forcedCount++
}

// settle turns a reservation into registered bytes, above of which lay above the soft limit at its grant. What it owed
// becomes what it should have owed. It reports false if the reservation was too small; then the bytes are taken in
// anew, as forced ones if there's no room.
func (s *state) settle(reservedBytes, registeredBytes int64, above, owed float64) bool {
	s.settlements = s.settlements.add(reservedBytes, registeredBytes)
	if registeredBytes <= reservedBytes {
		s.forgive(owed - above*fraction(registeredBytes, reservedBytes))
		s.registered += registeredBytes
		return true
	}
	s.counts.overReservations++
	if !s.fits(registeredBytes - reservedBytes) {
		s.force(registeredBytes)
	}
	s.registered += registeredBytes
	return false
}

// forgive takes back what a reservation owed.
func (s *state) forgive(owed float64) { s.owed = max(0, s.owed-owed) }

// drained takes in a measurement. The first progress after a stall starts the estimate anew.
func (s *state) drained(sizeBytes int64, busy time.Duration, now time.Time) {
	if sizeBytes == 0 {
		s.drain = s.drain.add(0, busy)
		return
	}
	s.merged += sizeBytes
	if s.stalled(now) {
		s.drain = restartDrain(sizeBytes, busy)
	} else {
		s.drain = s.drain.add(sizeBytes, busy)
	}
	s.lastProgress = now
}

// stallTime is when the drain counts as stalled unless it progresses; false if it isn't needed, or has nothing to do.
func (s *state) stallTime() (time.Time, bool) {
	if !s.pressed() || s.registered <= 0 {
		return time.Time{}, false
	}
	since := s.pressedSince
	if s.lastProgress.After(since) {
		since = s.lastProgress
	}
	return since.Add(stallAfter), true
}

func (s *state) stalled(now time.Time) bool {
	at, ok := s.stallTime()
	return ok && !now.Before(at)
}

// drainRate is bytes per second as far as anyone knows: 0 while it is unknown, stalled or paused.
func (s *state) drainRate(now time.Time) float64 {
	if s.paused || s.stalled(now) {
		return 0
	}
	return s.drain.bytesPerSecond()
}

// fraction is part ÷ whole, and 0 for an empty whole.
func fraction(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
