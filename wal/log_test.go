package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "/data/wal"

// smallOptions describes a log of small files, so that tests change files often.
func smallOptions(fsys vfs.FS) Options {
	return Options{FS: fsys, Dir: testDir, FileBytes: 8 << 10, MaxBytes: 1 << 20}
}

// openLog opens a log that is closed and checked at the end of the test, unless the test closed it before.
func openLog(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatalf("open log: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, ErrPoisoned) {
			t.Errorf("close log: %v", err)
		}
	})
	return l
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("close log: %v", err)
	}
}

// testFrame is the frame of a sequence in most tests: a payload whose length and content follow from it.
func testFrame(sequence uint64) Frame {
	payload := fmt.Appendf(nil, "payload of %d ", sequence)
	for uint64(len(payload)) < 40+sequence*37%300 {
		payload = append(payload, byte(sequence))
	}
	return Frame{Sequence: sequence, Type: byte(sequence % 3), Payload: payload}
}

func testFrames(first, last uint64) []Frame {
	var frames []Frame
	for sequence := first; sequence <= last; sequence++ {
		frames = append(frames, testFrame(sequence))
	}
	return frames
}

// appendEach appends frames one by one, each in a group of its own.
func appendEach(t testing.TB, l *Log, frames ...Frame) {
	t.Helper()
	for _, f := range frames {
		if err := l.Append(f).Wait(); err != nil {
			t.Fatalf("append frame %d: %v", f.Sequence, err)
		}
	}
}

func replayAll(t testing.TB, l *Log, after uint64) []Frame {
	t.Helper()
	var frames []Frame
	err := l.Replay(after, func(f Frame) error {
		f.Payload = append([]byte(nil), f.Payload...)
		frames = append(frames, f)
		return nil
	})
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	return frames
}

// diffFrames is cmp.Diff, but quick where there is no difference.
func diffFrames(want, got []Frame) string {
	same := func(a, b Frame) bool {
		return a.Sequence == b.Sequence && a.Type == b.Type && bytes.Equal(a.Payload, b.Payload)
	}
	if slices.EqualFunc(want, got, same) {
		return ""
	}
	return cmp.Diff(want, got)
}

// fileNames lists the directory of the log.
func fileNames(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	entries, err := fsys.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestFramesComeBackInOrderAndAgain(t *testing.T) {
	fsys := memory.New()
	want := testFrames(1, 200)
	l := openLog(t, smallOptions(fsys))
	appendEach(t, l, want...)
	if got := l.SyncedSequence(); got != 200 {
		t.Errorf("synced sequence: got %d, want 200", got)
	}
	before := l.Stats()
	closeLog(t, l)
	for range 2 {
		l = openLog(t, smallOptions(fsys))
		if diff := diffFrames(want, replayAll(t, l, 0)); diff != "" {
			t.Errorf("replay (-want +got):\n%s", diff)
		}
		if diff := diffFrames(want[150:], replayAll(t, l, 150)); diff != "" {
			t.Errorf("replay after 150 (-want +got):\n%s", diff)
		}
		if got := replayAll(t, l, 200); len(got) != 0 {
			t.Errorf("replay after the last frame: got %d frames", len(got))
		}
		after := l.Stats()
		if after.Bytes != before.Bytes || after.Files != before.Files || after.LastSequence != 200 {
			t.Errorf("reopened: got %+v, want the sizes of %+v", after, before)
		}
		closeLog(t, l)
	}
}

func TestEveryFileIsMadeFromTheSpare(t *testing.T) {
	fsys := memory.New()
	l := openLog(t, smallOptions(fsys))
	if diff := cmp.Diff([]string{fileName(1), spareName}, fileNames(t, fsys)); diff != "" {
		t.Errorf("new log (-want +got):\n%s", diff)
	}
	appendEach(t, l, testFrames(1, 100)...)
	closeLog(t, l)
	files := l.Stats().Files
	if files < 3 {
		t.Fatalf("got %d files, want several", files)
	}
	for number := range uint64(files) {
		info, err := fsys.Stat(filepath.Join(testDir, fileName(number+1)))
		if err != nil || info.Size() != 8<<10 {
			t.Errorf("file %d: got %v, %v, want 8 KiB", number+1, info, err)
		}
	}
}

// randomPayload follows from the sequence. Its lengths reach around all buffers of the encoder.
func randomPayload(sequence uint64) []byte {
	random := rand.New(rand.NewPCG(sequence, 1))
	sizes := []int{0, 1, 7, 8, 100, directBytes - 1, directBytes, directBytes + 1, chunkBytes - 16, chunkBytes + 3}
	payload := make([]byte, sizes[random.IntN(len(sizes))])
	for i := range payload {
		payload[i] = byte(random.Uint32())
	}
	return payload
}

func TestManyUseALogOnARealDiskAtOnce(t *testing.T) {
	const writers, each = 8, 40
	o := Options{FS: vfs.OS, Dir: filepath.Join(t.TempDir(), "a", "wal"), FileBytes: 1 << 20, MaxBytes: 1 << 30}
	l := openLog(t, o)
	var mu sync.Mutex
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range each {
				mu.Lock()
				sequence := l.LastSequence() + 1
				payload := randomPayload(sequence)
				room := l.Room(int64(len(payload)))
				ticket := l.Append(Frame{Sequence: sequence, Type: 7, Payload: payload})
				mu.Unlock()
				if err := errors.Join(room, ticket.Wait()); err != nil {
					t.Error(err)
				}
				if got := l.SyncedSequence(); got < sequence {
					t.Errorf("frame %d is acknowledged, synced are %d", sequence, got)
				}
				if sequence%50 == 0 {
					if err := l.Trim(sequence - 20); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	closeLog(t, l)
	o.Floor = writers*each - 20
	l = openLog(t, o)
	next := o.Floor
	err := l.Replay(0, func(f Frame) error {
		if next++; f.Sequence != next || f.Type != 7 || !bytes.Equal(f.Payload, randomPayload(next)) {
			t.Errorf("frame %d differs", next)
		}
		return nil
	})
	if err != nil || next != writers*each {
		t.Errorf("replay ended with frame %d, %v, want %d", next, err, writers*each)
	}
	report, err := Check(vfs.OS, o.Dir, Known{Floor: UnknownFloor})
	if err != nil || len(report.Damage) > 0 || report.Torn != "" {
		t.Errorf("check: %+v, %v", report, err)
	}
}
