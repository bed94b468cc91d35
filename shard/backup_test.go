package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
	"lineweir/wal"
)

// growing is an engine that is written to while backups of it are made: one point after the other, so that a copy
// must hold all up to some number.
type growing struct {
	disk   *memory.FS
	engine *Engine
	points int64
}

// options leave room in the log for what is written while a backup keeps it.
func (g *growing) options() Options {
	o := faultOptions(g.disk)
	o.WAL.MaxBytes = 1 << 20
	o.Admission.MaxWait = time.Minute // no write is refused on a slow machine
	return o
}

func startGrowing(t *testing.T) *growing {
	t.Helper()
	g := &growing{disk: memory.New()}
	g.engine = start(t, g.options())
	mustPut(t, g.engine, of("gone", "a", 1))
	for range 3 {
		g.move(t)
	}
	mustDrop(t, g.engine, "db", "gone")
	mustPut(t, g.engine, at("a", g.points, g.points))
	g.points++
	return g
}

// move makes files of the log and segments come and go.
func (g *growing) move(t *testing.T) {
	t.Helper()
	for range 4 {
		for range 30 {
			mustPut(t, g.engine, at("a", g.points, g.points))
			g.points++
		}
		sealAll(t, g.engine)
	}
	g.engine.tier.compactor.Poke()
	eventually(t, "the segments are merged", func() bool { return g.engine.store.Level(0).Segments < 4 })
	g.engine.trimLog()
	g.engine.store.Reclaim()
}

// restart stops the engine and starts it again.
func (g *growing) restart(t *testing.T) {
	t.Helper()
	g.move(t)
	shutdown(t, g.engine)
	g.engine = start(t, g.options())
}

// checkCopy requires that a copy is whole and holds a number of points that the engine had since the backup began.
func (g *growing) checkCopy(t *testing.T, dest string, least int64) error {
	t.Helper()
	if err := Check(g.disk, dest, io.Discard); err != nil {
		return err
	}
	o := g.options()
	o.DataDir = dest
	e, err := Open(o)
	if err != nil {
		return err
	}
	if err := e.Recover(t.Context()); err != nil {
		return errors.Join(err, e.Shutdown(t.Context()))
	}
	defer shutdown(t, e)
	rows := rowsOf(t, e, "m")
	if got := int64(len(rows)); got < least || got > g.points {
		return fmt.Errorf("the copy has %d points, want from %d to %d", got, least, g.points)
	}
	for n := range int64(len(rows)) {
		if rows[rowKey("a", n)] != fmt.Sprintf("v=%d", n) {
			return fmt.Errorf("the copy has %d points, and not point %d", len(rows), n)
		}
	}
	if len(rowsOf(t, e, "gone")) > 0 {
		return errors.New("the copy has rows that were dropped")
	}
	return checkMeasurementCopies(e, "m")
}

// unlocked is a file system on which the locks of a backup hold nobody up.
type unlocked struct{ vfs.FS }

func (f unlocked) Lock(name string) (io.Closer, error) {
	if strings.Contains(name, "KEEP") {
		return io.NopCloser(nil), nil
	}
	return f.FS.Lock(name)
}

// backUpAt makes a backup, and has something happen before its n-th call. It reports whether there was one.
func (g *growing) backUpAt(t *testing.T, fs vfs.FS, n int, happens func(*testing.T)) (happened bool, err error) {
	t.Helper()
	calls, least := 0, g.points
	var mu sync.Mutex // footers are read side by side
	moving := vfs.Inject(fs, func(vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == n {
			happened = true
			happens(t)
		}
		return nil
	})
	dest := fmt.Sprintf("copies/%d-%d", n, g.points)
	if err := Backup(t.Context(), BackupOptions{FS: moving, DataDir: faultDir, Dest: dest}, io.Discard); err != nil {
		return happened, err
	}
	return happened, g.checkCopy(t, dest, least)
}

// A copy is of one moment, wherever in the making of it writes, flushes, merges, trims and restarts come.
func TestABackupWhileEverythingMoves(t *testing.T) {
	for name, happens := range map[string]func(*growing, *testing.T){"moves": (*growing).move, "restarts": (*growing).restart} {
		t.Run(name, func(t *testing.T) {
			g := startGrowing(t)
			tried := 0
			for n, happened := 1, true; happened; n += 3 {
				var err error
				happened, err = g.backUpAt(t, g.disk, n, func(t *testing.T) { happens(g, t) })
				if err != nil {
					t.Fatalf("%s before call %d of the backup: %v", name, n, err)
				}
				tried++
			}
			t.Logf("%d backups, each with %s at another call; %d points", tried, name, g.points)
			if tried < 10 {
				t.Errorf("only %d backups were disturbed", tried)
			}
		})
	}
}

// Without its locks the same backup is found to fail, so that the test above is worth something.
func TestABackupNeedsItsLocks(t *testing.T) {
	g := startGrowing(t)
	failed := 0
	for n, happened := 1, true; happened; n += 3 {
		var err error
		if happened, err = g.backUpAt(t, unlocked{g.disk}, n, g.move); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no backup failed though nothing kept the files that it needed")
	}
	t.Logf("%d backups failed", failed)
}

