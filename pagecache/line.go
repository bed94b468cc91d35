package pagecache

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// membersMax bounds the clients that the line knows by name; the others share one name, and so one share.
	membersMax = 4096

	// placesMax bounds the places that are kept for refused writes, of all clients together, and placesOfOneMax those of
	// one client. A write beyond it is refused as well, but nothing is kept for it.
	placesMax      = 8192
	placesOfOneMax = placesMax / 4

	// placeGrace is how long after its time a place is kept for a client that doesn't come back. Agents come with their
	// next flush, not to the second.
	placeGrace = 5 * time.Second

	// sweepEvery is the time between two looks for places that nobody has come back for.
	sweepEvery = 250 * time.Millisecond

	// others is the name of the clients beyond membersMax. No client has it: it is neither a token's name nor an address.
	others = "\x00others"
)

// line is the order in which writes of all clients get room in the tier: start-time fair queuing by bytes (Goyal, Vin
// and Cheng, SIGCOMM 1996) with equal weights. Each write has a start tag, in bytes: the finish tag of its client's
// write before, which is that write's start plus its size, or the virtual time, if that is later. The lowest start tag
// goes first, and the virtual time is the start tag that is served. So a client's writes keep their order,
// clients that want more than their share get equal shares, and one that wants less is served at once, whatever the
// others want. Where places are kept for clients that are away, the virtual time stays at the first of these: else the
// places of one client that comes back in no order would go before those who have had less than their share.
//
// A write that is refused leaves its place here, with the time at which its client was told to come back. Its bytes
// count in the predictions of others, and when the client comes back the place is as far ahead as if it had waited.
//
// It is a value without a lock or a clock.
type line struct {
	members map[string]*member
	places  []*Place // in order
	virtual float64  // start tag from which strangers begin
	numbers uint64
	sweepAt time.Time

	waitingBytes int64
	awayBytes    int64
	away         int
}

// member is one client.
type member struct {
	served       float64  // finish tag of what it was given last
	places       []*Place // in order
	waitingBytes int64
	away         int
}

// Place is that of one write in the line.
type Place struct {
	member    *member
	sizeBytes int64
	start     float64
	number    uint64    // of its arrival, for equal tags
	away      bool      // its write was refused
	due       time.Time // then when it may be back
}

func newLine() line { return line{members: map[string]*member{}} }

// before orders places.
func before(p, q *Place) int {
	return cmp.Or(cmp.Compare(p.start, q.start), cmp.Compare(p.number, q.number))
}

// Before reports whether the place is served before another.
func (p *Place) Before(q *Place) bool { return before(p, q) < 0 }

// finish is the tag from which the client's next write starts, if the virtual time is not later.
func (m *member) finish() float64 {
	if len(m.places) == 0 {
		return m.served
	}
	last := m.places[len(m.places)-1]
	return max(m.served, last.start+float64(last.sizeBytes))
}

// member returns the client of a name, which is made if need be.
func (l *line) member(name string) *member {
	if m, ok := l.members[name]; ok {
		return m
	}
	if len(l.members) >= membersMax {
		l.forget()
	}
	if len(l.members) >= membersMax {
		name = others
		if m, ok := l.members[name]; ok {
			return m
		}
	}
	m := &member{}
	l.members[name] = m
	return m
}

// forget lets go of clients of whom a stranger would know as much.
func (l *line) forget() {
	for name, m := range l.members {
		if len(m.places) == 0 && (m.served <= l.virtual || len(l.places) == 0) {
			delete(l.members, name)
		}
	}
}

// arrive returns the place of a write that comes: the one that was kept for it, or a new one, which is not in the line
// yet. A client that comes before its time brings another write.
func (l *line) arrive(m *member, sizeBytes int64, now time.Time) *Place {
	if p := m.returning(now); p != nil {
		return p
	}
	l.numbers++
	return &Place{member: m, sizeBytes: sizeBytes, start: max(l.virtual, m.finish()), number: l.numbers}
}

