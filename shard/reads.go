package shard

import (
	"math/rand/v2"
	"sync"
	"time"

	"lineweir/segment"
)

// reads bounds the memory of all reads that run: scans, and what statements list. A read never waits: one that finds no
// room is refused, so that none holds a part of the room while it waits for the rest. Writes take nothing of this.
//
// A read counts what it takes itself, and once for all reads the tables of memtables that it has a snapshot of: the
// snapshot keeps them in memory when they have been flushed long ago.
type reads struct {
	limitBytes int64 // 0: no limit

	mu        sync.Mutex
	usedBytes int64
	refused   int64
	lasted    time.Duration // fading mean of the time that reads took
}

// pin counts the reads that hold snapshots of a table. The lock of reads guards it.
type pin struct {
	reads     int
	sizeBytes int64 // of the largest snapshot
}

// ReadsStatus describes the memory of reads.
type ReadsStatus struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"` // 0: no limit
	Refused  int64 `json:"refused"`
}

func (r *reads) status() ReadsStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ReadsStatus{Bytes: r.usedBytes, MaxBytes: r.limitBytes, Refused: r.refused}
}

// Read is the share of one read. It belongs to one goroutine. Release gives everything back.
type Read struct {
	reads     *reads
	started   time.Time
	counted   bool // it has taken something
	released  bool
	heldBytes int64
	tables    []pinnedTable
}

// pinnedTable is a table as one read counts it.
type pinnedTable struct {
	pin       *pin
	sizeBytes int64
}

// BeginRead starts to count a read.
func (e *Engine) BeginRead() *Read { return &Read{reads: &e.reads, started: time.Now()} }

// Grow counts more memory, or is refused with a *ReadLimitError and counts nothing.
func (r *Read) Grow(sizeBytes int64) error {
	r.reads.mu.Lock()
	defer r.reads.mu.Unlock()
	if err := r.takeLocked(sizeBytes, sizeBytes); err != nil {
		return err
	}
	r.heldBytes += sizeBytes
	return nil
}

// Shrink gives a part back.
func (r *Read) Shrink(sizeBytes int64) {
	r.reads.mu.Lock()
	defer r.reads.mu.Unlock()
	r.reads.usedBytes -= sizeBytes
	r.heldBytes -= sizeBytes
}

// pin counts the table of a snapshot until letGo or the end of the read.
func (r *Read) pin(s *tableSnapshot) error {
	r.reads.mu.Lock()
	defer r.reads.mu.Unlock()
	grown := max(0, s.memoryBytes-s.pin.sizeBytes)
	if err := r.takeLocked(grown, s.memoryBytes); err != nil {
		return err
	}
	s.pin.reads++
	s.pin.sizeBytes += grown
	r.tables = append(r.tables, pinnedTable{s.pin, s.memoryBytes})
	return nil
}

// letGo lets go of all but the first tables that the read has pinned.
func (r *Read) letGo(keep int) {
	r.reads.mu.Lock()
	defer r.reads.mu.Unlock()
	r.letGoLocked(keep)
}

func (r *Read) letGoLocked(keep int) {
	for _, t := range r.tables[keep:] {
		if t.pin.reads--; t.pin.reads == 0 {
			r.reads.usedBytes -= t.pin.sizeBytes
			t.pin.sizeBytes = 0
		}
	}
	r.tables = r.tables[:keep]
}

// takeLocked takes room for grown bytes, which are more, neededBytes, for a read that is alone.
func (r *Read) takeLocked(grown, neededBytes int64) error {
	all := r.reads
	if all.limitBytes == 0 || all.usedBytes+grown <= all.limitBytes {
		all.usedBytes += grown
		r.counted = true
		return nil
	}
	all.refused++
	refusal := &ReadLimitError{
		NeedBytes: r.heldBytes + neededBytes, UsedBytes: all.usedBytes, LimitBytes: all.limitBytes,
	}
	for _, t := range r.tables {
		refusal.NeedBytes += t.sizeBytes
	}
	if refusal.NeedBytes <= all.limitBytes {
		refusal.RetryAfter = all.retryAfterLocked()
	}
	return refusal
}

// Bounds of what a refused read is told.
const (
	readRetryMin = time.Second
	readRetryMax = time.Minute
	// readRetryUnknown is for a tier that does not drain, or not yet.
	readRetryUnknown = 10 * time.Second
	// readMemory is how much of the mean time of reads one more read leaves.
	readMemory = 0.9
)

// retryAfterLocked is when to come back: when a read of usual length has ended.
func (r *reads) retryAfterLocked() time.Duration { return spread(r.lasted) }

// mergeTime is when to come back to a tier that has to be merged first.
func mergeTime(sizeBytes int64, bytesPerSecond float64) time.Duration {
	if bytesPerSecond == 0 {
		return spread(readRetryUnknown)
	}
	return spread(time.Duration(min(float64(sizeBytes)/bytesPerSecond, readRetryMax.Seconds()) * float64(time.Second)))
}

// spread keeps clients that are told the same from coming back together: by a quarter either way, within the bounds.
func spread(wait time.Duration) time.Duration {
	wait = time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
	return min(max(wait, readRetryMin), readRetryMax)
}

// Release ends the read. Calling it again does nothing.
func (r *Read) Release() {
	r.reads.mu.Lock()
	defer r.reads.mu.Unlock()
	if r.released {
		return
	}
	r.released = true
	all := r.reads
	all.usedBytes -= r.heldBytes
	r.letGoLocked(0)
	if r.counted {
		lasted := float64(time.Since(r.started))
		all.lasted = time.Duration(readMemory*float64(all.lasted) + (1-readMemory)*lasted)
	}
}

// Memory that reads take.
const (
	readBaseBytes   = 128 << 10 // of any: its request, its goroutine, the buffer of its answer
	readRowBytes    = 4         // of a row of a memtable: its place in the order
	readSeriesBytes = 32        // of a series of a memtable: its rank, and what finds it
	readValueBytes  = 9         // of a value in a Block
)

// blockBytes is what a Block of numbers takes.
func blockBytes(fields int) int64 {
	return int64(segment.BlockRows(fields)) * int64(fields) * readValueBytes
}

// sourceBytes is what a source over a snapshot takes beside the table, at most.
func (s *tableSnapshot) sourceBytes(fields int) int64 {
	perRow := int64(readRowBytes)
	for i := range s.fields {
		if s.fields[i].keepsPlaces(s.times.length) {
			perRow += readRowBytes
		}
	}
	return int64(s.times.length)*perRow + int64(s.keys.length)*readSeriesBytes + blockBytes(min(fields, len(s.fields)))
}
