package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"lineweir/internal/vfs"
	"lineweir/segment"
)

// Parts of the paths of files.
const (
	logFiles = "/wal/0"
	l0Files  = "/l0/"
)

// hangingFS is a file system on which syncs of some files don't return until they are released, and then fail or not.
type hangingFS struct {
	vfs.FS
	part     string // of the paths of those files
	on       *atomic.Bool
	hangs    chan struct{} // has an entry when a sync hangs
	released chan struct{} // closed
	err      error
}

func newHangingFS(part string, err error) *hangingFS {
	return &hangingFS{
		FS: vfs.OS, part: part, on: &atomic.Bool{}, hangs: make(chan struct{}, 1), released: make(chan struct{}), err: err,
	}
}

func (f *hangingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.Contains(name, f.part) {
		return file, err
	}
	return hangingFile{file, f}, nil
}

type hangingFile struct {
	vfs.File
	of *hangingFS
}

func (f hangingFile) Sync() error {
	if !f.of.on.Load() {
		return f.File.Sync()
	}
	select {
	case f.of.hangs <- struct{}{}:
	default:
	}
	<-f.of.released
	if f.of.err != nil {
		return f.of.err
	}
	return f.File.Sync()
}

// stopBeside writes 40 rows, lets a write or a flush hang, and shuts down with a time that is over. It returns how many
// rows were acknowledged, and what the stop said.
func stopBeside(t *testing.T, e *Engine, disk *hangingFS) (acknowledged int, stopped error) {
	t.Helper()
	for n := range int64(40) {
		mustPut(t, e, at(fmt.Sprint(n%3), n, n))
	}
	acknowledged = 40
	disk.on.Store(true)
	var writes, stop sync.WaitGroup
	if disk.part == logFiles {
		writes.Go(func() {
			if put(e, "db", at("late", 99, 99)) == nil {
				acknowledged++
			}
		})
	} else if _, err := e.ForceSeal(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-disk.hangs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stop.Go(func() { stopped = e.Shutdown(ctx) })
	eventually(t, "the stop has begun", func() bool { state, _ := e.stateNow(); return state != stateReady })
	close(disk.released)
	stop.Wait()
	writes.Wait()
	return acknowledged, stopped
}

// A stop whose time is over while the disk doesn't answer, or fails each flush: it returns as soon as the calls do, with
// no goroutine and no lock left, and the next start has all that was acknowledged. It says that the log is to be
// replayed, unless the flush was faster.
func TestAStopThatRunsOutOfTime(t *testing.T) {
	for _, test := range []struct {
		name string
		disk *hangingFS
	}{
		{"the flush takes long", newHangingFS(l0Files, nil)},
		{"the flush fails", newHangingFS(l0Files, syscall.EIO)},
		{"the log takes long", newHangingFS(logFiles, nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			o := testOptions(t.TempDir())
			o.FS = test.disk
			e := start(t, o)
			if goleak.Find(before) == nil {
				t.Error("an engine that runs has no goroutines: the test could not fail")
			}
			acknowledged, stopped := stopBeside(t, e, test.disk)
			if stopped != nil && !errors.Is(stopped, context.Canceled) || test.disk.err != nil && stopped == nil {
				t.Errorf("the stop said %v", stopped)
			}
			if err := goleak.Find(before); err != nil {
				t.Errorf("after the stop: %v", err)
			}
			var refused *BackpressureError
			if err := put(e, "db", at("a", 1000, 1)); !errors.As(err, &refused) || refused.Cause != CauseDraining {
				t.Errorf("a write after the stop: %v, want a refusal because of draining", err)
			}
			o.FS = vfs.OS
			next := start(t, o)
			if got := rowsOf(t, next, "m"); len(got) != acknowledged {
				t.Errorf("%d rows are there, want the %d that were acknowledged", len(got), acknowledged)
			}
			replayed := next.Status().Recovery.RowsReplayed
			if stopped == nil && replayed > 0 || test.disk.err != nil && replayed == 0 {
				t.Errorf("%d rows were replayed after a stop that said %v", replayed, stopped)
			}
		})
	}
}

// The proof that the test above can fail: a stop that raised the floors though the flush did not end loses rows.
func TestAStopThatLiesLosesRows(t *testing.T) {
	o := testOptions(t.TempDir())
	disk := newHangingFS(l0Files, syscall.EIO)
	o.FS = disk
	e := start(t, o)
	for n := range int64(40) {
		mustPut(t, e, at(fmt.Sprint(n%3), n, n))
	}
	last := e.log.SyncedSequence()
	lie := segment.Edit{Floors: []uint64{last, last}, Shards: 2, Log: e.log.ID()}
	if _, err := e.store.Apply(lie, func() {}); err != nil {
		t.Fatal(err)
	}
	disk.on.Store(true)
	close(disk.released)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the stop said %v", err)
	}
	o.FS = vfs.OS
	if got := rowsOf(t, start(t, o), "m"); len(got) == 40 {
		t.Error("nothing is lost")
	}
}
