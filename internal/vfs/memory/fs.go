package memory

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"time"

	"lineweir/internal/vfs"
)

// FS is a file system in memory. The root directory exists.
type FS struct {
	mu       sync.Mutex
	live     map[string]*node
	durable  map[string]*node
	journal  []change // of entries, not yet in durable
	locks    map[string]bool
	capacity int64
	failSync bool // the next Sync fails
}

var _ vfs.FS = (*FS)(nil)

// change is one change of directory entries. It belongs to the directory of name.
type change struct {
	name    string
	oldName string // of a rename
	node    *node  // nil: name is removed
}

func (c change) apply(entries map[string]*node) {
	if c.oldName != "" {
		delete(entries, c.oldName)
	}
	if c.node == nil {
		delete(entries, c.name)
		return
	}
	entries[c.name] = c.node
}

// New returns an empty file system of unlimited size.
func New() *FS {
	return &FS{live: map[string]*node{}, durable: map[string]*node{}, locks: map[string]bool{}, capacity: math.MaxInt64}
}

// SetCapacity limits the sum of all file sizes. Writes beyond it fail with ENOSPC.
func (f *FS) SetCapacity(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = bytes
}

// FailNextSync makes the next Sync of a file fail with EIO. As on Linux, what it should have made durable counts as
// clean afterwards: a later Sync succeeds and doesn't write it, although reads still see it.
func (f *FS) FailNextSync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failSync = true
}

func (f *FS) usedLocked() int64 {
	used := int64(0)
	for _, n := range f.live {
		used += int64(len(n.data))
	}
	return used
}

func (f *FS) changeLocked(c change) {
	c.apply(f.live)
	f.journal = append(f.journal, c)
}

func pathError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func isRoot(name string) bool { return filepath.Dir(name) == name }

func (f *FS) isDirLocked(name string) bool {
	n := f.live[name]
	return isRoot(name) || (n != nil && n.dir)
}

// OpenFile knows O_RDONLY, O_WRONLY, O_RDWR, O_CREATE, O_EXCL, O_TRUNC and O_APPEND.
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (vfs.File, error) {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.live[name]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case n == nil && !f.isDirLocked(filepath.Dir(name)):
		return nil, pathError("open", name, fs.ErrNotExist)
	case n != nil && n.dir:
		return nil, pathError("open", name, syscall.EISDIR)
	case n != nil && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathError("open", name, fs.ErrExist)
	case n == nil:
		n = newFile(nil)
		f.changeLocked(change{name: name, node: n})
	case flag&os.O_TRUNC != 0:
		n.data = nil
		clear(n.dirty)
	}
	writable, atEnd := flag&(os.O_WRONLY|os.O_RDWR) != 0, flag&os.O_APPEND != 0
	return &file{fs: f, node: n, name: name, writable: writable, atEnd: atEnd}, nil
}

// ReadDir lists a directory, ascending by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isDirLocked(name) {
		return nil, pathError("readdir", name, fs.ErrNotExist)
	}
	var entries []fs.DirEntry
	for path, n := range f.live {
		if filepath.Dir(path) == name && path != name {
			entries = append(entries, fs.FileInfoToDirEntry(newInfo(path, n)))
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name() < entries[j].Name() })
	return entries, nil
}

// Stat describes a file or directory. All times are zero.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.live[name]; n != nil {
		return newInfo(name, n), nil
	}
	if isRoot(name) {
		return newInfo(name, &node{dir: true}), nil
	}
	return nil, pathError("stat", name, fs.ErrNotExist)
}

// MkdirAll creates name and its missing parents, durably.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	name = filepath.Clean(name)
	if isRoot(name) {
		return nil
	}
	if err := f.MkdirAll(filepath.Dir(name), perm); err != nil {
		return err
	}
	f.mu.Lock()
	n := f.live[name]
	if n == nil {
		f.changeLocked(change{name: name, node: &node{dir: true}})
	}
	f.mu.Unlock()
	switch {
	case n == nil:
		return f.SyncDir(filepath.Dir(name))
	case n.dir:
		return nil
	}
	return pathError("mkdir", name, syscall.ENOTDIR)
}

// Rename moves a file, or a directory that is empty.
func (f *FS) Rename(oldName, newName string) error {
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.live[oldName]
	if n == nil || !f.isDirLocked(filepath.Dir(newName)) {
		return pathError("rename", oldName, fs.ErrNotExist)
	}
	if n.dir && f.hasEntriesLocked(oldName) {
		return pathError("rename", oldName, syscall.ENOTEMPTY)
	}
	f.changeLocked(change{name: newName, oldName: oldName, node: n})
	return nil
}

// Link gives a file a second name.
func (f *FS) Link(name, newName string) error {
	name, newName = filepath.Clean(name), filepath.Clean(newName)
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.live[name]
	switch {
	case n == nil || !f.isDirLocked(filepath.Dir(newName)):
		return pathError("link", name, fs.ErrNotExist)
	case n.dir:
		return pathError("link", name, fs.ErrPermission)
	case f.live[newName] != nil:
		return pathError("link", newName, fs.ErrExist)
	}
	f.changeLocked(change{name: newName, node: n})
	return nil
}

// Remove deletes a file or an empty directory.
func (f *FS) Remove(name string) error {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.live[name]
	if n == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if n.dir && f.hasEntriesLocked(name) {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	f.changeLocked(change{name: name})
	return nil
}

func (f *FS) hasEntriesLocked(name string) bool {
	for path := range f.live {
		if filepath.Dir(path) == name {
			return true
		}
	}
	return false
}

// SyncDir makes all changes of a directory's entries durable.
func (f *FS) SyncDir(name string) error {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isDirLocked(name) {
		return pathError("syncdir", name, fs.ErrNotExist)
	}
	kept := f.journal[:0]
	for _, c := range f.journal {
		if filepath.Dir(c.name) == name {
			c.apply(f.durable)
		} else {
			kept = append(kept, c)
		}
	}
	f.journal = kept
	return nil
}

// Lock takes a lock that a crash releases.
func (f *FS) Lock(name string) (io.Closer, error) {
	name = filepath.Clean(name)
	opened, err := f.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.locks[name] {
		return nil, fmt.Errorf("lock %s: %w", name, vfs.ErrLocked)
	}
	f.locks[name] = true
	return &lock{File: opened, fs: f, name: name}, nil
}

type lock struct {
	vfs.File
	fs   *FS
	name string
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	delete(l.fs.locks, l.name)
	l.fs.mu.Unlock()
	return l.File.Close()
}

// FreeBytes is what SetCapacity leaves.
func (f *FS) FreeBytes(name string) (int64, error) {
	name = filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live[name] == nil && !isRoot(name) {
		return 0, pathError("statfs", name, fs.ErrNotExist)
	}
	return max(f.capacity-f.usedLocked(), 0), nil
}

type info struct {
	name      string
	sizeBytes int64
	dir       bool
}

func newInfo(path string, n *node) info {
	return info{name: filepath.Base(path), sizeBytes: int64(len(n.data)), dir: n.dir}
}

func (i info) Name() string     { return i.name }
func (i info) Size() int64      { return i.sizeBytes }
func (info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool      { return i.dir }
func (info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
