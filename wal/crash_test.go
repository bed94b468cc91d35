package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

var (
	errInjected = errors.New("injected")
	errWorkload = errors.New("the workload failed")
)

// workload writes, trims and reopens a log, and remembers what it was promised.
type workload struct {
	options  Options
	appended uint64
	acked    atomic.Uint64 // no frame up to here may ever be lost, except those at or below
	floor    atomic.Uint64
}

// run ends at the first error, which it returns.
func (w *workload) run() error {
	for range 2 {
		w.options.Floor = w.floor.Load()
		l, err := Open(w.options)
		if err != nil {
			return err
		}
		w.appended = l.LastSequence()
		if err := errors.Join(w.use(l), l.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (w *workload) use(l *Log) error {
	for burst := range uint64(20) {
		var last *Ticket
		for range burst%4 + 1 {
			w.appended++
			last = l.Append(testFrame(w.appended))
		}
		if err := last.Wait(); err != nil {
			return err
		}
		w.acked.Store(w.appended)
		if burst%5 == 4 {
			w.floor.Store(w.appended - 3)
			if err := l.Trim(w.floor.Load()); err != nil {
				return err
			}
		}
	}
	return nil
}

// verify opens what a crash or failure left and compares it with the promises. It tries a second life too.
func verify(fsys vfs.FS, o Options, acked, floor uint64) error {
	o.FS, o.Floor = fsys, floor
	var found uint64
	for life := range 3 {
		l, err := Open(o)
		if err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		next := floor + 1
		err = l.Replay(floor, func(f Frame) error {
			if diff := diffFrames([]Frame{testFrame(next)}, []Frame{f}); diff != "" {
				return fmt.Errorf("frame %d (-want +got):\n%s", next, diff)
			}
			next++
			return nil
		})
		last := l.LastSequence()
		if err == nil && (last < acked || last < found || last+1 != next) {
			err = fmt.Errorf("life %d: last frame is %d, replay ended before %d, promised was %d", life, last, next, acked)
		}
		for sequence := last + 1; err == nil && sequence <= last+4; sequence++ {
			err = l.Append(testFrame(sequence)).Wait()
			found = sequence
		}
		if err := errors.Join(err, l.Close()); err != nil {
			return err
		}
	}
	return nil
}

// crashAt runs the workload and verifies what a power cut just before call number call leaves. It reports false if the
// workload makes fewer calls.
func crashAt(call int, random *rand.Rand, wrap func(vfs.FS) vfs.FS) (bool, error) {
	disk := memory.New()
	var mu sync.Mutex
	var calls int
	var crashed *memory.FS
	var acked, floor uint64
	w := &workload{options: smallOptions(nil)}
	w.options.FS = vfs.Inject(wrap(disk), func(vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if calls == call {
			acked = w.acked.Load()
			crashed = disk.CrashClone(random)
			floor = w.floor.Load()
		}
		calls++
		return nil
	})
	if err := w.run(); err != nil {
		return true, fmt.Errorf("%w: %w", errWorkload, err)
	}
	if crashed == nil {
		return false, nil
	}
	return true, verify(crashed, smallOptions(nil), acked, floor)
}

func TestNothingAcknowledgedIsLostInACrashAtAnyCall(t *testing.T) {
	calls := 0
	for ; ; calls++ {
		reached := false
		for seed := range uint64(8) {
			var err error
			reached, err = crashAt(calls, rand.New(rand.NewPCG(seed, uint64(calls))), func(fsys vfs.FS) vfs.FS { return fsys })
			if err != nil {
				t.Fatalf("crash before call %d, seed %d: %v", calls, seed, err)
			}
		}
		if !reached {
			break
		}
	}
	if calls < 200 {
		t.Errorf("the workload made %d calls only", calls)
	}
}

// lyingFS says that it synced some files, and didn't.
type lyingFS struct {
	vfs.FS
	lies func(path string) bool
}

func (f lyingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err == nil && f.lies(name) {
		file = lyingFile{file}
	}
	return file, err
}

func (f lyingFS) SyncDir(name string) error {
	if f.lies(name) {
		return nil
	}
	return f.FS.SyncDir(name)
}

type lyingFile struct{ vfs.File }

func (lyingFile) Sync() error { return nil }

// The test above would be worth nothing if it also passed without the syncs.
func TestACrashFindsEveryMissingSync(t *testing.T) {
	for name, lies := range map[string]func(path string) bool{
		"groups":      func(path string) bool { return strings.Contains(path, "wal/0") },
		"new files":   func(path string) bool { return strings.Contains(path, "wal/spare") },
		"directories": func(path string) bool { return path == testDir },
	} {
		t.Run(name, func(t *testing.T) {
			for call := range 400 {
				random := rand.New(rand.NewPCG(1, uint64(call)))
				_, err := crashAt(call, random, func(fsys vfs.FS) vfs.FS { return lyingFS{fsys, lies} })
				if errors.Is(err, errWorkload) {
					t.Fatal(err)
				}
				if err != nil {
					t.Logf("crash before call %d: %v", call, err)
					return
				}
			}
			t.Error("no crash showed that the syncs were missing")
		})
	}
}

func TestAnyFailedCallLosesNothingAcknowledged(t *testing.T) {
	failed := map[string]bool{}
	for call := 0; ; call++ {
		disk := memory.New()
		var calls atomic.Int64
		var op vfs.Op
		w := &workload{options: smallOptions(nil)}
		w.options.FS = vfs.Inject(disk, func(next vfs.Op) error {
			if calls.Add(1)-1 != int64(call) {
				return nil
			}
			op = next
			return errInjected
		})
		err := w.run()
		if calls.Load() <= int64(call) {
			break
		}
		failed[op.Name] = true
		if err != nil && !errors.Is(err, errInjected) {
			t.Errorf("call %d, %+v: got %v, want the injected error", call, op, err)
		}
		// The process ends and the machine goes on; and the machine ends too.
		random := rand.New(rand.NewPCG(1, uint64(call)))
		for name, fsys := range map[string]vfs.FS{"restart": disk, "crash": disk.CrashClone(random)} {
			if err := verify(fsys, smallOptions(nil), w.acked.Load(), w.floor.Load()); err != nil {
				t.Fatalf("call %d, %+v, %s: %v", call, op, name, err)
			}
		}
	}
	for _, name := range []string{"open", "writeat", "sync", "rename", "remove", "syncdir", "readat", "close"} {
		if !failed[name] {
			t.Errorf("no call of %s was made to fail", name)
		}
	}
}

func TestARestartAfterAFailedSyncMakesDurableWhatItReads(t *testing.T) {
	disk := memory.New()
	l := openLog(t, smallOptions(disk))
	appendEach(t, l, testFrames(1, 5)...)
	disk.FailNextSync()
	if err := l.Append(testFrame(6)).Wait(); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("got %v, want %v", err, ErrOutcomeUnknown)
	}
	_ = l.Close()
	l = openLog(t, smallOptions(disk))
	got := replayAll(t, l, 0)
	if diff := diffFrames(testFrames(1, 6), got); diff != "" {
		t.Fatalf("replay sees the cache (-want +got):\n%s", diff)
	}
	// What was replayed is promised from now on, and the cache is gone after a power cut.
	for seed := range uint64(20) {
		crashed := disk.CrashClone(rand.New(rand.NewPCG(seed, 1)))
		if err := verify(crashed, smallOptions(nil), 6, 0); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	closeLog(t, l)
}

func TestACrashDuringRecoveryLosesNothingEither(t *testing.T) {
	whole, offsets := oneFile(t)
	torn := with(whole, fileName(1), overwrite(whole[fileName(1)], offsets[3]+20, "\xff\xff"))
	rotation, frames := interruptedRotation(t, "half a trailer")
	for _, test := range []struct {
		name  string
		files map[string]string
		acked uint64
	}{
		{"torn tail", torn, 3},
		{"interrupted change of files", rotation, uint64(len(frames))},
		{"new log", nil, 0},
	} {
		for call, reached := 0, true; reached; call++ {
			reached = false
			for seed := range uint64(10) {
				disk := restore(t, test.files)
				var crashed *memory.FS
				var calls atomic.Int64
				o := smallOptions(vfs.Inject(disk, func(vfs.Op) error {
					if calls.Add(1)-1 == int64(call) {
						crashed = disk.CrashClone(rand.New(rand.NewPCG(seed, uint64(call))))
					}
					return nil
				}))
				l := openLog(t, o)
				if err := l.Append(testFrame(test.acked + 1)).Wait(); err != nil {
					t.Fatal(err)
				}
				closeLog(t, l)
				if crashed == nil {
					continue
				}
				reached = true
				if err := verify(crashed, smallOptions(nil), test.acked, 0); err != nil {
					t.Fatalf("%s, crash before call %d, seed %d: %v", test.name, call, seed, err)
				}
			}
		}
	}
}

// snapshot is the content of every file of the log, by name.
func snapshot(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range fileNames(t, fsys) {
		data, err := vfs.ReadFile(fsys, testDir+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}

// restore returns a file system that holds a snapshot, durably.
func restore(t testing.TB, files map[string]string) *memory.FS {
	t.Helper()
	fsys := memory.New()
	if err := fsys.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		file, err := fsys.OpenFile(testDir+"/"+name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteAt([]byte(content), 0)
		if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir(testDir); err != nil {
		t.Fatal(err)
	}
	return fsys
}
