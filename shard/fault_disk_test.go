package shard

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// fate is what becomes of a call of the file system.
type fate int

const (
	works   fate = iota
	eio          // fails without effect. After a sync, pages look written, and are not.
	enospc       // fails without effect, for want of space
	short        // half of a write is done, the rest fails
	late         // fails, though it had its effect
	killed       // the process ends before the call
	swallow      // reports success and does nothing. No program survives that: it is for negative controls.
	dead         // the process has ended before: no effect
)

func (f fate) String() string {
	return [...]string{"works", "EIO", "ENOSPC", "short write", "EIO after the effect", "kill", "swallowed", "dead"}[f]
}

// fatesOf are the ways in which a call can fail.
func fatesOf(op vfs.Op) []fate {
	if changes(op) {
		return append(failuresOf(op), killed)
	}
	return failuresOf(op)
}

func failuresOf(op vfs.Op) []fate {
	switch op.Name {
	case "close": // a descriptor is gone whatever close returns
		return []fate{late}
	case "write", "writeat":
		return []fate{eio, enospc, short, late}
	case "sync", "truncate", "rename", "mkdirall":
		return []fate{eio, enospc, late}
	case "remove", "syncdir", "link":
		return []fate{eio, late}
	case "open":
		if op.Flag&os.O_CREATE != 0 {
			return []fate{eio, enospc, late}
		}
	}
	return []fate{eio}
}

// changes tells whether the call can make a difference to what a crash leaves.
func changes(op vfs.Op) bool { return len(failuresOf(op)) > 1 }

// faultDisk is a file system in memory whose calls fare as decide says.
type faultDisk struct {
	disk   *memory.FS
	decide func(vfs.Op) fate
	syncs  *sync.RWMutex // a sync that is to fail runs alone
}

var _ vfs.FS = faultDisk{}

func newFaultDisk(disk *memory.FS, decide func(vfs.Op) fate) faultDisk {
	return faultDisk{disk, decide, new(sync.RWMutex)}
}

// call runs do, or not, as is decided.
func (f faultDisk) call(op vfs.Op, do func() error) error {
	switch f.decide(op) {
	case works:
		return do()
	case enospc:
		return &fs.PathError{Op: op.Name, Path: op.Path, Err: syscall.ENOSPC}
	case swallow:
		return nil
	case late:
		_ = do()
	}
	return &fs.PathError{Op: op.Name, Path: op.Path, Err: syscall.EIO}
}

