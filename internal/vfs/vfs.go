package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrLocked says that another process (or another holder in this one) has the lock.
var ErrLocked = errors.New("the lock is held by another process")

// FS is a file system. Names are paths of the operating system.
type FS interface {
	// OpenFile opens name with the flags of os.OpenFile.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// ReadDir lists a directory, ascending by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// MkdirAll creates name and its missing parents, and syncs each directory in which it created an entry.
	MkdirAll(name string, perm fs.FileMode) error
	// Rename replaces newName. It is durable after SyncDir of both directories.
	Rename(oldName, newName string) error
	// Link gives a file a second name, which must not exist. It is durable after SyncDir. Not every file system can do
	// it, and none across its boundary.
	Link(name, newName string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// SyncDir makes the entries of a directory durable. It does nothing where the system offers no such call.
	SyncDir(name string) error
	// Lock takes an exclusive lock on the file name, creating it if need be, or fails at once with ErrLocked.
	// Closing the result lets go of the lock and leaves the file. The end of the process lets go of it too.
	Lock(name string) (io.Closer, error)
	// FreeBytes is what an unprivileged user can still write to the file system that holds name, and
	// math.MaxInt64 where that is unknown.
	FreeBytes(name string) (int64, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	// Sync returns after data and size are on stable storage. After an error nothing is known about what was
	// written since the last Sync, and a second Sync may succeed without writing it.
	Sync() error
	Truncate(sizeBytes int64) error
	// Size is the length of the file in bytes.
	Size() (int64, error)
}

// ReadFile reads the whole of a file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	file, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	data, err := readAll(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

func readAll(file File) ([]byte, error) {
	sizeBytes, err := file.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, sizeBytes)
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, err
	}
	return data, nil
}
