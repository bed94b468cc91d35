package vfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	copyBytes = 1 << 20
	lockPause = 5 * time.Millisecond
)

// CopyFile copies the first sizeBytes of a file to a new one, and syncs that. The entry of its directory is durable
// after SyncDir.
func CopyFile(ctx context.Context, fsys FS, name, newName string, sizeBytes int64) error {
	from, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	to, err := fsys.OpenFile(newName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	err = copyContent(ctx, to, from, sizeBytes)
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close(), from.Close()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", name, newName, err)
	}
	return nil
}

func copyContent(ctx context.Context, to, from File, sizeBytes int64) error {
	buf := make([]byte, min(copyBytes, sizeBytes))
	for offset := int64(0); offset < sizeBytes; {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := buf[:min(copyBytes, sizeBytes-offset)]
		if n, err := from.ReadAt(piece, offset); n < len(piece) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if _, err := to.WriteAt(piece, offset); err != nil {
			return err
		}
		offset += int64(len(piece))
	}
	return nil
}

// WaitLock takes a lock as FS.Lock does, and waits for it until ctx ends. The error then is ErrLocked.
func WaitLock(ctx context.Context, fsys FS, name string) (io.Closer, error) {
	for {
		lock, err := fsys.Lock(name)
		if !errors.Is(err, ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lockPause):
		}
	}
}
