package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lineweir/internal/vfs"
	"lineweir/segment"
	"lineweir/wal"
)

// incompleteName is a file of a copy that is being made. No server starts from a directory that has it.
const incompleteName = "INCOMPLETE"

const incompleteText = "This is a backup that is being made, or that failed. It is not whole: remove the directory.\n"

// ErrIncomplete refuses a directory with a backup that was not finished.
var ErrIncomplete = errors.New("the directory holds a backup that was not finished, and not all of its data: remove it")

// removalWait bounds how long a backup waits for a server to finish deleting some files.
const removalWait = time.Minute

// BackupOptions say what is copied and where to.
type BackupOptions struct {
	FS      vfs.FS
	DataDir string // of a server that runs or not
	Dest    string // a directory that is empty or doesn't exist
	// Also, if set, copies what else belongs to a data directory. It is called before the copy counts as whole.
	Also func(dest string) error
}

// Backup makes a copy of a data directory from which a server can start, and writes what it did. Every point and every
// change that was acknowledged when it began is in the copy; of what came later, all up to some moment and nothing
// behind it. It is durable when Backup returns. After an error the destination is missing or empty as before, or has a
// file INCOMPLETE in it, with which no server takes it for data; only if the last step fails it may be whole.
//
// The directory is read from outside, whether a server uses it or not:
//
//  1. The two locks of removalLock are taken. From here on nothing that the copy may need is deleted or reused.
//  2. The manifest is read. It is one state that the server had.
//  3. The log is copied up to its last whole group: what the manifest does not have in segments is there, because the
//     log is read later. The lock of the log is let go of: for no longer than that a log near its limit waits.
//  4. The segments that the manifest names are linked, or copied. The lock of the segments is let go of.
//  5. The manifest is written as a checkpoint, the directories are synced, and INCOMPLETE goes last.
func Backup(ctx context.Context, o BackupOptions, w io.Writer) error {
	if err := o.checkSource(); err != nil {
		return fmt.Errorf("back up %s: %w", o.DataDir, err)
	}
	if err := o.makeDest(); err != nil {
		return fmt.Errorf("make the destination %s: %w", o.Dest, err)
	}
	if err := o.copy(ctx, w); err != nil {
		return fmt.Errorf("back up %s: %w\n%s is incomplete, and no server starts from it: remove it",
			o.DataDir, err, o.Dest)
	}
	if err := o.unmark(); err != nil {
		return fmt.Errorf("back up %s: %w\nwhether %s counts as whole is unknown: remove it", o.DataDir, err, o.Dest)
	}
	return nil
}

// checkSource refuses what is no data directory before anything is made in it.
func (o *BackupOptions) checkSource() error {
	if err := refuseIncomplete(o.FS, o.DataDir); err != nil {
		return err
	}
	if pending, err := exists(o.FS, filepath.Join(o.DataDir, repairMark)); err != nil || pending {
		return errors.Join(err, ErrRepairPending)
	}
	_, err := segment.ReadSnapshot(o.FS, o.DataDir)
	return err
}

// makeDest makes the destination, with the file that marks it as incomplete.
func (o *BackupOptions) makeDest() error {
	inside, err := o.destIsInside()
	if err != nil {
		return err
	}
	if inside {
		return errors.New("it lies in the data directory")
	}
	entries, err := o.FS.ReadDir(o.Dest)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("it is not empty: it holds %s", entries[0].Name())
	}
	if err := o.FS.MkdirAll(o.Dest, 0o755); err != nil {
		return err
	}
	marker, err := o.FS.OpenFile(filepath.Join(o.Dest, incompleteName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = marker.Write([]byte(incompleteText))
	return errors.Join(err, marker.Sync(), marker.Close(), o.FS.SyncDir(o.Dest))
}

func (o *BackupOptions) destIsInside() (bool, error) {
	from, err := filepath.Abs(o.DataDir)
	if err != nil {
		return false, err
	}
	to, err := filepath.Abs(o.Dest)
	if err != nil {
		return false, err
	}
	relative, err := filepath.Rel(from, to)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator)), nil
}

func (o *BackupOptions) copy(ctx context.Context, w io.Writer) error {
	logLock, err := o.keep(ctx, keepLogName)
	if err != nil {
		return err
	}
	segmentLock, err := o.keep(ctx, keepSegmentsName)
	if err != nil {
		return errors.Join(err, logLock.Close())
	}
	snapshot, err := segment.ReadSnapshot(o.FS, o.DataDir)
	if err == nil {
		err = o.copyLog(ctx, snapshot, w)
	}
	if err = errors.Join(err, logLock.Close()); err == nil {
		err = o.copySegments(ctx, snapshot, w)
	}
	if err = errors.Join(err, segmentLock.Close()); err != nil {
		return err
	}
	return o.complete(snapshot)
}

// keep takes a lock with which a server deletes nothing.
func (o *BackupOptions) keep(ctx context.Context, name string) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, removalWait)
	defer cancel()
	lock, err := vfs.WaitLock(ctx, o.FS, filepath.Join(o.DataDir, name))
	if errors.Is(err, vfs.ErrLocked) {
		err = fmt.Errorf("another backup of the directory is being made, or its server is busy deleting files: %w", err)
	}
	return lock, err
}

func (o *BackupOptions) copyLog(ctx context.Context, snapshot *segment.Snapshot, w io.Writer) error {
	from, to := filepath.Join(o.DataDir, "wal"), filepath.Join(o.Dest, "wal")
	copied, err := wal.Copy(ctx, o.FS, from, to, knownOfLog(snapshot.Recorded()))
	if err != nil {
		return fmt.Errorf("copy the write-ahead log: %w", err)
	}
	_, err = fmt.Fprintf(w, "log: %d files copied, %d bytes, up to sequence %d\n",
		copied.Files, copied.Bytes, copied.LastSequence)
	return err
}

func (o *BackupOptions) copySegments(ctx context.Context, snapshot *segment.Snapshot, w io.Writer) error {
	copied, err := snapshot.CopyFiles(ctx, o.Dest)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "segments: %d linked, %d bytes; %d copied, %d bytes\n",
		copied.Linked, copied.LinkedBytes, copied.Copied, copied.CopiedBytes)
	return err
}

// complete makes a copy of the manifest, and with it a data directory of the destination.
func (o *BackupOptions) complete(snapshot *segment.Snapshot) error {
	if o.Also != nil {
		if err := o.Also(o.Dest); err != nil {
			return err
		}
	}
	if err := snapshot.WriteManifest(o.Dest); err != nil {
		return err
	}
	return o.FS.SyncDir(o.Dest)
}

// unmark lets the destination count as whole.
func (o *BackupOptions) unmark() error {
	if err := o.FS.Remove(filepath.Join(o.Dest, incompleteName)); err != nil {
		return err
	}
	return o.FS.SyncDir(o.Dest)
}

// refuseIncomplete tells a backup that was not finished from a data directory.
func refuseIncomplete(fs vfs.FS, dir string) error {
	found, err := exists(fs, filepath.Join(dir, incompleteName))
	if found {
		return fmt.Errorf("%s: %w", dir, ErrIncomplete)
	}
	return err
}
