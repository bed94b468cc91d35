package wal

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

func TestTrimRemovesOnlyFilesThatNobodyNeeds(t *testing.T) {
	disk := memory.New()
	l := openLog(t, smallOptions(disk))
	appendEach(t, l, testFrames(1, 100)...)
	awaitSpare(t, l) // it is a part of the statistics
	sealed, current := l.files.snapshot()
	before := l.Stats()
	if err := l.Trim(sealed[0].lastSequence - 1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, l.Stats()); diff != "" {
		t.Errorf("trimmed below the first file's end (-want +got):\n%s", diff)
	}
	if err := l.Trim(sealed[1].lastSequence); err != nil {
		t.Fatal(err)
	}
	after := l.Stats()
	if after.Files != before.Files-2 || after.Bytes != before.Bytes-sealed[0].bytes-sealed[1].bytes {
		t.Errorf("after trimming two files: got %+v, before %+v", after, before)
	}
	for number := range current.number {
		_, err := disk.Stat(testDir + "/" + fileName(number+1))
		if gone, want := err != nil, number < 2; gone != want {
			t.Errorf("file %d: %v, want gone %v", number+1, err, want)
		}
	}
	closeLog(t, l)
	o := smallOptions(disk)
	o.Floor = sealed[1].lastSequence
	l = openLog(t, o)
	if diff := diffFrames(testFrames(o.Floor+1, 100), replayAll(t, l, o.Floor)); diff != "" {
		t.Error(diff)
	}
}

func TestTrimSealsTheCurrentFileWhenThatHelps(t *testing.T) {
	for _, test := range []struct {
		name    string
		frames  uint64
		floor   uint64
		changed bool
	}{
		{"little in it", 5, 5, false},
		{"half full, not needed", 26, 26, true},
		{"half full, needed in part", 26, 10, true},
		{"half full, needed", 26, 0, false},
		{"floor beyond all frames", 26, 1000, true},
	} {
		l := openLog(t, smallOptions(memory.New()))
		appendEach(t, l, testFrames(1, test.frames)...)
		_, before := l.files.snapshot()
		if before.number != 1 {
			t.Fatalf("%s: the log has several files already", test.name)
		}
		if err := l.Trim(test.floor); err != nil {
			t.Fatal(err)
		}
		sealed, after := l.files.snapshot()
		if got := after.number > before.number; got != test.changed {
			t.Errorf("%s: file changed %v, want %v", test.name, got, test.changed)
		}
		if kept, want := len(sealed) > 0, test.changed && test.floor < test.frames; kept != want {
			t.Errorf("%s: old file kept %v, want %v", test.name, kept, want)
		}
		appendEach(t, l, testFrame(test.frames+1))
		closeLog(t, l)
	}
}