// returning is the client's first place that is kept, if the time of any has come. Its writes are alike: whichever of
// them is back first takes the first place, and leaves its own time to the other.
func (m *member) returning(now time.Time) *Place {
	if m.away == 0 {
		return nil
	}
	var first *Place
	for _, p := range m.places {
		switch {
		case !p.away:
		case first == nil:
			first = p
			if !now.Before(p.due) {
				return p
			}
		case !now.Before(p.due):
			first.due, p.due = p.due, first.due
			return first
		}
	}
	return nil
}

// ahead returns the bytes that go before a place, and of these the ones whose writes are there and wait.
func (l *line) ahead(p *Place) (all, present int64) {
	for _, q := range l.places {
		if before(q, p) >= 0 {
			break
		}
		all += q.sizeBytes
		if !q.away {
			present += q.sizeBytes
		}
	}
	return all, present
}

// join puts a write that waits into the line, with its size as it is known now.
func (l *line) join(p *Place, sizeBytes int64) {
	l.put(p, sizeBytes)
	p.member.waitingBytes += sizeBytes
	l.waitingBytes += sizeBytes
}

// leave keeps a place for a refused write until due. It reports false if there are too many of them already.
func (l *line) leave(p *Place, sizeBytes int64, due time.Time) bool {
	l.remove(p)
	if l.away >= placesMax || p.member.away >= placesOfOneMax {
		return false
	}
	l.put(p, sizeBytes)
	p.away, p.due = true, due
	p.member.away++
	l.away++
	l.awayBytes += sizeBytes
	return true
}

// put inserts a place in order; as a rule at or near the end of both lists.
func (l *line) put(p *Place, sizeBytes int64) {
	l.remove(p)
	p.sizeBytes = sizeBytes
	l.places = insert(l.places, p)
	p.member.places = insert(p.member.places, p)
}

func insert(places []*Place, p *Place) []*Place {
	at, _ := slices.BinarySearchFunc(places, p, before)
	return slices.Insert(places, at, p)
}

// remove takes a place out of the line, if it is there.
func (l *line) remove(p *Place) {
	at, found := slices.BinarySearchFunc(l.places, p, before)
	if !found {
		return
	}
	l.places = slices.Delete(l.places, at, at+1)
	at, _ = slices.BinarySearchFunc(p.member.places, p, before)
	p.member.places = slices.Delete(p.member.places, at, at+1)
	if !p.away {
		p.member.waitingBytes -= p.sizeBytes
		l.waitingBytes -= p.sizeBytes
		return
	}
	p.away = false
	p.member.away--
	l.away--
	l.awayBytes -= p.sizeBytes
}

// serve takes the write of a place out of the line because it has its room.
func (l *line) serve(p *Place, sizeBytes int64) {
	l.remove(p)
	now := p.start
	if len(l.places) > 0 {
		now = min(now, l.places[0].start)
	}
	l.virtual = max(l.virtual, now)
	p.member.served = max(p.member.served, p.start+float64(sizeBytes))
}

// sweep lets go of places whose clients have not come back, and of clients when nobody waits or is to come back: the
// next who come begin alike.
func (l *line) sweep(now time.Time) {
	if now.Before(l.sweepAt) {
		return
	}
	l.sweepAt = now.Add(sweepEvery)
	if l.away > 0 {
		for _, p := range slices.Clone(l.places) {
			if p.away && now.Sub(p.due) > placeGrace {
				l.remove(p)
			}
		}
	}
	if len(l.places) == 0 && len(l.members) > 0 {
		l.members, l.virtual = map[string]*member{}, 0
	}
}

// tagMax keeps the tags exact: below it a float64 tells bytes apart.
const tagMax = 1 << 52

// rebase shifts the tags, so that they stay exact however long the line lasts.
func (l *line) rebase() {
	if l.virtual < tagMax {
		return
	}
	by := l.virtual
	l.virtual = 0
	for _, m := range l.members {
		m.served = math.Max(0, m.served-by)
	}
	for _, p := range l.places {
		p.start -= by
	}
}
