package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// diskCommand is what a child that serves a file system is told. The first one mounts it.
type diskCommand struct {
	Operation string `json:"operation"`

	Mount     string  `json:"mount,omitempty"`      // where to mount
	SizeBytes int64   `json:"size_bytes,omitempty"` // of the disk; 0 for files that are passed on
	Under     string  `json:"under,omitempty"`      // the directory whose files are passed on
	Cut       cutPlan `json:"cut"`
	Fault     fault   `json:"fault"`
}

// serveDisk is the role of a child that serves a file system: either one file, which is a disk, or the files of
// another directory, with faults.
func serveDisk(commands *json.Decoder, answers *json.Encoder) error {
	var first diskCommand
	if err := commands.Decode(&first); err != nil {
		return err
	}
	d, faults := newDisk(first.SizeBytes), &faults{}
	server, err := mountFUSE(first, d, faults)
	if err := errors.Join(err, sendReply(answers, diskState{}, err)); err != nil {
		return err
	}
	defer server.Unmount()
	for {
		var c diskCommand
		if err := commands.Decode(&c); err != nil {
			return err
		}
		if err := sendReply(answers, faults.count(d.look()), obey(c, d, faults)); err != nil {
			return err
		}
	}
}

func obey(c diskCommand, d *disk, faults *faults) error {
	switch c.Operation {
	case "look":
	case "arm":
		d.arm(c.Cut)
	case "cut":
		d.cut(c.Cut.Keep, c.Cut.Seed)
	case "lie":
		d.lie()
	case "fail":
		faults.set(c.Fault)
	default:
		return fmt.Errorf("there is no operation %q", c.Operation)
	}
	return nil
}

// mountFUSE mounts by the system call itself, as root may; no fusermount is needed.
func mountFUSE(c diskCommand, d *disk, faults *faults) (*fuse.Server, error) {
	var root fs.InodeEmbedder = &diskRoot{disk: d}
	if c.Under != "" {
		loopback := &fs.LoopbackRoot{Path: c.Under}
		root = &faultNode{LoopbackNode: fs.LoopbackNode{RootData: loopback}, faults: faults}
		loopback.RootNode = root
	}
	return fs.Mount(c.Mount, root, &fs.Options{MountOptions: fuse.MountOptions{
		FsName: "lineweir-e2e", Name: "lineweir-e2e", DirectMount: true, DirectMountStrict: true, DisableXAttrs: true,
		MaxWrite: 1 << 20,
	}})
}

// diskRoot is a directory with one file for each epoch of a disk, of its name: 0, 1, 2 and so on. So the kernel never
// takes what it cached of one epoch for the content of another.
type diskRoot struct {
	fs.Inode
	disk *disk
}

func (r *diskRoot) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	epoch, err := strconv.Atoi(name)
	if err != nil {
		return nil, syscall.ENOENT
	}
	file := &diskFile{disk: r.disk, epoch: epoch}
	file.describe(&out.Attr)
	return r.NewInode(ctx, file, fs.StableAttr{Mode: syscall.S_IFREG, Ino: uint64(epoch) + 2}), 0
}

type diskFile struct {
	fs.Inode
	disk  *disk
	epoch int
}

func (f *diskFile) describe(attr *fuse.Attr) {
	attr.Mode, attr.Size = syscall.S_IFREG|0o600, uint64(f.disk.sizeBytes)
	attr.Blocks = attr.Size / 512
}

func (f *diskFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.describe(&out.Attr)
	return 0
}

// Setattr changes nothing: a disk has no times and no other size.
func (f *diskFile) Setattr(
	ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut,
) syscall.Errno {
	return f.Getattr(ctx, h, out)
}

