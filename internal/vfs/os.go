package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	file, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) Link(name, newName string) error { return os.Link(name, newName) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (f osFS) MkdirAll(name string, perm fs.FileMode) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("create directory %s: a file of that name exists", name)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(name)
	if parent != name {
		if err := f.MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	// Somebody else may have made it since the look above; the entry still has to become durable.
	if err := os.Mkdir(name, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return f.SyncDir(parent)
}

// osFile narrows an os.File to File and gives Sync the cheapest call of the system that makes data durable.
type osFile struct{ *os.File }

func (f osFile) Sync() error {
	if err := datasync(f.File); err != nil {
		return &fs.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
