package pagecache

import (
	"fmt"
	"time"
)

// Reservation is room in the tier for a flush that is to come. It is open until Settle or Release.
type Reservation struct {
	controller *Controller

	// Guarded by controller.mu.
	sizeBytes int64
	above     float64 // bytes above the soft limit when it was granted
	owed      float64 // what of them was expected to stay
	closed    bool
}

// SizeBytes is what the reservation holds; 0 after Settle or Release.
func (r *Reservation) SizeBytes() int64 {
	r.controller.mu.Lock()
	defer r.controller.mu.Unlock()
	return r.sizeBytes
}

// Split takes sizeBytes, at most all of it, out of an open reservation into one of its own. The ledger doesn't change.
// So a seal of several shards reserves their sum in one step, and each flush settles its own part.
func (r *Reservation) Split(sizeBytes int64) *Reservation {
	c := r.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.closed || sizeBytes < 0 || sizeBytes > r.sizeBytes {
		panic(fmt.Sprintf("BUG: split %d bytes off a reservation of %d (closed: %t)", sizeBytes, r.sizeBytes, r.closed))
	}
	share := fraction(sizeBytes, r.sizeBytes)
	part := &Reservation{controller: c, sizeBytes: sizeBytes, above: r.above * share, owed: r.owed * share}
	r.sizeBytes -= part.sizeBytes
	r.above -= part.above
	r.owed -= part.owed
	c.open[part] = struct{}{}
	return part
}

// Settle turns the reservation into registered bytes, the true size of what the flush wrote. It reports false if that
// is more than was reserved, which is a bug of the estimate: it is counted, the whole reservation is given back and the
// true size is taken in anew, counted as forced if the tier has no room for it. A segment may be retired before it is
// settled; the ledger is right in either order.
func (r *Reservation) Settle(registeredBytes int64) bool {
	mustNotBeNegative("settle", registeredBytes)
	fitted := false
	r.controller.update(func(s *state, _ time.Time) {
		if r.closed {
			panic(fmt.Sprintf("BUG: settle %d bytes of a closed reservation", registeredBytes))
		}
		fitted = s.settle(r.sizeBytes, registeredBytes, r.above, r.owed)
		r.closeLocked()
	})
	r.controller.notify()
	return fitted
}

// Release gives the reservation back. Releasing one that was settled or released does nothing, so it may be deferred.
func (r *Reservation) Release() {
	released := false
	r.controller.update(func(s *state, _ time.Time) {
		if r.closed {
			return
		}
		released = true
		s.forgive(r.owed)
		r.closeLocked()
	})
	if released {
		r.controller.notify()
	}
}

func (r *Reservation) closeLocked() {
	r.closed, r.sizeBytes, r.above, r.owed = true, 0, 0, 0
	delete(r.controller.open, r)
}

func mustNotBeNegative(operation string, sizeBytes int64) {
	if sizeBytes < 0 {
		panic(fmt.Sprintf("BUG: %s %d bytes", operation, sizeBytes))
	}
}