func TestTrimKeepsWhatIsNotSynced(t *testing.T) {
	g := newGate()
	l := openLog(t, smallOptions(vfs.Inject(memory.New(), g.hook)))
	appendEach(t, l, testFrames(1, 5)...)
	g.set(true)
	ticket := l.Append(testFrame(6))
	g.await()
	if err := l.Trim(1000); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats().Files; got != 1 {
		t.Errorf("got %d files, want 1", got)
	}
	g.set(false)
	if err := ticket.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTrimDuringReplayKeepsWhatIsNotReplayed(t *testing.T) {
	disk := memory.New()
	l := openLog(t, smallOptions(disk))
	appendEach(t, l, testFrames(1, 120)...)
	closeLog(t, l)
	l = openLog(t, smallOptions(disk))
	var got []Frame
	fewest := l.Stats().Files
	err := l.Replay(0, func(f Frame) error {
		f.Payload = append([]byte(nil), f.Payload...)
		got = append(got, f)
		err := l.Trim(120)
		fewest = min(fewest, l.Stats().Files)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := diffFrames(testFrames(1, 120), got); diff != "" {
		t.Error(diff)
	}
	if fewest > 2 {
		t.Errorf("never less than %d files, want files to go while the log is replayed", fewest)
	}
	appendEach(t, l, testFrames(121, 125)...)
}

func TestAFailedRemovalIsTriedAgain(t *testing.T) {
	broken := &failing{op: "remove"}
	disk := memory.New()
	l := openLog(t, smallOptions(vfs.Inject(disk, broken.hook)))
	appendEach(t, l, testFrames(1, 100)...)
	broken.armed.Store(true)
	if err := l.Trim(100); !errors.Is(err, errInjected) {
		t.Errorf("got %v, want the injected error", err)
	}
	numbered := 0 // one file may have become the spare, if that was not ready
	for _, name := range fileNames(t, disk) {
		if _, ok := parseFileName(name); ok {
			numbered++
		}
	}
	if got := l.Stats().Files; got != numbered || got < 2 {
		t.Errorf("%d files are counted, and there are %d", got, numbered)
	}
	broken.armed.Store(false)
	if err := l.Trim(100); err != nil {
		t.Error(err)
	}
	if got := l.Stats().Files; got != 1 {
		t.Errorf("got %d files, want 1", got)
	}
}

func TestALogCanStartAtAnySequence(t *testing.T) {
	disk := memory.New()
	l := openLog(t, smallOptions(disk))
	for _, sequence := range []uint64{1, 500, 500} {
		if err := l.StartAt(sequence); err != nil {
			t.Fatalf("start at %d: %v", sequence, err)
		}
	}
	wantErrors(t, "start below", l.StartAt(400), ErrNotEmpty)
	if got := l.LastSequence(); got != 499 {
		t.Errorf("last sequence: got %d, want 499", got)
	}
	closeLog(t, l)
	for floor, first := range map[uint64]uint64{0: 500, 499: 500} {
		o := smallOptions(disk)
		o.Floor = floor
		l = openLog(t, o)
		if got := l.LastSequence() + 1; got < first {
			t.Errorf("floor %d: next sequence is %d, want at least %d", floor, got, first)
		}
		appendEach(t, l, testFrame(l.LastSequence()+1))
		wantErrors(t, "start behind frames", l.StartAt(1000), ErrNotEmpty)
		closeLog(t, l)
	}
	l = openLog(t, smallOptions(disk))
	if diff := diffFrames(testFrames(500, 501), replayAll(t, l, 0)); diff != "" {
		t.Error(diff)
	}
	if err := l.Trim(499); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats().Files; got != 1 {
		t.Errorf("got %d files, want the first one gone", got)
	}
}

// The last group of a log can rot and be taken for torn after its frames went into segments.
func TestALogWhoseFramesAreAllObsoleteStartsBehindTheFloor(t *testing.T) {
	disk := memory.New()
	l := openLog(t, smallOptions(disk))
	appendEach(t, l, testFrames(1, 9)...)
	closeLog(t, l)
	o := smallOptions(disk)
	for _, sequence := range []uint64{11, 14} {
		o.Floor = sequence - 1
		l = openLog(t, o)
		wantErrors(t, "start beyond the floor", l.StartAt(sequence+1), ErrNotEmpty)
		if err := l.StartAt(sequence); err != nil {
			t.Fatal(err)
		}
		appendEach(t, l, testFrame(sequence))
		closeLog(t, l)
		l = openLog(t, o)
		if diff := diffFrames(testFrames(sequence, sequence), replayAll(t, l, o.Floor)); diff != "" {
			t.Error(diff)
		}
		closeLog(t, l)
	}
	o.Floor = 9
	refuses(t, "gap above the floor", snapshot(t, disk), o, fileName(2))
}

// awaitSpare waits for the next spare file, which a goroutine of the log makes after each change of files. One that
// Close meets before it began makes none.
func awaitSpare(t testing.TB, l *Log) {
	t.Helper()
	for start := time.Now(); !l.Stats().SpareReady; runtime.Gosched() {
		if time.Since(start) > time.Minute {
			t.Fatal("no spare was made")
		}
	}
}
