package wal

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

func TestRoomEndsExactlyAtMaxBytes(t *testing.T) {
	o := smallOptions(memory.New())
	o.MaxBytes = 2 * o.FileBytes
	l := openLog(t, o)
	frame := Frame{Payload: make([]byte, 1000)}
	for {
		frame.Sequence++
		if l.Room(1000) != nil {
			break
		}
		appendEach(t, l, frame)
	}
	rest := o.MaxBytes - l.Stats().Bytes - costBytes(0)
	for payloadBytes, want := range map[int64]error{rest: nil, rest + 1: ErrFull, 1000: ErrFull} {
		if got := l.Room(payloadBytes); !errors.Is(got, want) {
			t.Errorf("room for %d bytes: got %v, want %v", payloadBytes, got, want)
		}
	}
	if got, want := l.Stats().LastSequence, frame.Sequence-1; got != want {
		t.Errorf("last sequence: got %d, want %d", got, want)
	}
	// Without any other append, trimming alone must make room again.
	if err := l.Trim(l.SyncedSequence()); err != nil {
		t.Fatal(err)
	}
	largest := o.payloadBytesMax()
	for payloadBytes, want := range map[int64]error{largest: nil, largest + 1: ErrFrameTooLarge} {
		if got := l.Room(payloadBytes); !errors.Is(got, want) {
			t.Errorf("room for %d bytes after a trim: got %v, want %v", payloadBytes, got, want)
		}
	}
	appendEach(t, l, Frame{Sequence: frame.Sequence, Payload: make([]byte, largest)})
}

func TestRoomCountsWhatIsQueued(t *testing.T) {
	g := newGate()
	o := smallOptions(vfs.Inject(memory.New(), g.hook))
	o.MaxBytes = 2 * o.FileBytes
	l := openLog(t, o)
	g.set(true)
	frame := Frame{Payload: make([]byte, 1000)}
	for l.Room(1000) == nil {
		frame.Sequence++
		l.Append(frame)
	}
	if got := l.Room(1000); !errors.Is(got, ErrFull) {
		t.Errorf("got %v, want %v", got, ErrFull)
	}
	if room := o.MaxBytes / costBytes(1000); int64(frame.Sequence) < room-1 || int64(frame.Sequence) > room {
		t.Errorf("the queue took %d frames, want %d", frame.Sequence, room)
	}
	g.set(false)
}

// awaitRoom asks until there is room: it is made by a goroutine of the log.
func awaitRoom(t *testing.T, l *Log, payloadBytes int64) {
	t.Helper()
	for start := time.Now(); l.Room(payloadBytes) != nil; runtime.Gosched() {
		if time.Since(start) > time.Minute {
			t.Fatalf("there is still no room: %v", l.Room(payloadBytes))
		}
	}
}

