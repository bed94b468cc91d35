package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

const (
	// tendInterval is how often the free space of the disk is looked up and a missing spare is tried again.
	tendInterval = time.Second
	// zeroSyncBytes is how much is zero-filled between two syncs. One large sync would delay those of the groups.
	zeroSyncBytes = 8 << 20
	// reserveFiles is how many files' worth of free space the log leaves to others: flushing and compaction, which
	// is how a log gets shorter, need some.
	reserveFiles = 2
)

// spareKeeper keeps one zero-filled file ready, so that changing files needs no time and no free space.
type spareKeeper struct {
	options   Options
	allocated allocation
	freeBytes atomic.Int64  // of the disk, as of the last look
	asked     chan struct{} // capacity 1

	mu      sync.Mutex // held while a spare is made or taken, by the goroutines of the log and by Trim
	ready   bool       // the spare exists
	failing bool       // the last attempt to make a spare failed
}

func newSpareKeeper(o Options) *spareKeeper {
	return &spareKeeper{options: o, asked: make(chan struct{}, 1)}
}

func (k *spareKeeper) path(name string) string { return filepath.Join(k.options.Dir, name) }

// spaceBytes is what a fresh file takes besides header and trailer.
func (k *spareKeeper) spaceBytes() int64 { return k.options.FileBytes - fileHeaderBytes - trailerBytes }

// adopt uses a spare that was found, if it has the right size. Its content was zero-filled and synced before it got
// its name; a header that a crash left there is overwritten when the spare is taken.
func (k *spareKeeper) adopt() error {
	info, err := k.options.FS.Stat(k.path(spareName))
	if err != nil {
		return fmt.Errorf("look at the spare file: %w", err)
	}
	if info.Size() != k.options.FileBytes {
		if err := k.options.FS.Remove(k.path(spareName)); err != nil {
			return fmt.Errorf("remove spare file of another size: %w", err)
		}
		return nil
	}
	k.ready = true
	k.allocated.setSpare(k.spaceBytes())
	return nil
}

// run makes a new spare whenever it is asked to or one is missing, until quit is closed.
func (k *spareKeeper) run(quit <-chan struct{}) {
	ticker := time.NewTicker(tendInterval)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case <-k.asked:
			k.tend(false)
		case <-ticker.C:
			k.tend(true)
		}
	}
}

// ask wakes run. It never blocks.
func (k *spareKeeper) ask() {
	select {
	case k.asked <- struct{}{}:
	default:
	}
}

// tend looks up the free space and makes a spare if there is none. After a failure only a retry tries again, so that a
// flood of refused writes doesn't become a flood of attempts.
func (k *spareKeeper) tend(retry bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ready || (k.failing && !retry) {
		k.lookLocked()
		return
	}
	err := k.makeLocked()
	if err != nil && !k.failing {
		k.options.Logger.Warn("no spare file for the write-ahead log, trying again", zap.Error(err))
	}
	if err == nil && k.failing {
		k.options.Logger.Info("the write-ahead log has a spare file again")
	}
	k.failing = err != nil
}

// lookLocked updates the free space. When the look fails, there is none.
func (k *spareKeeper) lookLocked() {
	free, err := k.options.FS.FreeBytes(k.options.Dir)
	if err != nil {
		free = 0
	}
	k.freeBytes.Store(free)
}

// spendableBytes is what the log may take of the free space.
func (k *spareKeeper) spendableBytes() int64 {
	return k.freeBytes.Load() - reserveFiles*k.options.FileBytes
}

func (k *spareKeeper) makeLocked() error {
	k.lookLocked()
	if k.spendableBytes() < k.options.FileBytes {
		return fmt.Errorf("%w: a spare file of %d bytes would use up its reserve", ErrDiskLow, k.options.FileBytes)
	}
	return k.fillLocked(os.O_CREATE | os.O_TRUNC)
}

// recycle makes a file that is no longer needed the spare, which works on a full disk too. It reports false, and
// leaves the file alone, if there is a spare already.
func (k *spareKeeper) recycle(path string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ready {
		return false, nil
	}
	if err := k.options.FS.Rename(path, k.path(temporary)); err != nil {
		return false, fmt.Errorf("recycle write-ahead log file: %w", err)
	}
	// Before anything in it is overwritten, the file must have lost its old name for good.
	err := k.options.FS.SyncDir(k.options.Dir)
	if err == nil {
		err = k.fillLocked(0)
	}
	if err != nil {
		k.options.Logger.Warn("a write-ahead log file didn't become the spare file", zap.Error(err))
	}
	return true, nil
}

// fillLocked overwrites the temporary file with zeros and makes it the spare.
func (k *spareKeeper) fillLocked(flag int) error {
	file, err := k.options.FS.OpenFile(k.path(temporary), os.O_RDWR|flag, 0o644)
	if err != nil {
		return fmt.Errorf("open spare file: %w", err)
	}
	if err := errors.Join(fillWithZeros(file, k.options.FileBytes), file.Close()); err != nil {
		// A disk that became full needs its space back.
		return errors.Join(fmt.Errorf("fill spare file with zeros: %w", err), k.options.FS.Remove(k.path(temporary)))
	}
	if err := k.options.FS.Rename(k.path(temporary), k.path(spareName)); err != nil {
		return fmt.Errorf("name spare file: %w", err)
	}
	if err := k.options.FS.SyncDir(k.options.Dir); err != nil {
		return fmt.Errorf("name spare file: %w", err)
	}
	k.ready = true
	k.allocated.setSpare(k.spaceBytes())
	return nil
}

func fillWithZeros(file vfs.File, sizeBytes int64) error {
	if err := file.Truncate(sizeBytes); err != nil { // a recycled file can be longer
		return err
	}
	for offset := int64(0); offset < sizeBytes; {
		end := min(offset+zeroSyncBytes, sizeBytes)
		for offset < end {
			piece := zeros[:min(int64(len(zeros)), end-offset)]
			if _, err := file.WriteAt(piece, offset); err != nil {
				return err
			}
			offset += int64(len(piece))
		}
		if err := file.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// take turns the spare into the file of the given header and opens it. Without a spare, and without the space for
// one, the file starts empty and grows. The directory entry is durable when take returns.
func (k *spareKeeper) take(header fileHeader) (file vfs.File, sizeBytes int64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name, flag, sizeBytes := spareName, 0, k.options.FileBytes
	if !k.ready && k.makeLocked() != nil {
		// The keeper reports why; the log goes on as long as Room lets frames in.
		name, flag, sizeBytes = temporary, os.O_CREATE|os.O_TRUNC, fileHeaderBytes
	}
	k.ready = false
	k.allocated.promote(sizeBytes - fileHeaderBytes - trailerBytes)
	if err := k.writeHeader(k.path(name), flag, header); err != nil {
		return nil, 0, fmt.Errorf("write header of %s: %w", fileName(header.Number), err)
	}
	target := k.path(fileName(header.Number))
	if err := k.options.FS.Rename(k.path(name), target); err != nil {
		return nil, 0, fmt.Errorf("name write-ahead log file: %w", err)
	}
	if err := k.options.FS.SyncDir(k.options.Dir); err != nil {
		return nil, 0, fmt.Errorf("name write-ahead log file: %w", err)
	}
	file, err = k.options.FS.OpenFile(target, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("open write-ahead log file: %w", err)
	}
	return file, sizeBytes, nil
}

// writeHeader is done under the old name: a file that has a number always has a header too.
func (k *spareKeeper) writeHeader(path string, flag int, header fileHeader) error {
	file, err := k.options.FS.OpenFile(path, os.O_RDWR|flag, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(header.encode(), 0)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
