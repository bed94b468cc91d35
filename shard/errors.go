package shard

import (
	"errors"
	"fmt"
	"time"
)

// Causes of backpressure, as they appear in answers, metrics and status.
const (
	CauseL0Full         = "l0_full"
	CauseFrozenFull     = "frozen_full"
	CauseWALFull        = "wal_full"
	CauseMemory         = "memory"
	CauseDiskLow        = "disk_low"
	CauseReadOnly       = "read_only"
	CauseDraining       = "draining"
	CauseRecovering     = "recovering"
	CauseOutcomeUnknown = "outcome_unknown"
)

// Causes lists every cause of backpressure, for metrics that start at zero.
func Causes() []string {
	return []string{
		CauseL0Full, CauseFrozenFull, CauseWALFull, CauseMemory, CauseDiskLow, CauseReadOnly, CauseDraining,
		CauseRecovering, CauseOutcomeUnknown,
	}
}

// BackpressureError refuses a write that may be sent again: nothing of it was kept. The one exception is
// CauseOutcomeUnknown, where the log failed after the commit and only a restart can tell; sending the same points
// again is safe then too.
type BackpressureError struct {
	Cause      string        // one of Causes
	RetryAfter time.Duration // whole seconds, at least one
	Detail     string        // what an operator reads
}

func (e *BackpressureError) Error() string {
	return fmt.Sprintf("%s: %s; retry after %s", e.Cause, e.Detail, e.RetryAfter)
}

// TooLargeError refuses a batch that could not fit in an empty memtable or log, so that sending it again is no use.
type TooLargeError struct {
	Points    int
	SizeBytes int64 // worst case that the batch needs in one shard, or what its text takes in the log
	MaxBytes  int64 // what a memtable holds, or the log takes at once
	Rows      int
	MaxRows   int  // 0 for the log
	Log       bool // the log is too small, not a memtable
}

func (e *TooLargeError) Error() string {
	if e.Log {
		return fmt.Sprintf("batch of %d points takes %d bytes in the write-ahead log, which takes at most %d at once,"+
			" half of wal.max_bytes", e.Points, e.SizeBytes, e.MaxBytes)
	}
	return fmt.Sprintf("batch of %d points needs up to %d bytes and %d rows in one memtable, which holds %d and %d",
		e.Points, e.SizeBytes, e.Rows, e.MaxBytes, e.MaxRows)
}

// PointError refuses one point of a batch; the others stand.
type PointError struct{ Reason string }

func (e *PointError) Error() string { return e.Reason }

func pointError(format string, args ...any) error {
	return &PointError{Reason: fmt.Sprintf(format, args...)}
}

// Errors of opening.
var (
	ErrCorrupt = errors.New("a frame of the write-ahead log has a good checksum but can't be decoded")
)

// Errors of writing.
var (
	ErrSchemaChanged    = errors.New("another write changed the schema since the batch was parsed; parse it again")
	ErrCapacityExceeded = errors.New("the memtables of the shard are full")
	ErrFrozen           = errors.New("the memtable is frozen")
)

// Errors of flushing.
var (
	ErrUnwritable       = errors.New("the rows can't be written as a file")
	ErrNoFrozenMemtable = errors.New("there is no frozen memtable to flush")
	ErrFrozenQueueFull  = errors.New("the queue of frozen memtables is full")
	ErrPoisoned         = errors.New("the write-ahead log or the manifest failed; nothing is flushed until a restart")
)

// Errors of statements.
var (
	ErrRetentionConflict = errors.New("the database exists and keeps its points for another time")
)

// ReadLimitError refuses a read, because all reads together would take more memory than they may.
type ReadLimitError struct {
	NeedBytes  int64 // of this read, as far as it got
	UsedBytes  int64 // of all reads that run
	LimitBytes int64
	RetryAfter time.Duration // 0: no wait would help, the read needs too much even if it is alone
	Unmerged   bool          // it got as far as a segment of L0, of which compaction makes few of many
}

func (e *ReadLimitError) Error() string {
	if e.RetryAfter == 0 {
		return fmt.Sprintf("it needs at least %d bytes of memory, more than the %d that http.read_bytes allows for all "+
			"reads: ask for less at once, a shorter time or fewer fields", e.NeedBytes, e.LimitBytes)
	}
	if e.NeedBytes > e.LimitBytes {
		return fmt.Sprintf("it needs at least %d bytes of memory, more than the %d that http.read_bytes allows for all "+
			"reads, until compaction has merged the segments of L0", e.NeedBytes, e.LimitBytes)
	}
	return fmt.Sprintf("the reads that run hold %d of the %d bytes of memory that http.read_bytes allows", e.UsedBytes,
		e.LimitBytes)
}

// Errors of reading.
var (
	ErrDatabaseNotFound    = errors.New("database not found")
	ErrMeasurementNotFound = errors.New("measurement not found")
)
