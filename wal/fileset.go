package wal

import (
	"sync"
	"sync/atomic"
)

// fileSet knows the files of the log and the bytes in use in them. The writer changes the current file, Trim takes
// sealed ones.
type fileSet struct {
	bytes atomic.Int64 // sum over all files

	mu      sync.Mutex
	sealed  []sealedFile // oldest first
	current openFile
}

// openFile is the file that is being written.
type openFile struct {
	number        uint64
	firstSequence uint64
	lastSequence  uint64 // firstSequence - 1 while it has no frame
	bytes         int64
}

func newFileSet(sealed []sealedFile, current fileState) *fileSet {
	f := &fileSet{sealed: sealed, current: openFile{
		number:        current.number,
		firstSequence: current.header.FirstSequence,
		lastSequence:  current.sequence - 1,
		bytes:         current.end,
	}}
	f.bytes.Store(current.end)
	for _, file := range sealed {
		f.bytes.Add(file.bytes)
	}
	return f
}

// grow counts a group that was written to the current file.
func (f *fileSet) grow(bytes int64, lastSequence uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current.bytes += bytes
	f.current.lastSequence = lastSequence
	f.bytes.Add(bytes)
}

// seal counts the trailer of the current file and goes on with an empty one.
func (f *fileSet) seal(lastSequence uint64, next fileHeader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sealed = append(f.sealed, sealedFile{f.current.number, lastSequence, f.current.bytes + trailerBytes})
	f.current = openFile{
		number:        next.Number,
		firstSequence: next.FirstSequence,
		lastSequence:  next.FirstSequence - 1,
		bytes:         fileHeaderBytes,
	}
	f.bytes.Add(trailerBytes + fileHeaderBytes)
}

// oldest returns the oldest sealed file if no frame of it is above floor.
func (f *fileSet) oldest(floor uint64) (sealedFile, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sealed) == 0 || f.sealed[0].lastSequence > floor {
		return sealedFile{}, false
	}
	return f.sealed[0], true
}

// dropOldest forgets the file that oldest returned.
func (f *fileSet) dropOldest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes.Add(-f.sealed[0].bytes)
	f.sealed = append(f.sealed[:0], f.sealed[1:]...)
}

// snapshot returns copies of what the set holds.
func (f *fileSet) snapshot() ([]sealedFile, openFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sealedFile(nil), f.sealed...), f.current
}
