package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// SyncDir does nothing: NTFS logs changes of directories itself and has no call that waits for it.
func (osFS) SyncDir(string) error { return nil }

func (osFS) Lock(name string) (io.Closer, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if err == nil {
		return file, nil
	}
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), file.Close())
}

func (osFS) FreeBytes(name string) (int64, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, &fs.PathError{Op: "free space", Path: name, Err: err}
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, &fs.PathError{Op: "free space", Path: name, Err: err}
	}
	return int64(min(free, math.MaxInt64)), nil
}
