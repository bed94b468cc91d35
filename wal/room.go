package wal

import (
	"sync"
	"sync/atomic"
)

// Room answers whether a frame with a payload of payloadBytes may be appended now: nil, ErrFull, ErrDiskLow,
// ErrFrameTooLarge, or an error that wraps ErrPoisoned. It takes no lock and makes no system call. The answer holds for
// an Append that follows before any other one.
//
// A frame that the log could never take, however much is trimmed, is too large: at most MaxPayloadBytes and half of
// Options.MaxBytes are taken.
func (l *Log) Room(payloadBytes int64) error {
	if failure := l.failure.Load(); failure != nil {
		return *failure
	}
	if payloadBytes > l.options.payloadBytesMax() {
		return ErrFrameTooLarge
	}
	need := l.queue.needBytes.Load() + costBytes(payloadBytes)
	if l.files.bytes.Load()+need > l.options.MaxBytes {
		return ErrFull
	}
	if need <= l.spare.allocated.largest.Load() || need <= l.spare.spendableBytes() {
		return nil
	}
	l.spare.ask()
	return ErrDiskLow
}

// allocation knows the space in the current file and in the spare that can be overwritten without asking the file
// system for blocks.
//
// What is queued must fit into one of the two. Their sum would promise too much: a group isn't split over files, so the
// rest of the current file can be left unused. The larger of them never shrinks by a change of files, as a whole
// spare becomes the current file, and a written group takes as much from the queue as from the file. So a frame that
// was admitted finds its space.
type allocation struct {
	largest atomic.Int64

	mu      sync.Mutex
	current int64
	spare   int64
}

func (a *allocation) setCurrent(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = bytes
	a.largest.Store(max(a.current, a.spare))
}

func (a *allocation) setSpare(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spare = bytes
	a.largest.Store(max(a.current, a.spare))
}

func (a *allocation) hasSpare() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spare > 0
}

// promote replaces the current file by one of the given space, which was the spare if there was one.
func (a *allocation) promote(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current, a.spare = bytes, 0
	a.largest.Store(max(a.current, a.spare))
}
