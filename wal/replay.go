package wal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
)

// replayPosition keeps Trim from removing what Replay has still to read.
type replayPosition struct {
	running atomic.Bool
	done    atomic.Uint64 // highest sequence that fn has seen or that was skipped
}

// limit is the highest sequence that Trim may remove.
func (p *replayPosition) limit() uint64 {
	if !p.running.Load() {
		return math.MaxUint64
	}
	return p.done.Load()
}

// Replay calls fn for each frame above after and above Options.Floor, in order. The payload is valid during the call
// only. Replay may be called before the first Append only, and by one goroutine; Trim may run at the same time. It
// needs memory for one group. An error of fn ends it and is returned as it is.
func (l *Log) Replay(after uint64, fn func(Frame) error) error {
	sealed, current := l.files.snapshot()
	if l.queue.last() != current.lastSequence || l.writer.frames.Load() > 0 {
		return ErrReplayTooLate
	}
	after = max(after, l.options.Floor)
	l.replay.done.Store(after)
	l.replay.running.Store(true)
	defer l.replay.running.Store(false)
	files := append(sealed, sealedFile{current.number, current.lastSequence, current.bytes})
	var buffer []byte
	for _, file := range files {
		if file.lastSequence <= after {
			continue
		}
		if err := l.replayFile(file, &buffer, after, fn); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) replayFile(found sealedFile, buffer *[]byte, after uint64, fn func(Frame) error) (err error) {
	path := filepath.Join(l.options.Dir, fileName(found.number))
	file, err := l.options.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("replay the write-ahead log: %w", err)
	}
	defer closeInto(&err, file)
	s, err := newScanner(file, found.bytes, path, *buffer)
	if err != nil {
		return err
	}
	defer func() { *buffer = s.data }()
	for s.offset < found.bytes {
		g, err := s.next()
		if err != nil {
			return replayError(path, s.offset, err)
		}
		if g.header.Kind != kindFrames {
			s.skip(g)
			continue
		}
		err = s.frames(g, func(_ int64, f Frame) error {
			if f.Sequence <= after {
				return nil
			}
			err := fn(f)
			l.replay.done.Store(f.Sequence)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replayError turns what Open didn't see a moment ago into damage.
func replayError(path string, offset int64, err error) error {
	var bad *badGroupError
	if errors.As(err, &bad) {
		return corruption(path, bad.offset, "%s, though it was whole when the log was opened", bad.reason)
	}
	if errors.Is(err, io.EOF) {
		return corruption(path, offset, "zeros lie where a group was when the log was opened")
	}
	return err
}
