package wal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"lineweir/internal/vfs"
)

// Copied says what Copy has written.
type Copied struct {
	Files        int
	Bytes        int64
	LastSequence uint64 // of the last frame; 0 if there never was one
}

// Copy copies the files of a log that are needed to the directory dest, up to the last group that is whole, and makes
// them durable. The log may be written to meanwhile, and even be opened, but no file may be trimmed. Every frame that
// was acknowledged when Copy began is in the copy. Damage is a *CorruptionError, and nothing is copied.
func Copy(ctx context.Context, fsys vfs.FS, dir, dest string, known Known) (Copied, error) {
	states, err := scanMoving(ctx, fsys, dir, known)
	if err != nil {
		return Copied{}, err
	}
	if err := fsys.MkdirAll(dest, 0o755); err != nil {
		return Copied{}, fmt.Errorf("create directory of the write-ahead log: %w", err)
	}
	var copied Copied
	for _, st := range states {
		if err := copyFile(ctx, fsys, st, filepath.Join(dest, fileName(st.number))); err != nil {
			return copied, err
		}
		copied.Files++
		copied.Bytes += st.end
		copied.LastSequence = st.sequence - 1
	}
	return copied, fsys.SyncDir(dest)
}

// copyFile copies the whole groups of a file. As after a torn tail, one that is not sealed gets the space of a trailer.
func copyFile(ctx context.Context, fsys vfs.FS, st fileState, name string) error {
	if err := vfs.CopyFile(ctx, fsys, st.path, name, st.end); err != nil || st.sealed != nil {
		return err
	}
	file, err := fsys.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(zeros[:trailerBytes], st.end)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// scanMoving scans the needed files of a log that may be appended to. A group that was written between two reads, or a
// change of files, can look like damage or like a missing file. By the next look what was incomplete is whole, because
// something later was seen; so what is found twice is there.
func scanMoving(ctx context.Context, fsys vfs.FS, dir string, known Known) ([]fileState, error) {
	before := ""
	for {
		states, err := scanNeeded(fsys, dir, known)
		if err == nil || err.Error() == before {
			return states, err
		}
		before = err.Error()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// scanNeeded returns the files that a copy consists of: the last one is not sealed, though it may be on disk.
func scanNeeded(fsys vfs.FS, dir string, known Known) ([]fileState, error) {
	found, err := listDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	o := Options{FS: fsys, Dir: dir, Known: known}
	if len(found.numbers) == 0 {
		return nil, missingLog(o)
	}
	needed, err := neededFiles(o, found.numbers)
	if err != nil {
		return nil, err
	}
	states, err := scanFiles(fsys, dir, needed, nil)
	if err != nil {
		return nil, err
	}
	states[len(states)-1].unseal()
	v, damage := judge(states)
	if len(damage) == 0 {
		damage = known.contradictions(states[v.current])
	}
	if len(damage) > 0 {
		return nil, damage[0]
	}
	return states[:v.current+1], nil
}

// unseal takes the trailer off: its successor was made after the files were listed, and is not part of the copy.
func (st *fileState) unseal() {
	if st.sealed != nil {
		st.sealed, st.end = nil, st.lastOffset
		st.groups, st.group = st.groups-1, st.group-1
	}
}