func (f faultDisk) OpenFile(name string, flag int, perm fs.FileMode) (file vfs.File, err error) {
	err = f.call(vfs.Op{Name: "open", Path: name, Flag: flag}, func() (err error) {
		file, err = f.disk.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return faultFile{file, name, f}, nil
}

func (f faultDisk) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.call(vfs.Op{Name: "readdir", Path: name}, func() (err error) {
		entries, err = f.disk.ReadDir(name)
		return err
	})
	return entries, err
}

func (f faultDisk) Stat(name string) (info fs.FileInfo, err error) {
	err = f.call(vfs.Op{Name: "stat", Path: name}, func() (err error) {
		info, err = f.disk.Stat(name)
		return err
	})
	return info, err
}

func (f faultDisk) MkdirAll(name string, perm fs.FileMode) error {
	return f.call(vfs.Op{Name: "mkdirall", Path: name}, func() error { return f.disk.MkdirAll(name, perm) })
}

func (f faultDisk) Link(name, newName string) error {
	op := vfs.Op{Name: "link", Path: name, Target: newName}
	return f.call(op, func() error { return f.disk.Link(name, newName) })
}

func (f faultDisk) Rename(oldName, newName string) error {
	op := vfs.Op{Name: "rename", Path: oldName, Target: newName}
	return f.call(op, func() error { return f.disk.Rename(oldName, newName) })
}

func (f faultDisk) Remove(name string) error {
	return f.call(vfs.Op{Name: "remove", Path: name}, func() error { return f.disk.Remove(name) })
}

func (f faultDisk) SyncDir(name string) error {
	return f.call(vfs.Op{Name: "syncdir", Path: name}, func() error { return f.disk.SyncDir(name) })
}

func (f faultDisk) Lock(name string) (lock io.Closer, err error) {
	err = f.call(vfs.Op{Name: "lock", Path: name}, func() (err error) {
		lock, err = f.disk.Lock(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return faultLock{lock, name, f}, nil
}

func (f faultDisk) FreeBytes(name string) (free int64, err error) {
	err = f.call(vfs.Op{Name: "freebytes", Path: name}, func() (err error) {
		free, err = f.disk.FreeBytes(name)
		return err
	})
	return free, err
}

// closed closes whatever is decided, as the end of a process does.
func (f faultDisk) closed(name string, closer io.Closer) error {
	err := closer.Close()
	if fails := f.call(vfs.Op{Name: "close", Path: name}, func() error { return nil }); fails != nil {
		return fails
	}
	return err
}

type faultLock struct {
	lock io.Closer
	name string
	disk faultDisk
}

func (l faultLock) Close() error { return l.disk.closed(l.name, l.lock) }

type faultFile struct {
	file vfs.File
	name string
	disk faultDisk
}

func (f faultFile) Close() error { return f.disk.closed(f.name, f.file) }

func (f faultFile) Read(p []byte) (n int, err error) {
	err = f.disk.call(vfs.Op{Name: "read", Path: f.name, Bytes: int64(len(p))}, func() (err error) {
		n, err = f.file.Read(p)
		return err
	})
	return n, err
}

func (f faultFile) ReadAt(p []byte, offset int64) (n int, err error) {
	op := vfs.Op{Name: "readat", Path: f.name, Offset: offset, Bytes: int64(len(p))}
	err = f.disk.call(op, func() (err error) {
		n, err = f.file.ReadAt(p, offset)
		return err
	})
	return n, err
}

func (f faultFile) Write(p []byte) (int, error) {
	return f.write(vfs.Op{Name: "write", Path: f.name, Bytes: int64(len(p))}, p, f.file.Write)
}

func (f faultFile) WriteAt(p []byte, offset int64) (int, error) {
	op := vfs.Op{Name: "writeat", Path: f.name, Offset: offset, Bytes: int64(len(p))}
	return f.write(op, p, func(p []byte) (int, error) { return f.file.WriteAt(p, offset) })
}

func (f faultFile) write(op vfs.Op, p []byte, write func([]byte) (int, error)) (int, error) {
	switch f.disk.decide(op) {
	case works:
		return write(p)
	case enospc:
		return 0, &fs.PathError{Op: op.Name, Path: op.Path, Err: syscall.ENOSPC}
	case swallow:
		return len(p), nil
	case late:
		_, _ = write(p)
	case short:
		n, _ := write(p[:len(p)/2])
		return n, &fs.PathError{Op: op.Name, Path: op.Path, Err: syscall.ENOSPC}
	}
	return 0, &fs.PathError{Op: op.Name, Path: op.Path, Err: syscall.EIO}
}

func (f faultFile) Truncate(sizeBytes int64) error {
	op := vfs.Op{Name: "truncate", Path: f.name, Bytes: sizeBytes}
	return f.disk.call(op, func() error { return f.file.Truncate(sizeBytes) })
}

func (f faultFile) Size() (sizeBytes int64, err error) {
	err = f.disk.call(vfs.Op{Name: "size", Path: f.name}, func() (err error) {
		sizeBytes, err = f.file.Size()
		return err
	})
	return sizeBytes, err
}

// Sync fails as a disk does that could not write: what was written since the last sync is marked as clean, can be read,
// and is gone after a crash.
func (f faultFile) Sync() error {
	op := vfs.Op{Name: "sync", Path: f.name}
	switch what := f.disk.decide(op); what {
	case works:
		f.disk.syncs.RLock()
		defer f.disk.syncs.RUnlock()
		return f.file.Sync()
	case swallow:
		return nil
	case eio, enospc:
		f.disk.syncs.Lock()
		defer f.disk.syncs.Unlock()
		f.disk.disk.FailNextSync()
		_ = f.file.Sync()
	case late:
		_ = f.file.Sync()
	}
	return &fs.PathError{Op: op.Name, Path: op.Path, Err: syscall.EIO}
}

// tally counts calls by package, part of the data directory and operation.
type tally map[string]int

func (c tally) add(op vfs.Op) { c[kindOf(op)]++ }

func kindOf(op vfs.Op) string { return placeOf(op.Path) + " " + op.Name }

func (c tally) String() string {
	var out strings.Builder
	total := 0
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&out, "\n%-28s %5d", name, c[name])
		total += c[name]
	}
	fmt.Fprintf(&out, "\n%-28s %5d", "together", total)
	return out.String()
}

// placeOf names the package that makes calls on a path, and the part of the data directory.
func placeOf(path string) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), faultDir+"/"), "/")
	switch part {
	case "wal":
		return "wal wal/"
	case "manifest", "l0", "l1", "quarantine":
		return "segment " + part + "/"
	}
	return "shard data/"
}

const faultDir = "data"
