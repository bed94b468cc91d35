//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func (osFS) SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		// A file that can only be read can be locked all the same.
		if readable, readErr := os.Open(name); readErr == nil {
			file, err = readable, nil
		}
	}
	if err != nil {
		return nil, err
	}
	// The descriptor belongs to nobody else yet, so Fd is safe here.
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), file.Close())
}

func (osFS) FreeBytes(name string) (int64, error) {
	var stat unix.Statfs_t
	for {
		err := unix.Statfs(name, &stat)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
		}
	}
	blockBytes := uint64(stat.Bsize)
	if blockBytes == 0 || stat.Bavail > math.MaxInt64/blockBytes {
		return math.MaxInt64, nil
	}
	return int64(stat.Bavail * blockBytes), nil
}
