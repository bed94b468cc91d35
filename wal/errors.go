package wal

import (
	"errors"
	"fmt"
)

// Errors of Open, Replay, Dump and StartAt.
var (
	// ErrVersion says that a file was written in a format that this program doesn't know.
	ErrVersion = errors.New("the log has another format version")
	// ErrNoLog says that a directory to be dumped holds no file of a log. In a data directory it is called wal.
	ErrNoLog = errors.New("the directory holds no log, which is the directory wal in a data directory")
	// ErrNotEmpty says that StartAt would leave a gap behind frames of the log.
	ErrNotEmpty = errors.New("the log holds frames, its next sequence can't be moved")
	// ErrReplayTooLate says that Replay was called after Append.
	ErrReplayTooLate = errors.New("the log can be replayed only before the first append")
)

// Errors of Room: the frame was not taken and nothing has changed.
var (
	// ErrFull says that the frame would take the log beyond Options.MaxBytes. Trim makes room.
	ErrFull = errors.New("the write-ahead log is full")
	// ErrDiskLow says that neither the preallocated files nor the disk have safe room for the frame.
	ErrDiskLow = errors.New("the disk has no room for the write-ahead log")
	// ErrFrameTooLarge says that the frame will never fit.
	ErrFrameTooLarge = errors.New("the frame is larger than the write-ahead log takes")
)

// Errors of tickets and of a log that has ended.
var (
	// ErrOutcomeUnknown says that a write or sync failed: after a restart the frame may be there or not.
	ErrOutcomeUnknown = errors.New("it is unknown whether the frame is on disk")
	// ErrPoisoned says that an earlier write or sync failed. The log takes no more frames.
	ErrPoisoned = errors.New("the write-ahead log failed and takes nothing until a restart")
	// ErrClosed says that Close was called before.
	ErrClosed = errors.New("the write-ahead log is closed")
)

// remedy is what an operator can do about damage.
const remedy = "restore the data directory from a backup, or run `lineweir repair DIR`, which says what would be lost"

// CorruptionError says that acknowledged frames can't be read. Nothing was changed on disk.
type CorruptionError struct {
	Path   string // file that is damaged or missing
	Offset int64  // first byte that can't be trusted
	Reason string
	Remedy string // what an operator can do
}

// Error names file, offset, reason and remedy.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("write-ahead log file %s is damaged at byte %d: %s (remedy: %s)",
		e.Path, e.Offset, e.Reason, e.Remedy)
}

func corruption(path string, offset int64, format string, args ...any) *CorruptionError {
	return &CorruptionError{Path: path, Offset: offset, Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}
