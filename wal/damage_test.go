package wal

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// gate holds back syncs of the log's files, so that a test decides which frames share a group.
type gate struct {
	mu      sync.Mutex
	open    *sync.Cond
	closed  bool
	waiting int
	syncs   int
}

func newGate() *gate {
	g := &gate{}
	g.open = sync.NewCond(&g.mu)
	return g
}

func (g *gate) hook(op vfs.Op) error {
	if op.Name != "sync" || !strings.HasSuffix(op.Path, fileSuffix) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.syncs++
	g.waiting++
	g.open.Broadcast()
	for g.closed {
		g.open.Wait()
	}
	g.waiting--
	return nil
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	g.open.Broadcast()
}

// await returns when a sync is held back.
func (g *gate) await() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.waiting == 0 {
		g.open.Wait()
	}
}

// appendTogether appends frames in one group, behind a group with the first of them alone.
func (g *gate) appendTogether(t testing.TB, l *Log, frames ...Frame) {
	t.Helper()
	g.set(true)
	tickets := []*Ticket{l.Append(frames[0])}
	g.await()
	for _, f := range frames[1:] {
		tickets = append(tickets, l.Append(f))
	}
	g.set(false)
	for i, ticket := range tickets {
		if err := ticket.Wait(); err != nil {
			t.Fatalf("append frame %d: %v", frames[i].Sequence, err)
		}
	}
}

