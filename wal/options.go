package wal

import (
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

const (
	// FileBytesMin and FileBytesMax bound Options.FileBytes.
	FileBytesMin = 4 << 10
	FileBytesMax = 4 << 30

	// MaxPayloadBytes bounds the payload of a frame; Options.MaxBytes bounds it further, see Log.Room.
	MaxPayloadBytes = 256 << 20
)

// Options says where a log lives and how large it may become.
type Options struct {
	FS  vfs.FS
	Dir string // created if missing
	// FileBytes is the size of a file. A single frame that is larger makes its file larger.
	FileBytes int64
	// MaxBytes bounds the bytes of all groups in the log, at least two files. The disk holds up to two files more:
	// the spare and the unused rest of the current file.
	MaxBytes int64
	Known
	// OnPoison, if set, is called once, before any ticket fails, when a write or sync has failed. It must not call
	// Close.
	OnPoison func(error)
	Logger   *zap.Logger // nil logs nothing
}

// UnknownFloor is the Floor of a caller who doesn't know it.
const UnknownFloor = math.MaxUint64 >> 1

// Known is what the caller knows of a log from elsewhere. The zero value is that of a new log.
type Known struct {
	// Floor is the highest sequence up to which no frame is needed any more. Files that hold only such frames may
	// be missing or damaged.
	Floor uint64
	// Written is the highest sequence of which the caller knows that it was synced. A log that ends before it has lost
	// frames.
	Written uint64
	// ID is the log's; 0: any. A log of another ID is refused.
	ID uint64
}

// Validate returns every problem of the options at once.
func (o Options) Validate() error {
	var problems []error
	if o.FS == nil {
		problems = append(problems, errors.New("wal: FS is missing"))
	}
	if o.Dir == "" {
		problems = append(problems, errors.New("wal: Dir is empty"))
	}
	if o.FileBytes < FileBytesMin || o.FileBytes > FileBytesMax {
		problems = append(problems, fmt.Errorf("wal: FileBytes is %d, allowed are %d to %d",
			o.FileBytes, int64(FileBytesMin), int64(FileBytesMax)))
	}
	if o.MaxBytes < 2*o.FileBytes {
		problems = append(problems, fmt.Errorf("wal: MaxBytes is %d, needed are at least two files of %d",
			o.MaxBytes, o.FileBytes))
	}
	return errors.Join(problems...)
}

// newID is the ID of a log that is about to begin.
func (k Known) newID() uint64 {
	for k.ID == 0 {
		k.ID = newSalt()
	}
	return k.ID
}

// groupBytesMax bounds a group of several frames, so that recovery needs little memory and a file is filled well.
func (o Options) groupBytesMax() int64 {
	return min(16<<20, o.FileBytes/4)
}

// payloadBytesMax is the largest payload that an empty log has room for, whatever its current file holds: Trim seals
// a file that is half full, and a file is at most half of the log.
func (o Options) payloadBytesMax() int64 {
	return min(MaxPayloadBytes, o.MaxBytes/2)
}
