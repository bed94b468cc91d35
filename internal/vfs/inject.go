package vfs

import (
	"io"
	"io/fs"
)

// Op is one call to a file system. Name is one of open, readdir, stat, mkdirall, rename, link, remove, syncdir, lock
// and freebytes for an FS; read, readat, write, writeat, sync, truncate, size and close for a File.
type Op struct {
	Name   string
	Path   string
	Target string // new name of a rename or link
	Flag   int    // flags of an open
	Offset int64  // of a readat or writeat
	Bytes  int64  // length of a read or write, new size of a truncate
}

// Inject wraps fsys: hook runs before every call, on the goroutine that makes it; if hook returns an error, the
// call is not made and the error is its result. A failed close leaves the file open.
func Inject(fsys FS, hook func(Op) error) FS { return injectedFS{fsys, hook} }

type injectedFS struct {
	next FS
	hook func(Op) error
}

func (i injectedFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if err := i.hook(Op{Name: "open", Path: name, Flag: flag}); err != nil {
		return nil, err
	}
	file, err := i.next.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return injectedFile{file, name, i.hook}, nil
}

func (i injectedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := i.hook(Op{Name: "readdir", Path: name}); err != nil {
		return nil, err
	}
	return i.next.ReadDir(name)
}

func (i injectedFS) Stat(name string) (fs.FileInfo, error) {
	if err := i.hook(Op{Name: "stat", Path: name}); err != nil {
		return nil, err
	}
	return i.next.Stat(name)
}

func (i injectedFS) MkdirAll(name string, perm fs.FileMode) error {
	if err := i.hook(Op{Name: "mkdirall", Path: name}); err != nil {
		return err
	}
	return i.next.MkdirAll(name, perm)
}

func (i injectedFS) Rename(oldName, newName string) error {
	if err := i.hook(Op{Name: "rename", Path: oldName, Target: newName}); err != nil {
		return err
	}
	return i.next.Rename(oldName, newName)
}

func (i injectedFS) Link(name, newName string) error {
	if err := i.hook(Op{Name: "link", Path: name, Target: newName}); err != nil {
		return err
	}
	return i.next.Link(name, newName)
}

func (i injectedFS) Remove(name string) error {
	if err := i.hook(Op{Name: "remove", Path: name}); err != nil {
		return err
	}
	return i.next.Remove(name)
}

func (i injectedFS) SyncDir(name string) error {
	if err := i.hook(Op{Name: "syncdir", Path: name}); err != nil {
		return err
	}
	return i.next.SyncDir(name)
}

func (i injectedFS) Lock(name string) (io.Closer, error) {
	if err := i.hook(Op{Name: "lock", Path: name}); err != nil {
		return nil, err
	}
	return i.next.Lock(name)
}

func (i injectedFS) FreeBytes(name string) (int64, error) {
	if err := i.hook(Op{Name: "freebytes", Path: name}); err != nil {
		return 0, err
	}
	return i.next.FreeBytes(name)
}

type injectedFile struct {
	next File
	path string
	hook func(Op) error
}

func (i injectedFile) Read(p []byte) (int, error) {
	if err := i.hook(Op{Name: "read", Path: i.path, Bytes: int64(len(p))}); err != nil {
		return 0, err
	}
	return i.next.Read(p)
}

func (i injectedFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := i.hook(Op{Name: "readat", Path: i.path, Offset: offset, Bytes: int64(len(p))}); err != nil {
		return 0, err
	}
	return i.next.ReadAt(p, offset)
}

func (i injectedFile) Write(p []byte) (int, error) {
	if err := i.hook(Op{Name: "write", Path: i.path, Bytes: int64(len(p))}); err != nil {
		return 0, err
	}
	return i.next.Write(p)
}

func (i injectedFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := i.hook(Op{Name: "writeat", Path: i.path, Offset: offset, Bytes: int64(len(p))}); err != nil {
		return 0, err
	}
	return i.next.WriteAt(p, offset)
}

func (i injectedFile) Sync() error {
	if err := i.hook(Op{Name: "sync", Path: i.path}); err != nil {
		return err
	}
	return i.next.Sync()
}

func (i injectedFile) Truncate(sizeBytes int64) error {
	if err := i.hook(Op{Name: "truncate", Path: i.path, Bytes: sizeBytes}); err != nil {
		return err
	}
	return i.next.Truncate(sizeBytes)
}

func (i injectedFile) Size() (int64, error) {
	if err := i.hook(Op{Name: "size", Path: i.path}); err != nil {
		return 0, err
	}
	return i.next.Size()
}

func (i injectedFile) Close() error {
	if err := i.hook(Op{Name: "close", Path: i.path}); err != nil {
		return err
	}
	return i.next.Close()
}
