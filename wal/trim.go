package wal

import (
	"fmt"
	"path/filepath"
)

// Trim removes files that hold no frame above floor, oldest first; if there is no spare file, one of them becomes it.
// The current file is sealed first if it is at least half full and begins at or below floor, so that a log whose frames
// are no longer needed never takes more than half a file. Frames that are not synced, and during Replay frames that
// were not replayed yet, are kept whatever the floor is.
func (l *Log) Trim(floor uint64) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if err := l.ended(); err != nil {
		return err
	}
	floor = min(floor, l.synced.Load(), l.replay.limit())
	if err := l.sealWorn(floor); err != nil {
		return fmt.Errorf("trim the write-ahead log: %w", err)
	}
	removed := false
	for {
		file, ok := l.files.oldest(floor)
		if !ok {
			break
		}
		if err := l.discard(file.number); err != nil {
			return fmt.Errorf("trim the write-ahead log: %w", err)
		}
		l.files.dropOldest()
		removed = true
	}
	if !removed {
		return nil
	}
	return l.options.FS.SyncDir(l.options.Dir)
}

// sealWorn seals the current file when a good part of it is no longer needed.
func (l *Log) sealWorn(floor uint64) error {
	_, current := l.files.snapshot()
	unused := current.lastSequence < current.firstSequence || current.firstSequence > floor
	if unused || current.bytes < l.options.FileBytes/2 {
		return nil
	}
	return l.rotate(0)
}

func (l *Log) discard(number uint64) error {
	path := filepath.Join(l.options.Dir, fileName(number))
	if recycled, err := l.spare.recycle(path); recycled || err != nil {
		return err
	}
	return l.options.FS.Remove(path)
}