// A copy whose log is older than its manifest is found out, by the start too.
func TestABackupReadsTheManifestFirst(t *testing.T) {
	g := startGrowing(t)
	const dest = "copies/wrong"
	known := wal.Known{Floor: g.engine.store.Horizon()}
	if _, err := wal.Copy(t.Context(), g.disk, faultDir+"/wal", dest+"/wal", known); err != nil {
		t.Fatal(err)
	}
	g.move(t)
	lock, err := vfs.WaitLock(t.Context(), g.disk, faultDir+"/"+keepSegmentsName)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	snapshot, err := segment.ReadSnapshot(g.disk, faultDir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = snapshot.CopyFiles(t.Context(), dest)
	if err := errors.Join(err, snapshot.WriteManifest(dest)); err != nil {
		t.Fatal(err)
	}
	o := faultOptions(g.disk)
	o.DataDir = dest
	if e, err := Open(o); err == nil {
		t.Error("a log that ends before the manifest's floors is accepted")
		shutdown(t, e)
	}
}

// While a backup holds its locks nothing is deleted, and afterwards everything is, without any write.
func TestWhatABackupKeepsIsDeletedLater(t *testing.T) {
	g := startGrowing(t)
	eventually(t, "the spare is ready", func() bool { return g.engine.log.Stats().SpareReady })
	files := func() int { return countFiles(g.disk, faultDir+"/l0") + countFiles(g.disk, faultDir+"/wal") }
	var locks []io.Closer
	for _, name := range []string{keepLogName, keepSegmentsName} {
		lock, err := vfs.WaitLock(t.Context(), g.disk, faultDir+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, lock)
	}
	before := files()
	g.move(t)
	if got := files(); got < before+4 {
		t.Errorf("%d files, and %d before 4 seals: some were deleted", got, before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Backup(ctx, BackupOptions{FS: g.disk, DataDir: faultDir, Dest: "other"}, io.Discard)
	if !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second backup at the same time: %v, want %v", err, vfs.ErrLocked)
	}
	if err := errors.Join(locks[0].Close(), locks[1].Close()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was kept is deleted", func() bool {
		return countFiles(g.disk, faultDir+"/l0") == g.engine.store.Level(0).Segments && g.engine.log.Stats().Files <= 2
	})
}

// still is a data directory that nobody uses, with segments of both levels, a drop, and a log with rows.
func still(t *testing.T) (disk *memory.FS, rows map[string]string) {
	t.Helper()
	g := startGrowing(t)
	rows = rowsOf(t, g.engine, "m")
	disk = crashOf(g.disk, everythingWritten, 0)
	return disk, rows
}

// judge tells whether a destination is whole, or else is refused by everybody.
func judge(t *testing.T, disk *memory.FS, dest string, rows map[string]string) (whole bool, err error) {
	t.Helper()
	entries, listErr := disk.ReadDir(dest)
	if listErr != nil || len(entries) == 0 {
		return false, nil
	}
	o := faultOptions(disk)
	o.DataDir = dest
	e, openErr := Open(o)
	checkErr := Check(disk, dest, io.Discard)
	if openErr != nil {
		if !errors.Is(openErr, ErrIncomplete) || !errors.Is(checkErr, ErrIncomplete) {
			return false, errors.Join(errors.New("it is refused for another reason"), openErr, checkErr)
		}
		return false, nil
	}
	if err := e.Recover(t.Context()); err != nil {
		return false, errors.Join(err, e.Shutdown(t.Context()))
	}
	defer shutdown(t, e)
	if got := rowsOf(t, e, "m"); len(got) != len(rows) {
		return true, fmt.Errorf("it has %d rows, want %d", len(got), len(rows))
	}
	return true, nil
}

// One call of a backup fails, in each way in which it can, or the power goes before it: the destination is whole, or
// refused as incomplete, and the original is as it was.
func TestABackupFailsAtAnyCall(t *testing.T) {
	source, rows := still(t)
	failures, cuts, whole := tally{}, tally{}, 0
	for number, more := 1, true; more; number++ {
		for _, f := range []fate{eio, enospc, short, late, killed} {
			disk := crashOf(source, everythingWritten, 0)
			calls, cut := 0, (*memory.FS)(nil)
			var mu sync.Mutex // footers are read side by side
			faulty := newFaultDisk(disk, func(op vfs.Op) fate {
				mu.Lock()
				defer mu.Unlock()
				if calls++; calls != number {
					return works
				}
				if f == killed {
					cuts.add(op)
					cut = crashOf(disk, anyShare, uint64(number))
					return works
				}
				failures.add(op)
				return f
			})
			err := Backup(t.Context(), BackupOptions{FS: faulty, DataDir: faultDir, Dest: "copy"}, io.Discard)
			if more = calls >= number; !more {
				break
			}
			if cut != nil {
				disk, err = cut, errors.New("the power went")
			}
			complete, problem := judge(t, disk, "copy", rows)
			if problem == nil && err == nil && !complete {
				problem = errors.New("the backup succeeded and is not whole")
			}
			if original, damage := judge(t, disk, faultDir, rows); damage != nil || !original {
				problem = errors.Join(problem, fmt.Errorf("the original: whole: %v, %w", original, damage))
			}
			if problem != nil {
				t.Fatalf("call %d, %s: the backup said %v: %v", number, f, err, problem)
			}
			if complete {
				whole++
			}
		}
	}
	t.Logf("failed calls: %s; power cuts: %s; %d copies were whole all the same", failures, cuts, whole)
}

// When Backup returns, the copy is durable. A disk that does not do what it says shows that the test would notice.
func TestABackupIsDurable(t *testing.T) {
	source, rows := still(t)
	for name, lies := range map[string]func(op vfs.Op) bool{
		"":            func(vfs.Op) bool { return false },
		"log":         func(op vfs.Op) bool { return op.Name == "sync" && strings.Contains(op.Path, "/wal/") },
		"manifest":    func(op vfs.Op) bool { return op.Name == "sync" && strings.Contains(op.Path, "/manifest/") },
		"directories": func(op vfs.Op) bool { return op.Name == "syncdir" },
	} {
		t.Run("lies about "+name, func(t *testing.T) {
			disk := crashOf(source, everythingWritten, 0)
			lying := newFaultDisk(disk, func(op vfs.Op) fate {
				if lies(op) {
					return swallow
				}
				return works
			})
			if err := Backup(t.Context(), BackupOptions{FS: lying, DataDir: faultDir, Dest: "copy"}, io.Discard); err != nil {
				t.Fatal(err)
			}
			bad := 0
			for seed := range uint64(20) {
				after := disk.CrashClone(rand.New(rand.NewPCG(seed, 11)))
				if complete, err := judge(t, after, "copy", rows); err != nil || !complete {
					bad++
				}
			}
			if (bad > 0) != (name != "") {
				t.Errorf("%d of 20 power cuts left no whole copy", bad)
			}
		})
	}
}

// noLinks is a file system of which the destination is no part.
type noLinks struct{ vfs.FS }

func (noLinks) Link(string, string) error { return syscall.EXDEV }

func TestABackupToAnotherFileSystemIsCopied(t *testing.T) {
	g := startGrowing(t)
	var out strings.Builder
	o := BackupOptions{FS: noLinks{g.disk}, DataDir: faultDir, Dest: "copy"}
	if err := Backup(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "segments: 0 linked, 0 bytes; ") {
		t.Errorf("it says %q", out.String())
	}
	if err := g.checkCopy(t, "copy", g.points); err != nil {
		t.Error(err)
	}
}

// Held rows are in the log, behind the horizon, and come out of the copy once.
func TestABackupHoldsHeldRows(t *testing.T) {
	o, panics := broken(t)
	e := start(t, o)
	mustPut(t, e, of("bad", "a", 1), of("good", "a", 1))
	mustPut(t, e, of("bad", "b", 2))
	for n := range int64(5) {
		mustPut(t, e, of("good", "a", 10+n))
		sealAll(t, e)
	}
	if held(e) != 2 {
		t.Fatalf("%d rows are held, want 2", held(e))
	}
	dest := t.TempDir()
	if err := Backup(t.Context(), BackupOptions{FS: vfs.OS, DataDir: o.DataDir, Dest: dest}, io.Discard); err != nil {
		t.Fatal(err)
	}
	panics.Store(0)
	o.DataDir = dest
	restored := start(t, o)
	sealAll(t, restored)
	if bad, good := rowsOf(t, restored, "bad"), rowsOf(t, restored, "good"); len(bad) != 2 || len(good) != 6 {
		t.Errorf("bad rows %v, good rows %v", bad, good)
	}
	if err := checkMeasurementCopies(restored, "bad", "good"); err != nil {
		t.Error(err)
	}
}

func TestWhatABackupRefuses(t *testing.T) {
	disk, _ := still(t)
	if err := disk.MkdirAll("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ dir, dest, want string }{
		{"nothing", "copy", "there is no manifest"},
		{faultDir, faultDir, "it lies in the data directory"},
		{faultDir, faultDir + "/copy", "it lies in the data directory"},
		{faultDir, "empty", ""},
		{faultDir, "empty", "it is not empty"},
		{"empty", "copy", ""},
	} {
		err := Backup(t.Context(), BackupOptions{FS: disk, DataDir: test.dir, Dest: test.dest}, io.Discard)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("from %s to %s: %v, want %q", test.dir, test.dest, err, test.want)
		}
	}
	failed := errors.New("no tokens")
	o := BackupOptions{FS: disk, DataDir: faultDir, Dest: "half", Also: func(string) error { return failed }}
	if err := Backup(t.Context(), o, io.Discard); !errors.Is(err, failed) || !strings.Contains(err.Error(), "half is incomplete") {
		t.Errorf("what comes along fails: %v", err)
	}
	o = BackupOptions{FS: disk, DataDir: "half", Dest: "other"}
	if err := Backup(t.Context(), o, io.Discard); !errors.Is(err, ErrIncomplete) {
		t.Errorf("backup of what is incomplete: %v", err)
	}
}
