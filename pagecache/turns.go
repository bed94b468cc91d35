package pagecache

import (
	"sync"
	"sync/atomic"
	"time"
)

// runDry is the part of the hold that the line may always be long, whoever is expected back: those who are there take
// the room that others leave. Were it 0, room would be lost whenever somebody is late; were it the whole hold, those
// who come back in time would find the line full.
const runDry = 4

// Turns decides which writes that need a seal may wait for it, and what the others are told. One fair line orders the
// writes of all shards, see line; when a place has its turn is predicted from the bytes before it, those of refused
// clients that are expected back included, and the controller's ledger and drain rate.
//
// It is safe for concurrent use. Its lock is held for a look at the line, and no write that fits takes it.
type Turns struct {
	controller *Controller
	hold       time.Duration

	away  atomic.Int64 // places that are kept
	taken atomic.Pointer[taken]

	mu   sync.Mutex
	line line
}

// taken tells of a write that got its room without the line. They form a list that the next look at the line takes in,
// so that such a write takes no lock.
type taken struct {
	client    string
	sizeBytes int64
	next      *taken
}

// Line is what an operator sees of the line.
type Line struct {
	WaitingBytes int64 // what the writes that wait need in memtables
	Away         int64 // refused writes that are expected back
	AwayBytes    int64
	Clients      int64
}

// NewTurns returns an empty line. hold is how far away a turn may be for its write to wait.
func NewTurns(c *Controller, hold time.Duration) *Turns {
	return &Turns{controller: c, hold: hold, line: newLine()}
}

// Seals is what a write waits for.
type Seals struct {
	SizeBytes int64 // of the memtables that are to be sealed
	// FlushBytes is what must be flushed before they can be; 0 if each has a place in its frozen queue.
	FlushBytes int64
}

// Ask tells whether a write of a client may wait for its turn. sizeBytes is what it needs in memtables. A write that
// may not is refused at once: the answer is its Retry-After, and its place is kept.
func (t *Turns) Ask(client string, sizeBytes int64, seals Seals) (retryAfter time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, now := t.arriveLocked(client, sizeBytes)
	wait, ok := t.expectLocked(p, seals, now)
	if ok {
		return 0, true
	}
	return t.refuseLocked(p, sizeBytes, wait, now), false
}

// Join is Ask for a write that waits from now on if it may: then it returns its place, which is the caller's until
// Serve, Leave or Refuse; else nil and the Retry-After.
func (t *Turns) Join(client string, sizeBytes int64, seals Seals) (*Place, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, now := t.arriveLocked(client, sizeBytes)
	wait, ok := t.expectLocked(p, seals, now)
	if !ok {
		return nil, t.refuseLocked(p, sizeBytes, wait, now)
	}
	t.line.join(p, sizeBytes)
	t.publishLocked()
	return p, 0
}

// Serve takes a write out of the line because it got its room.
func (t *Turns) Serve(p *Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.serve(p, p.sizeBytes)
	t.publishLocked()
}

// Leave takes a write out of the line that will not come back.
func (t *Turns) Leave(p *Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.remove(p)
	t.publishLocked()
}

// Refuse takes a write out of the line that can't wait on. It keeps its place, and the answer is its Retry-After.
func (t *Turns) Refuse(p *Place, seals Seals) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.controller.now()
	wait, _ := t.expectLocked(p, seals, now)
	return t.refuseLocked(p, p.sizeBytes, wait, now)
}

// Take notes that a write got its room without the line: it needed no seal, or had it at once. It takes no lock.
func (t *Turns) Take(client string, sizeBytes int64) {
	if t.away.Load() == 0 {
		return
	}
	n := &taken{client: client, sizeBytes: sizeBytes}
	for {
		n.next = t.taken.Load()
		if t.taken.CompareAndSwap(n.next, n) {
			return
		}
	}
}

// CatchUp lets go of places that nobody came back for. Call it a few times in a second.
func (t *Turns) CatchUp() { t.Line() }

// Line returns the present state, and lets go of places that nobody came back for.
func (t *Turns) Line() Line {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.catchUpLocked(t.controller.now())
	t.publishLocked()
	return Line{
		WaitingBytes: t.line.waitingBytes, Away: int64(t.line.away), AwayBytes: t.line.awayBytes,
		Clients: int64(len(t.line.members)),
	}
}

// arriveLocked returns the place of a write that comes now.
func (t *Turns) arriveLocked(client string, sizeBytes int64) (*Place, time.Time) {
	now := t.controller.now()
	t.catchUpLocked(now)
	return t.line.arrive(t.line.member(client), sizeBytes, now), now
}

// catchUpLocked takes in what happened since the last look.
func (t *Turns) catchUpLocked(now time.Time) {
	for n := t.taken.Swap(nil); n != nil; n = n.next {
		m := t.line.member(n.client)
		t.line.serve(t.line.arrive(m, n.sizeBytes, now), n.sizeBytes)
	}
	t.line.rebase()
	t.line.sweep(now)
}

// expectLocked predicts when a place has its turn, and tells whether its write may wait until then.
func (t *Turns) expectLocked(p *Place, seals Seals, now time.Time) (wait time.Duration, ok bool) {
	s := t.controller.published.Load()
	all, present := t.line.ahead(p)
	wait = s.turnWait(all, seals, now)
	within := t.hold / runDry
	if p.away {
		within = t.hold / 2 // it came when it was told to
	}
	return wait, wait <= t.hold || s.turnWait(present, seals, now) <= within
}

func (t *Turns) refuseLocked(p *Place, sizeBytes int64, wait time.Duration, now time.Time) time.Duration {
	retryAfter := t.controller.retryAfterWait(t.comeBack(wait))
	t.line.leave(p, sizeBytes, now.Add(retryAfter))
	t.publishLocked()
	return retryAfter
}

// comeBack is the time that a refused client is told on average, for a turn that is that far away. A client that is
// late finds its place kept and is served at once; one that is early by more than the hold is refused again. So the
// earliest answer, a quarter below the average and rounded down by half a second, is when the wait for the turn begins.
func (t *Turns) comeBack(wait time.Duration) time.Duration {
	earliest := wait - t.hold + time.Second/2
	return max(wait, time.Duration(float64(earliest)/(1-retryJitter)))
}

func (t *Turns) publishLocked() { t.away.Store(int64(t.line.away)) }
