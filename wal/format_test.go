package wal

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		t.Errorf("%s (-want +got; go test -run %s -rewrite accepts it):\n%s", path, t.Name(), diff)
	}
}

// encodeGroup returns the bytes of a group of frames.
func encodeGroup(t testing.TB, header groupHeader, frames ...Frame) (string, uint32) {
	t.Helper()
	fsys := memory.New()
	file, err := fsys.OpenFile("/group", os.O_RDWR|os.O_CREATE, 0)
	if err != nil {
		t.Fatal(err)
	}
	header.Kind, header.Frames = kindFrames, uint32(len(frames))
	for _, f := range frames {
		header.BodyBytes += uint32(frameBytes(int64(len(f.Payload))))
	}
	var e encoder
	e.begin(file, 0, header)
	for _, f := range frames {
		e.frame(f)
	}
	crc, end, err := e.finish()
	if err != nil || end != groupBytes(int64(header.BodyBytes)) {
		t.Fatalf("encode: end %d, %v, want %d", end, err, groupBytes(int64(header.BodyBytes)))
	}
	content, err := vfs.ReadFile(fsys, "/group")
	if err != nil {
		t.Fatal(err)
	}
	return string(content), crc
}

var goldenHeader = fileHeader{
	Number: 3, Salt: 0x1122334455667788, FirstGroup: 21, FirstSequence: 100, PreviousCRC: 0xaabbccdd,
	Log: 0x0102030405060708,
}

// encodeFile returns a file of two groups, a gap and a trailer.
func encodeFile(t testing.TB) string {
	t.Helper()
	h := groupHeader{File: 3, Group: 21, Salt: goldenHeader.Salt, PreviousCRC: goldenHeader.PreviousCRC}
	first, crc := encodeGroup(t, h,
		Frame{Sequence: 100, Type: 1, Payload: []byte("cpu usage=1")},
		Frame{Sequence: 101, Type: 2, Payload: []byte("eight by")})
	h.Group, h.PreviousCRC = 22, crc
	second, crc := encodeGroup(t, h, Frame{Sequence: 102, Type: 1})
	h.Group, h.PreviousCRC = 23, crc
	gap, crc := encodeGap(h, 110)
	h.Group, h.PreviousCRC = 24, crc
	end, _ := encodeTrailer(h, trailer{Successor: 4, NextSequence: 110})
	return string(goldenHeader.encode()) + first + second + string(gap) + string(end)
}

func TestTheFormatStaysAsItIs(t *testing.T) {
	golden(t, "format.golden", hex.Dump([]byte(encodeFile(t))))
}

func TestAFileHeaderIsReadBack(t *testing.T) {
	got, err := decodeFileHeader(goldenHeader.encode())
	if err != nil || got != goldenHeader {
		t.Errorf("got %+v, %v, want %+v", got, err, goldenHeader)
	}
}

func TestFileNames(t *testing.T) {
	for name, want := range map[string]uint64{
		"0000000001.wal":  1,
		"9999999999.wal":  9999999999,
		"10000000000.wal": 10000000000,
		"0000000000.wal":  0,
		"1.wal":           0,
		"00000000001.wal": 0,
		"-000000001.wal":  0,
		"000000000a.wal":  0,
		"0000000001.tmp":  0,
		"spare.wal":       0,
	} {
		got, ok := parseFileName(name)
		if ok != (want > 0) || (ok && got != want) {
			t.Errorf("%s: got %d, %v, want %d", name, got, ok, want)
		}
	}
}

func TestOptionsReportEveryProblem(t *testing.T) {
	err := Options{FileBytes: 100, MaxBytes: 1}.Validate()
	for _, want := range []string{"FS is missing", "Dir is empty", "FileBytes is 100", "MaxBytes is 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if err := smallOptions(memory.New()).Validate(); err != nil {
		t.Errorf("good options: %v", err)
	}
}

// transcript records the calls that matter to a crash, with the calls of the spare keeper held back until a step asks
// for them.
type transcript struct {
	mu    sync.Mutex
	lines strings.Builder
	free  *sync.Cond
	held  bool
}

func (tr *transcript) hook(op vfs.Op) error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	name := filepath.Base(op.Path)
	for tr.held && name == temporary {
		tr.free.Wait()
	}
	switch op.Name {
	case "sync", "syncdir", "remove", "truncate", "mkdirall":
		tr.lines.WriteString(op.Name + " " + name + "\n")
	case "writeat":
		tr.lines.WriteString("write " + name + "\n")
	case "rename":
		tr.lines.WriteString("rename " + name + " to " + filepath.Base(op.Target) + "\n")
	case "open":
		if op.Flag&os.O_CREATE != 0 {
			tr.lines.WriteString("create " + name + "\n")
		}
	}
	return nil
}

func (tr *transcript) hold(held bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.held = held
	tr.free.Broadcast()
}

func (tr *transcript) step(name string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines.WriteString("# " + name + "\n")
}

func TestTheCallsThatACrashCanFallBetween(t *testing.T) {
	disk := memory.New()
	tr := &transcript{}
	tr.free = sync.NewCond(&tr.mu)
	o := smallOptions(vfs.Inject(disk, tr.hook))

	tr.step("open a new log")
	l := openLog(t, o)
	tr.step("append frame 1")
	appendEach(t, l, testFrame(1))
	tr.step("append a frame that needs the next file")
	tr.hold(true)
	appendEach(t, l, Frame{Sequence: 2, Payload: make([]byte, 7900)})
	tr.step("make the next spare")
	tr.hold(false)
	awaitSpare(t, l)
	tr.step("append frame 3, to one more file")
	tr.hold(true)
	appendEach(t, l, testFrame(3))
	tr.step("make the next spare")
	tr.hold(false)
	awaitSpare(t, l)
	tr.step("trim two files and close")
	if err := l.Trim(2); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)

	files := snapshot(t, disk)
	torn := flip(files[fileName(3)], groupsOf(t, files[fileName(3)])[1]-8, 0xff)
	disk = restore(t, with(files, fileName(3), torn))
	o.FS = vfs.Inject(disk, tr.hook)
	o.Floor = 2
	tr.step("open with a torn tail")
	l = openLog(t, o)
	closeLog(t, l)
	golden(t, "transcript.golden", tr.lines.String())
}
