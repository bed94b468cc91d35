package memory

import (
	"io"
	"io/fs"
	"syscall"
)

// file is an open file. A file that was removed can still be used.
type file struct {
	fs       *FS
	node     *node
	name     string
	writable bool
	atEnd    bool
	closed   bool
	offset   int64
}

// checkLocked refuses the calls that the operating system would.
func (f *file) checkLocked(op string, writes bool) error {
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	if writes && !f.writable {
		return pathError(op, f.name, fs.ErrPermission)
	}
	return nil
}

func (f *file) Read(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := f.readAtLocked(p, f.offset)
	f.offset += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.readAtLocked(p, offset)
}

func (f *file) readAtLocked(p []byte, offset int64) (int, error) {
	if err := f.checkLocked("read", false); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if offset >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.atEnd {
		f.offset = int64(len(f.node.data))
	}
	n, err := f.writeAtLocked(p, f.offset)
	f.offset += int64(n)
	return n, err
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.writeAtLocked(p, offset)
}

func (f *file) writeAtLocked(p []byte, offset int64) (int, error) {
	if err := f.checkLocked("write", true); err != nil {
		return 0, err
	}
	if err := f.resizeLocked("write", max(offset+int64(len(p)), int64(len(f.node.data)))); err != nil {
		return 0, err
	}
	f.node.touch(offset, int64(len(p)))
	return copy(f.node.data[offset:], p), nil
}

func (f *file) resizeLocked(op string, sizeBytes int64) error {
	more := sizeBytes - int64(len(f.node.data))
	if more <= 0 {
		f.node.data = f.node.data[:sizeBytes]
		return nil
	}
	if more > f.fs.capacity-f.fs.usedLocked() {
		return pathError(op, f.name, syscall.ENOSPC)
	}
	f.node.touch(int64(len(f.node.data)), more)
	f.node.data = append(f.node.data, make([]byte, more)...)
	return nil
}

func (f *file) Truncate(sizeBytes int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("truncate", true); err != nil {
		return err
	}
	return f.resizeLocked("truncate", sizeBytes)
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("sync", false); err != nil {
		return err
	}
	if f.fs.failSync {
		f.fs.failSync = false
		clear(f.node.dirty)
		return pathError("sync", f.name, syscall.EIO)
	}
	f.node.durable = f.node.mix(len(f.node.data), func(int) bool { return true })
	clear(f.node.dirty)
	return nil
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("size", false); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("close", false); err != nil {
		return err
	}
	f.closed = true
	return nil
}
