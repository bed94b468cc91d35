package wal

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Ticket tells when a frame is durable. All frames of a group share one.
type Ticket struct {
	done chan struct{}
	err  error // set before done is closed
}

// Wait returns nil once the frame is on stable storage. After a failed write or sync it returns an error that wraps
// ErrOutcomeUnknown and ErrPoisoned; for a frame that the log refused, one that wraps ErrPoisoned or ErrClosed.
func (t *Ticket) Wait() error {
	<-t.done
	return t.err
}

func newTicket() *Ticket { return &Ticket{done: make(chan struct{})} }

func (t *Ticket) finish(err error) {
	t.err = err
	close(t.done)
}

// group is frames that are written and synced together.
type group struct {
	frames    []Frame
	bodyBytes int64
	needBytes int64 // share of queue.needBytes
	ticket    *Ticket
}

// costBytes is the most that a frame adds to the log: the length of a group of its own.
func costBytes(payloadBytes int64) int64 { return groupBytes(frameBytes(payloadBytes)) }

// queue holds the groups that are gathered and not yet written.
type queue struct {
	groupBytesMax int64
	wake          chan struct{} // capacity 1; filled when the queue stops being empty
	needBytes     atomic.Int64  // cost of all frames that were pushed and are not yet settled

	mu     sync.Mutex
	next   uint64   // sequence of the next frame
	groups []*group // oldest first; the last one takes more frames
	unused *group   // kept for its slice of frames
	refuse error    // why no frame is taken any more
}

func newQueue(next uint64, groupBytesMax int64) *queue {
	return &queue{groupBytesMax: groupBytesMax, wake: make(chan struct{}, 1), next: next}
}

// push puts a frame into the open group, or starts one where it doesn't fit.
func (q *queue) push(f Frame) *Ticket {
	bodyBytes, needBytes := frameBytes(int64(len(f.Payload))), costBytes(int64(len(f.Payload)))
	q.mu.Lock()
	if q.refuse != nil {
		err := q.refuse
		q.mu.Unlock()
		ticket := newTicket()
		ticket.finish(err)
		return ticket
	}
	if f.Sequence != q.next || len(f.Payload) > MaxPayloadBytes {
		next := q.next
		q.mu.Unlock()
		panic(fmt.Sprintf("BUG: frame %d of %d bytes appended where frame %d is due", f.Sequence, len(f.Payload), next))
	}
	q.next++
	q.needBytes.Add(needBytes)
	wasEmpty := len(q.groups) == 0
	g := q.openLocked(bodyBytes)
	g.frames = append(g.frames, f)
	g.bodyBytes += bodyBytes
	g.needBytes += needBytes
	ticket := g.ticket
	q.mu.Unlock()
	if wasEmpty {
		q.signal()
	}
	return ticket
}

// openLocked returns the group that takes a frame of bodyBytes.
func (q *queue) openLocked(bodyBytes int64) *group {
	if n := len(q.groups); n > 0 && groupBytes(q.groups[n-1].bodyBytes+bodyBytes) <= q.groupBytesMax {
		return q.groups[n-1]
	}
	g := q.unused
	if q.unused = nil; g == nil {
		g = &group{}
	}
	g.ticket = newTicket()
	q.groups = append(q.groups, g)
	return g
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pop takes the oldest group, or returns nil.
func (q *queue) pop() *group {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.groups) == 0 {
		return nil
	}
	g := q.groups[0]
	n := copy(q.groups, q.groups[1:])
	q.groups[n] = nil
	q.groups = q.groups[:n]
	return g
}

// settle gives back a popped group after it was written, and lets go of its payloads.
func (q *queue) settle(g *group) {
	q.needBytes.Add(-g.needBytes)
	clear(g.frames)
	*g = group{frames: g.frames[:0]}
	q.mu.Lock()
	q.unused = g
	q.mu.Unlock()
}

// stop makes every later push fail with err.
func (q *queue) stop(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refuse == nil {
		q.refuse = err
	}
}

func (q *queue) last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next - 1
}

// startAt sets the sequence of the next frame.
func (q *queue) startAt(sequence uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = sequence
}
