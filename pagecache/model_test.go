package pagecache

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tierModel recomputes from lists what the controller keeps.
type tierModel struct {
	clock      *handClock
	controller *Controller
	open       []*Reservation
	segments   []int64
	forced     int64
	overruns   int64
}

func (m *tierModel) level() (registered, reserved int64) {
	for _, size := range m.segments {
		registered += size
	}
	for _, r := range m.open {
		reserved += r.SizeBytes()
	}
	return registered, reserved
}

// take removes and returns a reservation.
func (m *tierModel) take(t *rapid.T) *Reservation {
	if len(m.open) == 0 {
		t.Skip("nothing is reserved")
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(t, "reservation")
	r := m.open[i]
	m.open = append(m.open[:i], m.open[i+1:]...)
	return r
}

func (m *tierModel) reserve(t *rapid.T) {
	size := rapid.Int64Range(0, 120).Draw(t, "size")
	may := m.controller.MaySeal(size)
	registered, reserved := m.level()
	r, ok := m.controller.Reserve(size)
	if ok != may {
		t.Fatalf("Reserve is %t, MaySeal was %t", ok, may)
	}
	if !ok {
		return
	}
	if registered+reserved+size > 100 {
		t.Fatalf("granted %d at %d + %d of 100", size, registered, reserved)
	}
	m.open = append(m.open, r)
}

func (m *tierModel) force(t *rapid.T) {
	m.open = append(m.open, m.controller.ReserveForced(rapid.Int64Range(0, 50).Draw(t, "size")))
	m.forced++
}

func (m *tierModel) settle(t *rapid.T) {
	registered, reserved := m.level()
	r := m.take(t)
	size := rapid.Int64Range(0, r.SizeBytes()+5).Draw(t, "registered")
	overrun := size - r.SizeBytes()
	if overrun > 0 {
		m.overruns++
		if registered+reserved+overrun > 100 {
			m.forced++
		}
	}
	if got := r.Settle(size); got != (overrun <= 0) {
		t.Fatalf("Settle is %t with an overrun of %d", got, overrun)
	}
	m.segments = append(m.segments, size)
}

func (m *tierModel) release(t *rapid.T) { m.take(t).Release() }

func (m *tierModel) split(t *rapid.T) {
	r := m.take(t)
	part := r.Split(rapid.Int64Range(0, r.SizeBytes()).Draw(t, "part"))
	m.open = append(m.open, r, part)
}

func (m *tierModel) register(t *rapid.T) {
	size := rapid.Int64Range(0, 40).Draw(t, "size")
	if registered, reserved := m.level(); registered+reserved+size > 100 {
		m.forced++
	}
	m.controller.Register(size)
	m.segments = append(m.segments, size)
}

func (m *tierModel) retire(t *rapid.T) {
	if len(m.segments) == 0 {
		t.Skip("no segment")
	}
	m.controller.Retire(m.segments[0])
	m.controller.Drained(m.segments[0], time.Second)
	m.segments = m.segments[1:]
}

func (m *tierModel) pass(t *rapid.T) {
	m.clock.Advance(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "time")))
}

func (m *tierModel) check(t *rapid.T) {
	ledger := m.controller.Ledger()
	registered, reserved := m.level()
	if ledger.RegisteredBytes != registered || ledger.ReservedBytes != reserved {
		t.Fatalf("ledger holds %d + %d, recomputed %d + %d",
			ledger.RegisteredBytes, ledger.ReservedBytes, registered, reserved)
	}
	if ledger.ForcedCount != m.forced || ledger.OverReservations != m.overruns {
		t.Fatalf("got %d forced and %d overruns, want %d and %d",
			ledger.ForcedCount, ledger.OverReservations, m.forced, m.overruns)
	}
	m.checkThatRoomIsGranted(t)
}

// checkThatRoomIsGranted asks on a copy of the state, so that asking doesn't change the run.
func (m *tierModel) checkThatRoomIsGranted(t *rapid.T) {
	now, s := m.clock.Now(), *m.controller.published.Load()
	for _, size := range []int64{0, 1, 30, 100} {
		wait, ok := s.nextGrant(size, now)
		if ok != s.fits(size) {
			t.Fatalf("size %d: a grant by time alone is %t, though its fitting is %t", size, ok, s.fits(size))
		}
		if ok && (wait > floorFill || !s.maySeal(size, now.Add(wait))) {
			t.Fatalf("size %d fits, but gets no grant after %s: %+v", size, wait, s)
		}
	}
}

func TestLedgerEqualsWhatIsRecomputed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newHandClock()
		m := &tierModel{
			clock:      clock,
			controller: NewController(Options{CapacityBytes: 100, SoftFraction: 0.6, Now: clock.Now}),
		}
		t.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"force":    m.force,
			"pass":     m.pass,
			"register": m.register,
			"release":  m.release,
			"reserve":  m.reserve,
			"retire":   m.retire,
			"settle":   m.settle,
			"split":    m.split,
		})
		m.checkThatAnEmptyTierGrantsAll(t)
	})
}

// checkThatAnEmptyTierGrantsAll drains everything: whatever fits the tier is granted in the end.
func (m *tierModel) checkThatAnEmptyTierGrantsAll(t *rapid.T) {
	for _, r := range m.open {
		r.Release()
	}
	for _, size := range m.segments {
		m.controller.Retire(size)
	}
	if _, ok := m.controller.Reserve(100); !ok {
		t.Fatalf("an empty tier refuses its capacity: %+v", m.controller.Ledger())
	}
}
