package vfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAFileReadsBackWhatWasWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	file, err := OS.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { _, err := file.Write([]byte("hello world")); return err },
		func() error { _, err := file.WriteAt([]byte("W"), 6); return err },
		func() error { return file.Truncate(9) },
		file.Sync,
		file.Close,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadFile(OS, name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("hello Wor", string(got)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
	if err := file.Sync(); err == nil {
		t.Error("Sync of a closed file succeeded")
	}
}

func TestReadFileNamesWhatIsMissing(t *testing.T) {
	_, err := ReadFile(OS, filepath.Join(t.TempDir(), "absent"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestMkdirAllMakesEveryParentAndRefusesAFile(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b", "c")
	for range 2 {
		if err := OS.MkdirAll(deep, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	info, err := OS.Stat(deep)
	if err != nil || !info.IsDir() {
		t.Errorf("Stat: got %v, %v, want a directory", info, err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := OS.MkdirAll(filepath.Join(root, "file"), 0o755); err == nil {
		t.Error("MkdirAll over a file succeeded")
	}
}

func TestALockIsHeldOnceUntilItIsClosed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "LOCK")
	first, err := OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OS.Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("second Lock: got %v, want %v", err, ErrLocked)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := OS.Lock(name)
	if err != nil {
		t.Fatalf("Lock after Close: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OS.Stat(name); err != nil {
		t.Errorf("the lock file is gone: %v", err)
	}
}

func TestWaitLockWaits(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held, err := OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WaitLock(ended, OS, name); !errors.Is(err, ErrLocked) {
		t.Errorf("with a context that has ended: %v, want %v", err, ErrLocked)
	}
	tries := 0
	lock, err := WaitLock(t.Context(), Inject(OS, func(Op) error {
		if tries++; tries == 3 {
			return held.Close()
		}
		return nil
	}), name)
	if err != nil || tries != 3 {
		t.Fatalf("after %d tries: %v", tries, err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

func TestCopyFileCopiesABeginning(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	content := bytes.Repeat([]byte("0123456789"), copyBytes/4)
	if err := os.WriteFile(from, content, 0o644); err != nil {
		t.Fatal(err)
	}
	want := content[:2*copyBytes+3]
	if err := CopyFile(t.Context(), OS, from, to, int64(len(want))); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes were copied, want %d: %v", len(got), len(want), err)
	}
	if err := CopyFile(t.Context(), OS, from, to, 1); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	err := CopyFile(t.Context(), OS, from, filepath.Join(dir, "long"), int64(len(content))+1)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("more than there is: %v", err)
	}
}

func TestFreeBytesKnowsTheFileSystem(t *testing.T) {
	free, err := OS.FreeBytes(t.TempDir())
	if err != nil || free <= 0 {
		t.Errorf("got %d, %v, want some free space", free, err)
	}
	if _, err := OS.FreeBytes(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("FreeBytes of a missing path succeeded")
	}
}

func TestInjectSeesEveryCallAndCanFailIt(t *testing.T) {
	dir := t.TempDir()
	name, moved := filepath.Join(dir, "file"), filepath.Join(dir, "moved")
	var seen []string
	failing := ""
	errInjected := errors.New("injected")
	fsys := Inject(OS, func(op Op) error {
		seen = append(seen, op.Name)
		if op.Name == failing {
			return errInjected
		}
		return nil
	})
	calls := func() []error {
		file, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return []error{err}
		}
		_, writeErr := file.Write([]byte("abc"))
		_, writeAtErr := file.WriteAt([]byte("d"), 3)
		_, readAtErr := file.ReadAt(make([]byte, 1), 0)
		_, readErr := file.Read(make([]byte, 0))
		_, sizeErr := file.Size()
		errs := []error{writeErr, writeAtErr, readAtErr, readErr, sizeErr, file.Truncate(1), file.Sync(), file.Close()}
		_, readDirErr := fsys.ReadDir(dir)
		_, statErr := fsys.Stat(dir)
		_, freeErr := fsys.FreeBytes(dir)
		lock, lockErr := fsys.Lock(filepath.Join(dir, "LOCK"))
		errs = append(errs, readDirErr, statErr, freeErr, lockErr, fsys.MkdirAll(dir, 0o755),
			fsys.Rename(name, moved), fsys.SyncDir(dir), fsys.Remove(moved), closeLock(lock))
		return errs
	}
	if err := errors.Join(calls()...); err != nil {
		t.Fatal(err)
	}
	want := []string{"open", "write", "writeat", "readat", "read", "size", "truncate", "sync", "close",
		"readdir", "stat", "freebytes", "lock", "mkdirall", "rename", "syncdir", "remove"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, failing = range want {
		if err := errors.Join(calls()...); !errors.Is(err, errInjected) {
			t.Errorf("%s: got %v, want the injected error", failing, err)
		}
	}
}

func closeLock(lock io.Closer) error {
	if lock == nil {
		return nil
	}
	return lock.Close()
}
