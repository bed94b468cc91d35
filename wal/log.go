package wal

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

// Log is an open write-ahead log. Its methods are safe for concurrent use, where they don't say otherwise.
//
// Locks are taken in this order, and none of the first two by Append or Room: trimMu, spareKeeper.mu, fileSet.mu or
// allocation.mu, queue.mu.
type Log struct {
	options Options
	id      uint64
	queue   *queue
	files   *fileSet
	spare   *spareKeeper
	writer  *writer

	synced  atomic.Uint64
	failure atomic.Pointer[error] // why the log is poisoned
	replay  replayPosition

	requests  chan request
	quit      chan struct{} // closed by Close
	stopped   chan struct{} // closed when the writer has ended
	workers   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error

	trimMu sync.Mutex // held by Trim, StartAt and the end of Close
}

// Open reads and checks all files that are needed, drops an unfinished group at the end, and starts the log. Damage is
// a *CorruptionError; then nothing on disk has changed.
func Open(o Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if err := o.FS.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("create directory of the write-ahead log: %w", err)
	}
	found, err := recoverLog(o)
	if err != nil {
		return nil, err
	}
	l := &Log{
		options:  o,
		spare:    newSpareKeeper(o),
		requests: make(chan request),
		quit:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	if err := l.start(found); err != nil {
		return nil, err
	}
	return l, nil
}

// start opens the current file, makes the spare and starts the goroutines.
func (l *Log) start(found recovered) error {
	if found.spare {
		if err := l.spare.adopt(); err != nil {
			return err
		}
	}
	current := found.current
	file, err := l.openCurrent(&current)
	if err != nil {
		return err
	}
	l.id = current.header.Log
	l.queue = newQueue(current.sequence, l.options.groupBytesMax())
	l.files = newFileSet(found.sealed, current)
	l.synced.Store(current.sequence - 1)
	l.writer = &writer{
		log: l, file: file, header: current.header, end: current.end, sizeBytes: current.sizeBytes,
		group: current.group, sequence: current.sequence, crc: current.previousCRC,
	}
	l.spare.allocated.setCurrent(current.sizeBytes - current.end - trailerBytes)
	l.spare.tend(true)
	l.workers.Go(l.writer.run)
	l.workers.Go(func() { l.spare.run(l.quit) })
	return nil
}

// openCurrent opens the file that was found to be the last one, or makes the first file of a new log.
func (l *Log) openCurrent(current *fileState) (vfs.File, error) {
	if current.number > 0 {
		return l.options.FS.OpenFile(current.path, os.O_RDWR, 0)
	}
	header := fileHeader{Number: 1, Salt: newSalt(), FirstGroup: 1, FirstSequence: 1, Log: l.options.newID()}
	file, sizeBytes, err := l.spare.take(header)
	*current = fileState{
		number: 1, sizeBytes: sizeBytes, header: header, end: fileHeaderBytes, group: 1, sequence: 1,
	}
	return file, err
}

// Append hands over a frame, to be written after all frames before. It does no I/O and never waits for any. Sequences
// ascend without gaps from LastSequence() + 1; anything else is a bug of the caller and panics. The caller asks Room
// first, and doesn't touch the payload until the ticket is done.
func (l *Log) Append(f Frame) *Ticket { return l.queue.push(f) }

// ID is the random number of this log, which all its files have and no other log has. It is never 0.
func (l *Log) ID() uint64 { return l.id }

// LastSequence is the sequence of the newest frame that was handed over, 0 if there never was one. The frame itself
// may have been trimmed.
func (l *Log) LastSequence() uint64 { return l.queue.last() }

// SyncedSequence is the sequence up to which all frames are on stable storage.
func (l *Log) SyncedSequence() uint64 { return l.synced.Load() }

// StartAt makes sequence the next one. That is allowed where it is the next one already; in a log that has never held a
// frame; and, for Options.Floor + 1, in a log without any needed frame. Else the error is ErrNotEmpty.
func (l *Log) StartAt(sequence uint64) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	last := l.queue.last()
	if sequence == last+1 {
		return nil
	}
	sealed, current := l.files.snapshot()
	empty := len(sealed) == 0 && current.lastSequence < current.firstSequence
	unneeded := last <= l.options.Floor && sequence == l.options.Floor+1
	if sequence <= last || !(empty || unneeded) {
		return fmt.Errorf("start the log at frame %d behind frame %d: %w", sequence, last, ErrNotEmpty)
	}
	if err := l.rotate(sequence); err != nil {
		return fmt.Errorf("start the log at frame %d: %w", sequence, err)
	}
	l.queue.startAt(sequence)
	l.synced.Store(sequence - 1)
	return nil
}

// rotate has the writer change files; see request.
func (l *Log) rotate(sequence uint64) error {
	r := request{sequence: sequence, reply: make(chan error, 1)}
	select {
	case l.requests <- r:
		return <-r.reply
	case <-l.stopped:
		return l.ended()
	}
}

// ended is why the log takes nothing any more, or nil.
func (l *Log) ended() error {
	if failure := l.failure.Load(); failure != nil {
		return *failure
	}
	select {
	case <-l.quit:
		return ErrClosed
	default:
		return nil
	}
}

// poison ends the log for good and fails all frames that wait, on the writer's goroutine.
func (l *Log) poison(cause error) {
	failure := fmt.Errorf("%w: %w", ErrPoisoned, cause)
	if !l.failure.CompareAndSwap(nil, &failure) {
		return
	}
	l.queue.stop(failure)
	if l.options.OnPoison != nil {
		l.options.OnPoison(failure)
	}
	for g := l.queue.pop(); g != nil; g = l.queue.pop() {
		g.ticket.finish(l.unknown())
	}
}

// unknown is the error of frames that were handed over before the log was poisoned.
func (l *Log) unknown() error { return fmt.Errorf("%w: %w", ErrOutcomeUnknown, *l.failure.Load()) }

// Stats are counters since Open and sizes of the moment.
type Stats struct {
	Bytes          int64 // in use in all files
	Files          int   // without the spare
	LastSequence   uint64
	SyncedSequence uint64
	Groups         uint64
	Frames         uint64
	Fsyncs         uint64 // of groups and trailers
	FsyncTime      time.Duration
	SpareReady     bool
}

// Stats may be called after Close.
func (l *Log) Stats() Stats {
	sealed, _ := l.files.snapshot()
	return Stats{
		Bytes:          l.files.bytes.Load(),
		Files:          len(sealed) + 1,
		LastSequence:   l.LastSequence(),
		SyncedSequence: l.SyncedSequence(),
		Groups:         l.writer.groups.Load(),
		Frames:         l.writer.frames.Load(),
		Fsyncs:         l.writer.syncs.Load(),
		FsyncTime:      time.Duration(l.writer.syncTime.Load()),
		SpareReady:     l.spare.allocated.hasSpare(),
	}
}

// Close writes what was handed over, ends the goroutines and closes the files. It returns the failure of a poisoned
// log. Frames that are handed over later get ErrClosed.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.queue.stop(ErrClosed)
		close(l.quit)
		l.workers.Wait()
		l.trimMu.Lock()
		defer l.trimMu.Unlock()
		l.closeErr = l.writer.file.Close()
		if failure := l.failure.Load(); failure != nil {
			l.closeErr = errors.Join(*failure, l.closeErr)
		}
	})
	return l.closeErr
}