// groupsOf returns the offsets of a file's groups, and the offset behind the last one.
func groupsOf(t testing.TB, content string) []int64 {
	t.Helper()
	s, err := newScanner(strings.NewReader(content), int64(len(content)), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	offsets := []int64{s.offset}
	for {
		if _, err := s.next(); err != nil {
			return offsets
		}
		offsets = append(offsets, s.offset)
	}
}

// oneFile is a log of one file: frames 1 to 3 in groups of their own, then one group of the frames 4 to 7.
func oneFile(t testing.TB) (files map[string]string, offsets []int64) {
	t.Helper()
	fsys, g := memory.New(), newGate()
	l := openLog(t, smallOptions(vfs.Inject(fsys, g.hook)))
	appendEach(t, l, testFrames(1, 2)...)
	g.appendTogether(t, l, testFrames(3, 7)...)
	closeLog(t, l)
	files = snapshot(t, fsys)
	offsets = groupsOf(t, files[fileName(1)])
	if len(offsets) != 5 {
		t.Fatalf("got groups at %v, want four", offsets)
	}
	return files, offsets
}

// manyFiles is a log of at least four files and a spare.
func manyFiles(t testing.TB) (files map[string]string, frames []Frame) {
	t.Helper()
	fsys := memory.New()
	frames = testFrames(1, 120)
	l := openLog(t, smallOptions(fsys))
	appendEach(t, l, frames...)
	awaitSpare(t, l)
	closeLog(t, l)
	if files := l.Stats().Files; files < 4 {
		t.Fatalf("got %d files, want four", files)
	}
	return snapshot(t, fsys), frames
}

// with returns a copy of files in which one file has another content.
func with(files map[string]string, name, content string) map[string]string {
	changed := maps.Clone(files)
	changed[name] = content
	return changed
}

// without returns a copy of files in which some are missing.
func without(files map[string]string, names ...string) map[string]string {
	changed := maps.Clone(files)
	for _, name := range names {
		delete(changed, name)
	}
	return changed
}

// overwrite replaces what lies at offset.
func overwrite(content string, offset int64, bytes string) string {
	return content[:offset] + bytes + content[offset+int64(len(bytes)):]
}

// flip inverts bits of one byte, so that it is another byte whatever it was: salts and checksums are random.
func flip(content string, offset int64, bits byte) string {
	return overwrite(content, offset, string([]byte{content[offset] ^ bits}))
}

func TestATornTailDropsTheWholeLastGroup(t *testing.T) {
	files, offsets := oneFile(t)
	content := files[fileName(1)]
	start, end := offsets[3], offsets[4]
	for offset := start; offset < end; offset++ {
		rest := int(end - offset)
		for name, torn := range map[string]string{
			"file ends":       content[:offset],
			"zeros follow":    overwrite(content, offset, strings.Repeat("\x00", rest)),
			"garbage follows": overwrite(content, offset, strings.Repeat("\xa5", rest)),
			"hole before":     overwrite(content, start, strings.Repeat("\x00", int(offset-start)+1)),
		} {
			if torn == content {
				continue // the footer ends with zeros
			}
			dropsLastGroup(t, fmt.Sprintf("%s at byte %d", name, offset), restore(t, with(files, fileName(1), torn)))
		}
	}
}

// dropsLastGroup checks that a log has the frames 1 to 3, and takes others in their place.
func dropsLastGroup(t *testing.T, name string, fsys *memory.FS) {
	t.Helper()
	report, err := Check(fsys, testDir, Known{})
	if err != nil || len(report.Damage) > 0 {
		t.Errorf("%s: check found %v, %v", name, report.Damage, err)
	}
	want := testFrames(1, 3)
	for range 2 {
		l, err := Open(smallOptions(fsys))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := diffFrames(want, replayAll(t, l, 0)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
		other := Frame{Sequence: uint64(len(want)) + 1, Payload: []byte("other")}
		appendEach(t, l, other)
		closeLog(t, l)
		want = append(want, other)
	}
}

func TestATornTailIsCutOffBeforeTheNextFileExists(t *testing.T) {
	files, offsets := oneFile(t)
	torn := flip(files[fileName(1)], offsets[4]-9, 0xff)
	fsys := restore(t, with(files, fileName(1), torn))
	l := openLog(t, smallOptions(fsys))
	info, err := fsys.Stat(testDir + "/" + fileName(1))
	if err != nil || info.Size() != offsets[3]+trailerBytes {
		t.Errorf("file after Open: got %d bytes, %v, want %d", info.Size(), err, offsets[3]+trailerBytes)
	}
	appendEach(t, l, testFrames(4, 5)...)
	awaitSpare(t, l)
	closeLog(t, l)
	if diff := cmp.Diff([]string{fileName(1), fileName(2), spareName}, fileNames(t, fsys)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// refuses checks that Open refuses the files, names the path, and changes nothing.
func refuses(t *testing.T, name string, files map[string]string, o Options, path string) {
	t.Helper()
	fsys := restore(t, files)
	o.FS = fsys
	l, err := Open(o)
	if err == nil {
		_ = l.Close()
		t.Errorf("%s: the log opened, with last frame %d", name, l.LastSequence())
		return
	}
	var damage *CorruptionError
	if !errors.As(err, &damage) {
		t.Errorf("%s: got %v, want a CorruptionError", name, err)
		return
	}
	if damage.Path != testDir+"/"+path || damage.Remedy == "" || !strings.Contains(err.Error(), damage.Remedy) {
		t.Errorf("%s: got %v, want one that names %s and a remedy", name, err, path)
	}
	if diff := cmp.Diff(files, snapshot(t, fsys)); diff != "" {
		t.Errorf("%s: Open changed files it refused", name)
	}
}

func TestDamageBeforeTheLastGroupRefuses(t *testing.T) {
	files, offsets := oneFile(t)
	content := files[fileName(1)]
	for offset := range offsets[3] {
		if offset >= 8 && offset < 12 {
			continue // the version has an error of its own
		}
		flipped := flip(content, offset, 0x10)
		refuses(t, "flip", with(files, fileName(1), flipped), smallOptions(nil), fileName(1))
	}
	hole := overwrite(content, offsets[1], strings.Repeat("\x00", int(offsets[2]-offsets[1])))
	refuses(t, "hole", with(files, fileName(1), hole), smallOptions(nil), fileName(1))
	first, second := content[offsets[0]:offsets[1]], content[offsets[1]:offsets[2]]
	swapped := content[:offsets[0]] + second + first + content[offsets[2]:]
	refuses(t, "swapped groups", with(files, fileName(1), swapped), smallOptions(nil), fileName(1))
}

func TestAnotherVersionIsNotCalledDamage(t *testing.T) {
	files, _ := oneFile(t)
	changed := overwrite(files[fileName(1)], 8, "\x01")
	_, err := Open(smallOptions(restore(t, with(files, fileName(1), changed))))
	var damage *CorruptionError
	if !errors.Is(err, ErrVersion) || errors.As(err, &damage) {
		t.Errorf("got %v, want %v", err, ErrVersion)
	}
}

func TestDamageInAnySealedFileRefuses(t *testing.T) {
	files, _ := manyFiles(t)
	for _, name := range []string{fileName(1), fileName(2)} {
		content := files[name]
		offsets := groupsOf(t, content)
		last := len(offsets) - 1
		for i, offset := range []int64{0, 20, offsets[0], offsets[1], offsets[last-2], offsets[last-1] + 50} {
			flipped := flip(content, offset, 0x01)
			refuses(t, name, with(files, name, flipped), smallOptions(nil), name)
			if i > 1 {
				refuses(t, name, with(files, name, content[:offset]), smallOptions(nil), name)
			}
		}
	}
}

func TestAMissingFileRefuses(t *testing.T) {
	files, _ := manyFiles(t)
	last := uint64(len(files) - 1)
	for number := uint64(1); number <= last; number++ {
		refuses(t, "missing", without(files, fileName(number)), smallOptions(nil), fileName(number))
	}
	o := smallOptions(nil)
	o.Floor = 40
	all := without(files, fileName(1), fileName(2), fileName(3), fileName(4), fileName(5), fileName(6))
	refuses(t, "all missing", all, o, fileName(1))
	renamed := with(without(files, fileName(2)), fileName(2), files[fileName(3)])
	refuses(t, "other file", renamed, smallOptions(nil), fileName(2))
}

func TestFilesBelowTheFloorMayBeMissingOrDamaged(t *testing.T) {
	files, frames := manyFiles(t)
	floor := firstSequence(t, files[fileName(3)]) - 1
	for name, changed := range map[string]map[string]string{
		"missing":        without(files, fileName(1), fileName(2)),
		"middle missing": without(files, fileName(2)),
		"damaged":        with(with(files, fileName(1), "x"), fileName(2), ""),
	} {
		o := smallOptions(restore(t, changed))
		o.Floor = floor
		l := openLog(t, o)
		if diff := diffFrames(frames[floor:], replayAll(t, l, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := l.Trim(floor); err != nil {
			t.Errorf("%s: trim: %v", name, err)
		}
		closeLog(t, l)
		o.Floor--
		refuses(t, name+" and needed", changed, o, fileName(2))
	}
}

// interruptedRotation is a log in which a crash fell between the name of file 2 and the trailer of file 1.
func interruptedRotation(t *testing.T, trailerBefore string) (files map[string]string, frames []Frame) {
	t.Helper()
	files, _ = manyFiles(t)
	first, second := files[fileName(1)], files[fileName(2)]
	offsets := groupsOf(t, first)
	end := offsets[len(offsets)-2]
	files = map[string]string{
		fileName(1): overwrite(first, end, trailerBefore+strings.Repeat("\x00", trailerBytes-len(trailerBefore))),
		fileName(2): overwrite(second, fileHeaderBytes, strings.Repeat("\x00", len(second)-fileHeaderBytes)),
	}
	return files, testFrames(1, firstSequence(t, second)-1)
}

func TestAnInterruptedChangeOfFilesIsUndone(t *testing.T) {
	for _, trailerBefore := range []string{"", "half a trailer"} {
		files, frames := interruptedRotation(t, trailerBefore)
		disk := restore(t, files)
		l := openLog(t, smallOptions(disk))
		if diff := diffFrames(frames, replayAll(t, l, 0)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{fileName(1), spareName}, fileNames(t, disk)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		closeLog(t, l)
		if err := verify(disk, smallOptions(nil), uint64(len(frames)), 0); err != nil {
			t.Error(err)
		}
	}
	files, _ := manyFiles(t)
	broken, _ := interruptedRotation(t, "")
	refuses(t, "groups behind a missing trailer", with(files, fileName(1), broken[fileName(1)]),
		smallOptions(nil), fileName(1))
	firstOnly := map[string]string{fileName(1): files[fileName(1)]}
	refuses(t, "sealed without a successor", firstOnly, smallOptions(nil), fileName(2))
}

func firstSequence(t testing.TB, content string) uint64 {
	t.Helper()
	header, err := decodeFileHeader([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return header.FirstSequence
}

// A payload can hold the bytes of an old log, but never a header with the salt of the file it gets into.
func TestAHeaderInAPayloadDoesNotMakeATornTailDamage(t *testing.T) {
	for name, want := range map[string]bool{"guessed salt": true, "true salt": false} {
		fsys := memory.New()
		l := openLog(t, smallOptions(fsys))
		salt := l.writer.header.Salt
		if want {
			salt++
		}
		forged := groupHeader{Kind: kindFrames, File: 1, Group: 99, Salt: salt, BodyBytes: 64, Frames: 1}
		payload := append(forged.append(nil), make([]byte, 100)...)
		appendEach(t, l, Frame{Sequence: 1, Payload: payload})
		closeLog(t, l)
		files := snapshot(t, fsys)
		end := groupsOf(t, files[fileName(1)])[1]
		torn := overwrite(files[fileName(1)], end-8, "\x00\x00\x00\x00")
		l, err := Open(smallOptions(restore(t, with(files, fileName(1), torn))))
		if got := err == nil; got != want {
			t.Errorf("%s: got %v, want opened %v", name, err, want)
		}
		if err == nil {
			closeLog(t, l)
		}
	}
}