// fillDisk leaves the disk with no free byte.
func fillDisk(t *testing.T, disk *memory.FS) {
	t.Helper()
	used := int64(0)
	for _, name := range fileNames(t, disk) {
		info, err := disk.Stat(testDir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		used += info.Size()
	}
	disk.SetCapacity(used)
}

func TestAFullDiskIsNoticedBeforeAFrameIsTaken(t *testing.T) {
	disk := memory.New()
	l := openLog(t, smallOptions(disk))
	fillDisk(t, disk)
	l.spare.tend(true)
	sequence := uint64(0)
	random := rand.New(rand.NewPCG(1, 1))
	// The space of the current file and of the spare is used, by frames that come alone or in bursts.
	for refused := 0; refused < 20; {
		var last *Ticket
		for range random.IntN(5) + 1 {
			payloadBytes := random.Int64N(1500)
			if err := l.Room(payloadBytes); err != nil {
				wantErrors(t, "room", err, ErrDiskLow)
				refused++
				continue
			}
			sequence++
			last = l.Append(Frame{Sequence: sequence, Payload: make([]byte, payloadBytes)})
		}
		if last != nil {
			if err := last.Wait(); err != nil {
				t.Fatalf("a frame that was let in failed: %v", err)
			}
		}
	}
	if used := l.Stats().Bytes; used < 12<<10 {
		t.Errorf("%d bytes were used before the disk counted as low, want most of two files", used)
	}

	// A file that is not needed becomes the spare, without any free space.
	if err := l.Trim(l.SyncedSequence()); err != nil {
		t.Fatal(err)
	}
	if !l.Stats().SpareReady {
		t.Error("trimming made no spare")
	}
	awaitRoom(t, l, 4000)
	appendEach(t, l, Frame{Sequence: sequence + 1, Payload: make([]byte, 4000)})
}

// A low disk without a spare: the only file is full, and not needed.
func TestTheCurrentFileIsReusedOnALowDisk(t *testing.T) {
	disk := memory.New()
	o := smallOptions(disk)
	if err := disk.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	disk.SetCapacity(4*o.FileBytes - 1) // the first file is made, a spare would use up the reserve
	l := openLog(t, o)
	sequence := uint64(1)
	for ; l.Room(1000) == nil; sequence++ {
		appendEach(t, l, Frame{Sequence: sequence, Payload: make([]byte, 1000)})
	}
	wantErrors(t, "room", l.Room(1000), ErrDiskLow)
	if err := l.Trim(l.SyncedSequence()); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if err := l.Room(1000); err != nil {
			t.Fatalf("room after the trim: %v", err)
		}
		appendEach(t, l, Frame{Sequence: sequence, Payload: make([]byte, 1000)})
		sequence++
	}
}

// A disk that says it has room and has none.
func TestAFailedSpareLeavesNoSpaceTaken(t *testing.T) {
	disk := memory.New()
	full := func(op vfs.Op) error {
		if op.Name == "writeat" && strings.HasSuffix(op.Path, temporary) && op.Bytes > fileHeaderBytes {
			return syscall.ENOSPC
		}
		return nil
	}
	l := openLog(t, smallOptions(vfs.Inject(disk, full)))
	if diff := cmp.Diff([]string{fileName(1)}, fileNames(t, disk)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	appendEach(t, l, testFrames(1, 60)...)
	if l.Stats().SpareReady || l.Stats().Files < 2 {
		t.Errorf("got %+v, want several files and no spare", l.Stats())
	}
}

func TestASpareIsMadeWhenTheDiskHasRoomAgain(t *testing.T) {
	disk := memory.New()
	disk.SetCapacity(0)
	if err := disk.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(smallOptions(disk)); err == nil {
		t.Fatal("a log opened without any space for its first file")
	}
	disk.SetCapacity(1 << 10) // enough for a header, not for a spare
	l := openLog(t, smallOptions(disk))
	wantErrors(t, "room", l.Room(10), ErrDiskLow)
	disk.SetCapacity(1 << 20)
	awaitRoom(t, l, 10)
	appendEach(t, l, testFrames(1, 60)...)
	closeLog(t, l)
	if err := verify(disk, smallOptions(nil), 60, 0); err != nil {
		t.Error(err)
	}
}

func TestAFrameLargerThanAFileIsTaken(t *testing.T) {
	disk := memory.New()
	l := openLog(t, smallOptions(disk))
	want := testFrames(1, 3)
	want[1].Payload = make([]byte, 100<<10)
	for i := range want[1].Payload {
		want[1].Payload[i] = byte(i * i >> 8)
	}
	if err := l.Room(int64(len(want[1].Payload))); err != nil {
		t.Fatal(err)
	}
	appendEach(t, l, want...)
	closeLog(t, l)
	l = openLog(t, smallOptions(disk))
	if diff := diffFrames(want, replayAll(t, l, 0)); diff != "" {
		t.Error(diff)
	}
	if got := l.Stats().Files; got != 3 {
		t.Errorf("got %d files, want 3", got)
	}
}
