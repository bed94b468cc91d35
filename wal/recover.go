package wal

import (
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

// sealedFile is a file that is only read and removed.
type sealedFile struct {
	number       uint64
	lastSequence uint64 // no frame of it is later
	bytes        int64  // in use
}

// recovered is a log as it was found, after its torn tail was cut off.
type recovered struct {
	sealed  []sealedFile // ascending; the first ones may be files that are not needed and were not read
	current fileState
	spare   bool // a spare file was found
}

// recoverLog reads the log and cuts off its torn tail, in the steps of FORMAT.md. Without any file it returns none.
func recoverLog(o Options) (recovered, error) {
	found, err := listDir(o.FS, o.Dir)
	if err != nil {
		return recovered{}, err
	}
	for _, path := range found.unknown {
		o.Logger.Warn("unknown file in the write-ahead log's directory is left alone", zap.String("path", path))
	}
	if found.repaired {
		return recovered{}, interruptedRepair(o.Dir)
	}
	if found.temporary {
		if err := o.FS.Remove(filepath.Join(o.Dir, temporary)); err != nil {
			return recovered{}, fmt.Errorf("remove unfinished spare file: %w", err)
		}
	}
	if len(found.numbers) == 0 {
		return recovered{spare: found.spare}, missingLog(o)
	}
	r, err := recoverFiles(o, found.numbers)
	r.spare = found.spare
	return r, err
}

func interruptedRepair(dir string) *CorruptionError {
	return corruption(filepath.Join(dir, repaired), 0, "a repair was not completed")
}

func missingLog(o Options) error {
	written := max(o.Floor, o.Written)
	if written == 0 {
		return nil
	}
	return noFile(o.Dir, written)
}

func noFile(dir string, written uint64) *CorruptionError {
	return corruption(filepath.Join(dir, fileName(1)), 0,
		"there is no file at all, though frames up to %d were written", written)
}

// firstMissing is the damage of a log whose oldest file begins behind the first frame that is needed.
func firstMissing(dir string, oldest uint64, header fileHeader, floor uint64) *CorruptionError {
	return corruption(filepath.Join(dir, fileName(oldest-1)), 0,
		"the file is missing: frame %d is needed, the log starts with frame %d", floor+1, header.FirstSequence)
}

func recoverFiles(o Options, numbers []uint64) (recovered, error) {
	needed, err := neededFiles(o, numbers)
	if err != nil {
		return recovered{}, err
	}
	states, err := scanFiles(o.FS, o.Dir, needed, nil)
	if err != nil {
		return recovered{}, err
	}
	v, damage := judge(states)
	if len(damage) == 0 {
		damage = o.Known.contradictions(states[v.current])
	}
	if len(damage) > 0 {
		return recovered{}, damage[0]
	}
	if err := settle(o, states, v); err != nil {
		return recovered{}, err
	}
	r := recovered{current: states[v.current]}
	if v.torn != nil {
		r.current.sizeBytes = r.current.end + trailerBytes
	}
	for _, number := range numbers[:len(numbers)-len(needed)] {
		info, err := o.FS.Stat(filepath.Join(o.Dir, fileName(number)))
		if err != nil {
			return recovered{}, fmt.Errorf("look at a file that is not needed: %w", err)
		}
		r.sealed = append(r.sealed, sealedFile{number, states[0].header.FirstSequence - 1, info.Size()})
	}
	for _, st := range states[:v.current] {
		r.sealed = append(r.sealed, sealedFile{st.number, st.sealed.NextSequence - 1, st.end})
	}
	return r, nil
}

// contradictions compares a log without damage, given by its last file, with what is known of it.
func (k Known) contradictions(current fileState) (damage []*CorruptionError) {
	if id := current.header.Log; k.ID != 0 && id != k.ID {
		damage = append(damage, corruption(current.path, 0, "the file is of log %016x, and log %016x belongs here",
			id, k.ID))
	}
	if last := current.sequence - 1; last < k.Written {
		why := "nothing lies behind it"
		if current.bad != nil {
			why = current.bad.reason
		}
		damage = append(damage, corruption(current.path, current.end,
			"the log ends with frame %d, though frames up to %d were durable: %s", last, k.Written, why))
	}
	return damage
}

// neededFiles drops the files that end at or below the floor: those before the newest file that starts at or below
// floor + 1.
func neededFiles(o Options, numbers []uint64) ([]uint64, error) {
	for i := len(numbers) - 1; i >= 0; i-- {
		header, err := readHeader(o.FS, filepath.Join(o.Dir, fileName(numbers[i])))
		if err != nil {
			return nil, err
		}
		if header.FirstSequence <= o.Floor+1 {
			return numbers[i:], nil
		}
		if i == 0 {
			return nil, firstMissing(o.Dir, numbers[0], header, o.Floor)
		}
	}
	return nil, nil
}

func readHeader(fsys vfs.FS, path string) (header fileHeader, err error) {
	file, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return fileHeader{}, fmt.Errorf("open write-ahead log file: %w", err)
	}
	defer closeInto(&err, file)
	sizeBytes, err := file.Size()
	if err != nil {
		return fileHeader{}, fmt.Errorf("size of %s: %w", path, err)
	}
	s, err := newScanner(file, min(sizeBytes, fileHeaderBytes), path, nil)
	if err != nil {
		return fileHeader{}, err
	}
	return s.header, nil
}

// settle makes the end of the log as durable and as clean as if no crash had been.
func settle(o Options, states []fileState, v verdict) error {
	current := states[v.current]
	if v.emptySuccessor {
		successor := states[v.current+1].path
		o.Logger.Warn("an interrupted change of files is undone", zap.String("path", successor))
		if err := o.FS.Remove(successor); err != nil {
			return fmt.Errorf("remove empty file: %w", err)
		}
	}
	// Entries may have been made by a process that died before it synced the directory.
	if err := o.FS.SyncDir(o.Dir); err != nil {
		return fmt.Errorf("sync directory of the write-ahead log: %w", err)
	}
	if v.torn != nil {
		o.Logger.Warn("an unfinished group at the end of the write-ahead log is dropped",
			zap.String("path", current.path), zap.Int64("offset", current.end), zap.String("reason", v.torn.reason))
	}
	if current.groups == 0 && v.current > 0 {
		if err := resync(o.FS, states[v.current-1], false); err != nil {
			return err
		}
	}
	return resync(o.FS, current, v.torn != nil)
}

// resync writes the last group of a file once more and syncs it. The process before may have died between write and
// sync, or of a failed sync, which leaves pages in the cache that look written and are not; a sync alone would skip
// them. All earlier groups were synced before this one was written. With truncate, what lies behind the group goes,
// except for the space of a trailer, so that the file can be sealed on a full disk.
func resync(fsys vfs.FS, st fileState, truncate bool) (err error) {
	file, err := fsys.OpenFile(st.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open write-ahead log file: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("settle the end of %s: %w", st.path, err)
		}
	}()
	defer closeInto(&err, file)
	if truncate {
		if _, err := file.WriteAt(zeros[:trailerBytes], st.end); err != nil {
			return err
		}
		if err := file.Truncate(st.end + trailerBytes); err != nil {
			return err
		}
	}
	if st.groups > 0 {
		group := make([]byte, st.end-st.lastOffset)
		if _, err := file.ReadAt(group, st.lastOffset); err != nil {
			return err
		}
		if _, err := file.WriteAt(group, st.lastOffset); err != nil {
			return err
		}
	}
	return file.Sync()
}
