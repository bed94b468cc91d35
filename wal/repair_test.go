package wal

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"lineweir/internal/vfs/memory"
)

// repairAll repairs a log and returns what it said it would lose. Damaged files go to the directory aside.
func repairAll(t *testing.T, fsys *memory.FS, known Known) *RepairPlan {
	t.Helper()
	p, err := PlanRepair(fsys, testDir, known)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Damage) == 0 {
		t.Fatal("the plan names no damage")
	}
	if err := fsys.MkdirAll("/aside", 0o755); err != nil {
		t.Fatal(err)
	}
	err = p.Execute(func(path string) error { return fsys.Rename(path, filepath.Join("/aside", filepath.Base(path))) })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// without returns the frames that are not lost.
func (p *RepairPlan) without(frames []Frame) []Frame {
	return slices.DeleteFunc(slices.Clone(frames), func(f Frame) bool {
		return slices.ContainsFunc(p.Lost, func(l Lost) bool { return f.Sequence >= l.First && f.Sequence <= l.Last })
	})
}

// damagedLogs are logs of the frames 1 to 120, each with the number of frames that its damage takes.
func damagedLogs(t *testing.T) map[string]struct {
	files map[string]string
	lost  uint64
} {
	t.Helper()
	files, _ := manyFiles(t)
	second := files[fileName(2)]
	offsets := groupsOf(t, second)
	frames := func(number uint64) uint64 {
		return firstSequence(t, files[fileName(number+1)]) - firstSequence(t, files[fileName(number)])
	}
	flipped := func(offset int64) map[string]string {
		return with(files, fileName(2), flip(second, offset, 0x40))
	}
	bothHeaders := overwrite(second, 20, "\xff\xff")
	bothHeaders = overwrite(bothHeaders, offsets[0]+10, "\xff\xff")
	last := len(offsets) - 1
	return map[string]struct {
		files map[string]string
		lost  uint64
	}{
		"a body":                  {flipped(offsets[3] + groupHeaderBytes + 20), 1},
		"a header":                {flipped(offsets[3] + 10), 1},
		"two bodies":              {with(flipped(offsets[3]+60), fileName(3), damagedFirst(files[fileName(3)])), 2},
		"a trailer":               {flipped(offsets[last-1] + 50), 0},
		"a file header":           {flipped(20), 0},
		"a file header and group": {with(files, fileName(2), bothHeaders), frames(2)},
		"a file is missing":       {without(files, fileName(2)), frames(2)},
		"two files are swapped": {with(with(files, fileName(2), files[fileName(3)]), fileName(3), second),
			frames(2) + frames(3)},
	}
}

// damagedFirst flips a byte of a file's first group.
func damagedFirst(content string) string {
	return flip(content, fileHeaderBytes+60, 1)
}

func TestARepairKeepsEveryWholeFrame(t *testing.T) {
	frames := testFrames(1, 120)
	for name, c := range damagedLogs(t) {
		disk := restore(t, c.files)
		p := repairAll(t, disk, Known{Written: 120})
		want := p.without(frames)
		if lost := uint64(len(frames) - len(want)); lost != c.lost || p.Kept != len(want) {
			t.Errorf("%s: %d frames are lost and %d kept, want %d lost", name, lost, p.Kept, c.lost)
		}
		o := smallOptions(disk)
		o.Written = 120
		for range 2 {
			l := openLog(t, o)
			if diff := diffFrames(want, replayAll(t, l, 0)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			next := testFrame(l.LastSequence() + 1)
			appendEach(t, l, next)
			closeLog(t, l)
			want = append(want, next)
		}
		again, err := PlanRepair(disk, testDir, Known{Written: 122})
		if err != nil || len(again.Damage) > 0 || len(again.Lost) > 0 {
			t.Errorf("%s: after the repair: %+v, %v", name, again, err)
		}
	}
}

// Frames of an earlier repair stay kept, and its gaps don't count as lost again.
func TestALogCanBeRepairedTwice(t *testing.T) {
	disk := restore(t, damagedLogs(t)["two bodies"].files)
	first := repairAll(t, disk, Known{Written: 120})
	name := fileName(first.numbers[len(first.numbers)-1] + 1)
	files := snapshot(t, disk)
	offsets := groupsOf(t, files[name])
	content := overwrite(files[name], offsets[len(offsets)-2]+60, "\xff")
	disk = restore(t, with(map[string]string{}, name, content))
	second := repairAll(t, disk, Known{Written: 120})
	if len(second.Lost) != 1 || second.Lost[0].Last != 120 {
		t.Errorf("lost is %v, want what the damaged group held", second.Lost)
	}
	l := openLog(t, smallOptions(disk))
	want := second.without(first.without(testFrames(1, 120)))
	if diff := diffFrames(want, replayAll(t, l, 0)); diff != "" {
		t.Error(diff)
	}
}

func TestNoLogOpensBesideAnUnfinishedRepair(t *testing.T) {
	files, _ := manyFiles(t)
	refuses(t, "unfinished", with(files, repaired, files[fileName(1)]), smallOptions(nil), repaired)
	report, err := Check(restore(t, with(files, repaired, files[fileName(1)])), testDir, Known{})
	if err != nil || len(report.Damage) != 1 {
		t.Errorf("check found %v, %v, want one damage", report.Damage, err)
	}
	closeLog(t, openLog(t, smallOptions(restore(t, with(files, repairing, "x")))))
}

// The sequences behind a gap go on as a repair has written them.
func TestAGapIsReadAsOne(t *testing.T) {
	content := encodeFile(t)
	var sequences []uint64
	fsys := restore(t, map[string]string{fileName(3): content})
	var buffer []byte
	st, err := scanFile(fsys, testDir, 3, &buffer, func(_ string, _ int64, f Frame) error {
		sequences = append(sequences, f.Sequence)
		return nil
	})
	if err != nil || st.damage != nil || st.bad != nil {
		t.Fatalf("%v, %v, %v", err, st.damage, st.bad)
	}
	if !slices.Equal(sequences, []uint64{100, 101, 102}) || st.sequence != 110 {
		t.Errorf("got frames %v and the next is %d, want 110", sequences, st.sequence)
	}
}

// A length that is damaged is never believed, even under a checksum that is right: neither a start nor a check nor a
// repair takes more memory than a file has bytes, by far.
func TestNoDamagedLengthTakesMemory(t *testing.T) {
	files, offsets := oneFile(t)
	content := files[fileName(1)]
	file, err := decodeFileHeader([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	const allowedBytes = 32 << 20
	for _, length := range []uint32{1 << 20, 1 << 30, 0xfffffff8} {
		for _, offset := range offsets[:len(offsets)-1] {
			header, intact := decodeGroupHeader([]byte(content)[offset:], file)
			if !intact {
				t.Fatalf("no group at %d", offset)
			}
			header.BodyBytes, header.Frames = length, length
			disk := restore(t, with(files, fileName(1), overwrite(content, offset, string(header.append(nil)))))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, checkErr := Check(disk, testDir, Known{})
			_, planErr := PlanRepair(disk, testDir, Known{Written: 7})
			if l, err := Open(smallOptions(disk)); err == nil {
				closeLog(t, l)
			}
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > allowedBytes || checkErr != nil || planErr != nil {
				t.Errorf("length %d at %d: %d bytes were taken, %v, %v", length, offset, taken, checkErr, planErr)
			}
		}
	}
}
