package wal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// copiedFrames opens a copy of a log and returns how many frames it has, which must be all up to the last.
func copiedFrames(fsys vfs.FS, dir string) (uint64, error) {
	report, err := Check(fsys, dir, Known{})
	if err != nil || len(report.Damage) > 0 || report.Torn != "" {
		return 0, fmt.Errorf("%w: damage %v, torn %q", err, report.Damage, report.Torn)
	}
	o := smallOptions(fsys)
	o.Dir = dir
	l, err := Open(o)
	if err != nil {
		return 0, err
	}
	next := uint64(1)
	err = l.Replay(0, func(f Frame) error {
		if want := testFrame(next); f.Sequence != next || string(f.Payload) != string(want.Payload) {
			return fmt.Errorf("frame %d is not what was written as frame %d", f.Sequence, next)
		}
		next++
		return nil
	})
	if err == nil && l.LastSequence() != next-1 {
		err = fmt.Errorf("%d frames were replayed of %d", next-1, l.LastSequence())
	}
	if err == nil { // and it goes on
		err = l.Append(testFrame(next)).Wait()
	}
	return next - 1, errors.Join(err, l.Close())
}

func TestACopyHoldsWhatWasAcknowledgedWhileTheLogIsWritten(t *testing.T) {
	fsys := memory.New()
	l := openLog(t, smallOptions(fsys))
	written := make(chan error, 1)
	go func() {
		for sequence := uint64(1); ; sequence++ {
			ticket := l.Append(testFrame(sequence))
			if sequence%7 != 0 { // several frames in a group
				continue
			}
			if err := ticket.Wait(); err != nil || sequence > 2000 {
				written <- err
				return
			}
		}
	}()
	for n, more := 0, true; more; n++ {
		select {
		case err := <-written:
			if more = false; err != nil {
				t.Error(err)
			}
		default:
		}
		acknowledged := l.SyncedSequence()
		dest := fmt.Sprintf("/copy%d", n)
		copied, err := Copy(t.Context(), fsys, testDir, dest, Known{Written: acknowledged})
		if err != nil {
			t.Fatal(err)
		}
		got, err := copiedFrames(fsys, dest)
		if err != nil || got < acknowledged || copied.LastSequence != got {
			t.Errorf("%d frames were acknowledged, Copy reports %+v, and %d are there: %v", acknowledged, copied, got, err)
		}
	}
}

// onRead makes something happen before the n-th read of a file.
func onRead(fsys vfs.FS, path string, n int, do func()) vfs.FS {
	return vfs.Inject(fsys, func(op vfs.Op) error {
		if op.Name == "readat" && op.Path == path {
			if n--; n == 0 {
				do()
			}
		}
		return nil
	})
}

// Between two reads of a file the writer goes on, so what is read can look like damage, or like a lost file.
func TestACopyTellsAMovingLogFromADamagedOne(t *testing.T) {
	for name, test := range map[string]struct {
		fileBytes int64
		read      int
		more      uint64
	}{
		"groups behind the window": {1 << 20, 2, 2000},
		"the last file is sealed":  {8 << 10, 1, 60},
		"files come":               {8 << 10, 1, 600},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := memory.New()
			o := smallOptions(fsys)
			o.FileBytes, o.MaxBytes = test.fileBytes, 8<<20
			l := openLog(t, o)
			appendEach(t, l, testFrames(1, 10)...)
			moved := false
			moving := onRead(fsys, filepath.Join(testDir, fileName(1)), test.read, func() {
				moved = true
				appendEach(t, l, testFrames(11, 10+test.more)...)
			})
			if _, err := Copy(t.Context(), moving, testDir, "/copy", Known{}); err != nil {
				t.Fatal(err)
			}
			got, err := copiedFrames(fsys, "/copy")
			if err != nil || got < 10 || !moved {
				t.Errorf("%d frames are there, want at least 10: %v", got, err)
			}
		})
	}
}

func TestACopyOfADamagedLogIsRefused(t *testing.T) {
	flip := func(path string, offset int64) func(*testing.T, vfs.FS) {
		return func(t *testing.T, fsys vfs.FS) {
			file, err := fsys.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 1)
			_, err = file.ReadAt(b, offset)
			b[0] ^= 1
			_, writeErr := file.WriteAt(b, offset)
			if err := errors.Join(err, writeErr, file.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := filepath.Join(testDir, fileName(1))
	for name, test := range map[string]struct {
		known Known
		spoil func(*testing.T, vfs.FS)
		want  string
	}{
		"a byte of a group":          {Known{}, flip(first, 200), "checksum"},
		"a byte of a header":         {Known{}, flip(first, 30), "header"},
		"a file is gone":             {Known{}, func(_ *testing.T, f vfs.FS) { _ = f.Remove(first) }, "is missing"},
		"frames are known that left": {Known{Written: 1000}, func(*testing.T, vfs.FS) {}, "were durable"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := memory.New()
			l := openLog(t, smallOptions(fsys))
			appendEach(t, l, testFrames(1, 100)...)
			closeLog(t, l)
			test.spoil(t, fsys)
			_, err := Copy(t.Context(), fsys, testDir, "/copy", test.known)
			var damage *CorruptionError
			if !errors.As(err, &damage) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want damage: %s", err, test.want)
			}
			if _, err := fsys.Stat("/copy"); err == nil {
				t.Error("something was copied")
			}
		})
	}
}

// What is not needed is left out, a torn tail too, and a log without files has nothing to copy.
func TestACopyIsOfWhatIsNeeded(t *testing.T) {
	fsys := memory.New()
	if copied, err := Copy(t.Context(), fsys, testDir, "/none", Known{}); err == nil {
		t.Errorf("a directory that doesn't exist was copied: %+v", copied)
	}
	if err := fsys.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if copied, err := Copy(t.Context(), fsys, testDir, "/none", Known{}); err != nil || copied != (Copied{}) {
		t.Errorf("a log without files: %+v, %v", copied, err)
	}
	l := openLog(t, smallOptions(fsys))
	appendEach(t, l, testFrames(1, 200)...)
	files := l.Stats().Files
	closeLog(t, l)
	copied, err := Copy(t.Context(), fsys, testDir, "/copy", Known{Floor: 150})
	if err != nil || copied.Files == 0 || copied.Files > files/2 || copied.LastSequence != 200 {
		t.Errorf("of %d files copied %+v: %v", files, copied, err)
	}
	report, err := Check(fsys, "/copy", Known{Floor: 150, Written: 200})
	if err != nil || len(report.Damage) > 0 {
		t.Errorf("check of the copy: %v, %v", report.Damage, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Copy(ctx, fsys, testDir, "/cancelled", Known{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
