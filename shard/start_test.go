package shard

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// forgetful does nothing where a directory is to be synced.
type forgetful struct {
	vfs.FS
	dir string
}

func (f forgetful) SyncDir(name string) error {
	if filepath.Clean(name) == f.dir {
		return nil
	}
	return f.FS.SyncDir(name)
}

// A process that was killed between making a directory and syncing its entry leaves one that a power cut takes away,
// with all that the next process puts there.
func TestADirectoryThatAKilledProcessMadeIsKept(t *testing.T) {
	const lives = 8
	for parent, dirs := range map[string][]string{
		"/": {"/data"}, "/data": {"/data/wal", "/data/manifest", "/data/l0"},
	} {
		lost := 0
		for seed := range uint64(lives) {
			if rows := rowsBehindAKill(t, dirs, seed, func(fsys vfs.FS) vfs.FS { return fsys }); rows != 1 {
				t.Errorf("%s, seed %d: %d rows are left", dirs, seed, rows)
			}
			if rowsBehindAKill(t, dirs, seed, func(fsys vfs.FS) vfs.FS { return forgetful{fsys, parent} }) != 1 {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("%s: without the sync of %s no power cut loses anything: this test shows nothing", dirs, parent)
		}
		t.Logf("%s: %d power cuts lose nothing; without the sync of %s %d do", dirs, lives, parent, lost)
	}
}

// rowsBehindAKill has a process find directories whose entries are not durable, and store a point. It returns how many
// points the next one finds after a power cut; -1 if it does not start.
func rowsBehindAKill(t *testing.T, dirs []string, seed uint64, wrap func(vfs.FS) vfs.FS) int {
	t.Helper()
	disk := memory.New()
	for _, dir := range dirs {
		err := errors.Join(disk.MkdirAll("/made", 0o755), disk.MkdirAll(filepath.Dir(dir), 0o755))
		if err = errors.Join(err, disk.Rename("/made", dir)); err != nil {
			t.Fatal(err)
		}
	}
	o := testOptions("/data")
	o.FS = wrap(disk)
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	for _, s := range e.allShards() {
		if err := e.flushAll(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	o.FS = disk.CrashClone(rand.New(rand.NewPCG(seed, 1)))
	shutdown(t, e)
	again, err := Open(o)
	if err == nil {
		err = again.Recover(context.Background())
		defer shutdown(t, again)
	}
	if err != nil {
		return -1
	}
	return len(rowsOf(t, again, "m"))
}

// failingFlushes fails syncs of segments of level 0 as long as some are left to fail.
func failingFlushes(left *atomic.Int64) func(vfs.Op) error {
	return func(op vfs.Op) error {
		if op.Name == "sync" && strings.Contains(op.Path, "/l0/") && left.Add(-1) >= 0 {
			return errInjected
		}
		return nil
	}
}

var errInjected = errors.New("injected")

// unflushed is a disk on which a log holds more than the memtables of o will.
func unflushed(t *testing.T) (disk *memory.FS, o Options, points int) {
	t.Helper()
	disk, points = memory.New(), 400
	o = testOptions("/data")
	o.FS, o.Shards = disk, 1
	e := start(t, o)
	for i := range points {
		mustPut(t, e, at("a", int64(i), int64(i)))
	}
	disk = disk.CrashClone(rand.New(rand.NewPCG(1, 2)))
	shutdown(t, e)
	o.Memtable.MaxRows = 100
	return disk, o, points
}

func TestARecoveryTriesAFlushAgain(t *testing.T) {
	disk, o, points := unflushed(t)
	var left atomic.Int64
	left.Store(3)
	o.FS = vfs.Inject(disk, failingFlushes(&left))
	e := start(t, o)
	if got := len(rowsOf(t, e, "m")); got != points || left.Load() >= 0 {
		t.Errorf("got %d rows after %d more failures were possible, want %d rows", got, left.Load(), points)
	}
	if got := e.Status().Shards[0].FlushFailures; got != 3 {
		t.Errorf("status counts %d failures, want 3", got)
	}
}

func TestARecoveryWhoseFlushesAllFailEndsWithItsContext(t *testing.T) {
	disk, o, _ := unflushed(t)
	var left atomic.Int64
	left.Store(1 << 40)
	o.FS = vfs.Inject(disk, failingFlushes(&left))
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- e.Recover(ctx) }()
	eventually(t, "a flush has failed", func() bool { return e.Status().Shards[0].FlushFailures > 0 })
	cancel()
	err = <-ended
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errInjected) {
		t.Errorf("got %v, want that it was told to end and why it had not", err)
	}
	if failures := e.Status().Shards[0].FlushFailures; failures < 1 || failures >= recoveryFlushTries {
		t.Errorf("it was tried %d times", failures)
	}
	left.Store(0)
	if err := e.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