func (f *diskFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (f *diskFile) Read(
	_ context.Context, _ fs.FileHandle, buffer []byte, offset int64,
) (fuse.ReadResult, syscall.Errno) {
	n, errno := f.disk.read(f.epoch, buffer, offset)
	return fuse.ReadResultData(buffer[:n]), errno
}

func (f *diskFile) Write(_ context.Context, _ fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	if errno := f.disk.write(f.epoch, data, offset); errno != 0 {
		return 0, errno
	}
	return uint32(len(data)), 0
}

func (f *diskFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return f.disk.flush(f.epoch)
}

// fault makes requests on files fail.
type fault struct {
	On    string        `json:"on"`              // fsync or write; the empty string takes all faults away
	In    string        `json:"in"`              // part of the paths of the files that it hits
	First int           `json:"first,omitempty"` // the number of the request that it hits first, from 1
	Last  int           `json:"last,omitempty"`  // and last; 0 for no end
	Errno syscall.Errno `json:"errno,omitempty"`
	Short bool          `json:"short,omitempty"` // writes write half, and no more
	Delay time.Duration `json:"delay,omitempty"`
	Hang  bool          `json:"hang,omitempty"` // until the caller is killed or the fault is taken away

	over chan struct{} // closed when it is taken away
}

// kind names the fault in counts.
func (f fault) kind() string {
	switch {
	case f.Short:
		return f.On + " short"
	case f.Delay > 0:
		return f.On + " delayed"
	case f.Hang:
		return f.On + " hung"
	}
	return fmt.Sprintf("%s %s", f.On, map[syscall.Errno]string{syscall.EIO: "EIO", syscall.ENOSPC: "ENOSPC"}[f.Errno])
}

// faults is the one fault that a file system has at a time, and what it did.
type faults struct {
	mu       sync.Mutex
	current  fault
	requests int // that the current one could have hit
	injected map[string]int
}

func (f *faults) set(next fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current.over != nil {
		close(f.current.over)
	}
	next.over = make(chan struct{})
	f.current, f.requests = next, 0
}

// await keeps the request back as long as the fault says.
func (f fault) await(ctx context.Context) {
	time.Sleep(f.Delay)
	if f.Hang {
		select {
		case <-ctx.Done():
		case <-f.over:
		}
	}
}

// hit returns the fault of a request, or none.
func (f *faults) hit(on, path string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current.On != on || !strings.Contains(path, f.current.In) {
		return fault{}
	}
	f.requests++
	if f.requests < f.current.First || f.current.Last > 0 && f.requests > f.current.Last {
		return fault{}
	}
	if f.injected == nil {
		f.injected = map[string]int{}
	}
	f.injected[f.current.kind()]++
	return f.current
}

func (f *faults) count(state diskState) diskState {
	f.mu.Lock()
	defer f.mu.Unlock()
	state.Injected = make(map[string]int, len(f.injected))
	for kind, n := range f.injected {
		state.Injected[kind] = n
	}
	return state
}

// faultNode is a file or directory that is passed on.
type faultNode struct {
	fs.LoopbackNode
	faults *faults
}

func (n *faultNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	if loopback, ok := child.(*fs.LoopbackNode); ok {
		return &faultNode{LoopbackNode: fs.LoopbackNode{RootData: loopback.RootData}, faults: n.faults}
	}
	return child
}

func (n *faultNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	return visible(h), fuseFlags, errno
}

func (n *faultNode) Create(
	ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut,
) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, h, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, visible(h), fuseFlags, errno
}

// visible keeps the kernel from passing reads and writes on by itself.
func visible(h fs.FileHandle) fs.FileHandle {
	if file, ok := h.(*fs.LoopbackFile); ok {
		return visibleFile{file}
	}
	return h
}

type visibleFile struct{ *fs.LoopbackFile }

func (visibleFile) PassthroughFd() (int, bool) { return 0, false }

func (n *faultNode) Write(
	ctx context.Context, h fs.FileHandle, data []byte, offset int64,
) (uint32, syscall.Errno) {
	f := n.faults.hit("write", n.Path(nil))
	f.await(ctx)
	if f.Errno != 0 {
		return 0, f.Errno
	}
	if f.Short {
		data = data[:(len(data)+1)/2]
	}
	return h.(fs.FileWriter).Write(ctx, data, offset)
}

func (n *faultNode) Fsync(ctx context.Context, h fs.FileHandle, flags uint32) syscall.Errno {
	f := n.faults.hit("fsync", n.Path(nil))
	f.await(ctx)
	if f.Errno != 0 {
		return f.Errno
	}
	if file, ok := h.(fs.FileFsyncer); ok {
		return file.Fsync(ctx, flags)
	}
	return syncDirectory(n.RootData.Path + "/" + n.Path(nil))
}

func syncDirectory(path string) syscall.Errno {
	directory, err := os.Open(path)
	if err != nil {
		return fs.ToErrno(err)
	}
	defer directory.Close()
	return fs.ToErrno(directory.Sync())
}
