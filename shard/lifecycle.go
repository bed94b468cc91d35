package shard

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"lineweir/segment"
	"lineweir/wal"
)

// The states of an engine, as status shows them.
const (
	stateRecovering = "recovering"
	stateReady      = "ready"
	stateReadOnly   = "read_only"
	stateDraining   = "draining"
	stateClosed     = "closed"
)

// lifecycle is what the engine can do at all. Readers take no lock.
type lifecycle struct {
	refusal atomic.Pointer[BackpressureError] // what every write is told; nil: writes are taken
	failed  chan struct{}                     // closed when the outcome of a durable write became unknown
	free    atomic.Int64                      // bytes of the disk at the last look

	// What is tried four times a second and logged once.
	diskUnknown atomic.Bool
	diskWasLow  atomic.Bool
	trimFailing atomic.Bool

	mu     sync.Mutex
	state  string
	reason string
}

// Unavailable returns the *BackpressureError that every write gets now whatever its body, or nil.
func (e *Engine) Unavailable() error {
	if err := e.notTaking(); err != nil {
		return err
	}
	if errors.Is(e.log.Room(0), wal.ErrFull) {
		return e.refusal(CauseWALFull, e.logDetail())
	}
	return nil
}

// notTaking is Unavailable without what a write may wait for.
func (e *Engine) notTaking() error {
	if refusal := e.state.refusal.Load(); refusal != nil {
		return e.refusal(refusal.Cause, refusal.Detail)
	}
	if e.diskLow() {
		return e.refusal(CauseDiskLow, diskLowDetail+"; writing resumes by itself")
	}
	return nil
}

const diskLowDetail = "the disk has less free space than disk.reserve_bytes beside what the memtables will take"

// diskLow reports that the free space is below the reserve once all that is in memory is flushed. So the flush of what
// was acknowledged leaves the reserve to compaction, which needs room to make room.
func (e *Engine) diskLow() bool {
	reserve := e.options.DiskReserveBytes
	if reserve == 0 {
		return false
	}
	free := e.state.free.Load()
	for _, s := range e.allShards() {
		free -= s.Fill().unflushedBytes()
	}
	return free < reserve
}

// refusal makes an error for a cause that no drain rate predicts the end of. Each is jittered on its own.
func (e *Engine) refusal(cause, detail string) *BackpressureError {
	return &BackpressureError{Cause: cause, Detail: detail, RetryAfter: e.tier.controller.RetryAfter(0, 0)}
}

// enter changes the state. A read-only engine stays so until it drains.
func (e *Engine) enter(state, reason string) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if e.state.state == state || e.state.state == stateReadOnly && state != stateDraining && state != stateClosed {
		return
	}
	if e.state.reason == "" || reason != "" {
		e.state.reason = reason
	}
	e.state.state = state
	e.state.refusal.Store(e.stateRefusal(state, e.state.reason))
	e.logger.Info("state changed", zap.String("state", state), zap.String("reason", reason))
}

func (e *Engine) stateRefusal(state, reason string) *BackpressureError {
	switch state {
	case stateReady:
		return nil
	case stateRecovering:
		return e.refusal(CauseRecovering, "the write-ahead log is being replayed")
	case stateReadOnly:
		return e.refusal(CauseReadOnly, reason)
	default:
		return e.refusal(CauseDraining, "the server is shutting down")
	}
}

// failed turns the engine read-only after a durable write whose outcome is unknown: only a restart can tell it.
func (e *Engine) failed(err error) {
	e.state.mu.Lock()
	if !e.hasFailed() {
		close(e.state.failed)
	}
	e.state.mu.Unlock()
	e.logger.Error("read-only until a restart", zap.Error(err))
	e.enter(stateReadOnly, err.Error())
	e.kick()
}

// Ready returns nil when writes are taken, else why not.
func (e *Engine) Ready() error { return e.Unavailable() }

// stateNow returns the state and its reason.
func (e *Engine) stateNow() (state, reason string) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if e.state.state == stateReady && e.diskLow() {
		return CauseDiskLow, diskLowDetail
	}
	return e.state.state, e.state.reason
}

// FailedReadOnly reports whether the engine had to turn read-only, so that the process ends with a failure.
func (e *Engine) FailedReadOnly() error {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if e.state.reason == "" {
		return nil
	}
	return errors.New(e.state.reason)
}

// hasFailed reports that failed was called. Unlike the state it lasts through a drain.
func (e *Engine) hasFailed() bool {
	select {
	case <-e.state.failed:
		return true
	default:
		return false
	}
}

// failedEdit is failed for an edit of the manifest, which may also fail without a trace.
func (e *Engine) failedEdit(err error) {
	if unknownOutcome(err) {
		e.failed(err)
	}
}

// unknownOutcome reports that the manifest takes no edits any more.
func unknownOutcome(err error) bool {
	return errors.Is(err, segment.ErrOutcomeUnknown) || errors.Is(err, segment.ErrReadOnly)
}
