package wal

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

// writer writes groups to the current file. After Open it belongs to one goroutine, except for its counters.
type writer struct {
	log     *Log
	encoder encoder

	file      vfs.File
	header    fileHeader
	end       int64 // offset of the next group
	sizeBytes int64 // of the file; up to there its space is allocated
	group     uint64
	sequence  uint64 // of the next frame
	crc       uint32 // of the group before

	groups, frames, syncs atomic.Uint64
	syncTime              atomic.Int64 // ns
}

// request asks the writer's goroutine to change files. Frames from sequence on go to the new file; 0 stands for the
// next one.
type request struct {
	sequence uint64
	reply    chan error
}

// run writes groups until the log is closed or a write fails.
func (w *writer) run() {
	defer close(w.log.stopped)
	for {
		var err error
		select {
		case <-w.log.queue.wake:
			err = w.drain()
		case r := <-w.log.requests:
			err = w.serve(r)
		case <-w.log.quit:
			// Everything that will ever be pushed has been: Close stopped the queue before.
			if err = w.drain(); err == nil {
				return
			}
		}
		if err != nil {
			w.log.poison(err)
			return
		}
	}
}

// serve changes files, if that is free of risk: with a spare, or with enough free space for a file that grows.
func (w *writer) serve(r request) error {
	err := w.drain()
	keeper := w.log.spare
	safe := keeper.allocated.hasSpare() || keeper.freeBytes.Load() >= w.log.options.FileBytes
	if err == nil && (r.sequence > 0 || safe) {
		err = w.rotate(max(r.sequence, w.sequence))
	}
	r.reply <- err
	return err
}

// drain writes all groups that are queued. On an error the failed group's ticket is done too.
func (w *writer) drain() error {
	for {
		g := w.log.queue.pop()
		if g == nil {
			return nil
		}
		ticket := g.ticket
		if err := w.write(g); err != nil {
			w.log.poison(err)
			ticket.finish(w.log.unknown())
			return err
		}
		w.log.queue.settle(g)
		ticket.finish(nil)
		// Those who waited append again first, so that the next group is a large one.
		runtime.Gosched()
	}
}

// write makes one group durable.
func (w *writer) write(g *group) error {
	if err := w.makeRoom(groupBytes(g.bodyBytes)); err != nil {
		return err
	}
	header := w.groupHeader()
	header.Kind, header.BodyBytes, header.Frames = kindFrames, uint32(g.bodyBytes), uint32(len(g.frames))
	w.encoder.begin(w.file, w.end, header)
	for _, f := range g.frames {
		w.encoder.frame(f)
	}
	crc, end, err := w.encoder.finish()
	if err == nil {
		err = w.sync()
	}
	if err != nil {
		first, last := g.frames[0].Sequence, g.frames[len(g.frames)-1].Sequence
		return fmt.Errorf("append frames %d to %d to %s: %w", first, last, fileName(w.header.Number), err)
	}
	w.sequence += uint64(len(g.frames))
	w.groups.Add(1)
	w.frames.Add(uint64(len(g.frames)))
	w.advance(crc, end)
	w.log.synced.Store(w.sequence - 1)
	return nil
}

// sync makes the current file durable and keeps the time.
func (w *writer) sync() error {
	start := time.Now()
	err := w.file.Sync()
	w.syncTime.Add(int64(time.Since(start)))
	w.syncs.Add(1)
	return err
}

func (w *writer) groupHeader() groupHeader {
	return groupHeader{File: w.header.Number, Group: w.group, Salt: w.header.Salt, PreviousCRC: w.crc}
}

// advance moves on behind a group that was synced. Room must never see more space than there is, so the file's space
// shrinks before the queue does.
func (w *writer) advance(crc uint32, end int64) {
	w.log.spare.allocated.setCurrent(w.sizeBytes - end - trailerBytes)
	w.log.files.grow(end-w.end, w.sequence-1)
	w.group, w.crc, w.end = w.group+1, crc, end
}

// makeRoom changes files when a group of sizeBytes doesn't fit into the allocated space of the current one and a spare
// has more. Without a spare the file grows up to its usual size, and a single frame that is larger makes it longer.
func (w *writer) makeRoom(sizeBytes int64) error {
	end := w.end + sizeBytes + trailerBytes
	empty := w.end == fileHeaderBytes
	spare := w.log.spare.allocated.hasSpare()
	switch {
	case end <= w.sizeBytes:
		return nil
	case spare && (!empty || sizeBytes <= w.log.spare.spaceBytes()):
		return w.rotate(w.sequence)
	case empty || end <= w.log.options.FileBytes:
		return nil
	}
	return w.rotate(w.sequence)
}

// rotate seals the current file and goes on in a new one. The new file gets its name before the trailer is written,
// and its first group after: so a file without a trailer has at most a successor without groups, and a sealed file
// whose successor is missing proves that something was lost.
func (w *writer) rotate(sequence uint64) error {
	number := w.header.Number + 1
	end, crc := encodeTrailer(w.groupHeader(), trailer{Successor: number, NextSequence: sequence})
	header := fileHeader{
		Number: number, Salt: newSalt(), FirstGroup: w.group + 1, FirstSequence: sequence, PreviousCRC: crc,
		Log: w.header.Log,
	}
	file, sizeBytes, err := w.log.spare.take(header)
	if err != nil {
		return err
	}
	if _, err = w.file.WriteAt(end, w.end); err == nil {
		err = w.sync()
	}
	if err != nil {
		w.closeFile(file, number)
		return fmt.Errorf("seal %s: %w", fileName(w.header.Number), err)
	}
	w.closeFile(w.file, w.header.Number)
	w.log.files.seal(sequence-1, header)
	w.file, w.header, w.sizeBytes = file, header, sizeBytes
	w.group, w.crc, w.end, w.sequence = header.FirstGroup, crc, fileHeaderBytes, sequence
	w.log.spare.ask()
	return nil
}

// closeFile only logs a failure: what matters in the file was synced, or its failure is being reported already.
func (w *writer) closeFile(file vfs.File, number uint64) {
	if err := file.Close(); err != nil {
		w.log.options.Logger.Warn("closing a write-ahead log file failed",
			zap.String("file", fileName(number)), zap.Error(err))
	}
}

func newSalt() uint64 {
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // it never fails: a system without random numbers ends the process
	return binary.LittleEndian.Uint64(salt[:])
}
