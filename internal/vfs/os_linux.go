package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync leaves out the time stamps, which an fsync would write to the journal each time. A changed size is
// written by both.
func datasync(file *os.File) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			syncErr = unix.Fdatasync(int(fd))
			if !errors.Is(syncErr, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, syncErr)
}
