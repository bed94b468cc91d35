package wal

import (
	"fmt"
	"hash/crc32"
	"testing"

	"lineweir/internal/vfs/memory"
)

// logOf is a log of at least four files and a spare, whose frames are those of manyFiles.
func logOf(t *testing.T, id uint64) map[string]string {
	t.Helper()
	fsys := memory.New()
	o := smallOptions(fsys)
	o.ID = id
	l := openLog(t, o)
	appendEach(t, l, testFrames(1, 120)...)
	awaitSpare(t, l)
	closeLog(t, l)
	if got := l.ID(); id != 0 && got != id {
		t.Fatalf("the log has ID %x, want %x", got, id)
	}
	return snapshot(t, fsys)
}

// headed returns a file with a changed header, whose checksum is right.
func headed(t *testing.T, content string, change func(*fileHeader)) string {
	t.Helper()
	header, err := decodeFileHeader([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	change(&header)
	return overwrite(content, 0, string(header.encode()))
}

// Two logs of the same frames have files of the same numbers, groups and sequences: only ID and chain tell them apart.
func TestAFileOfAnotherLogRefuses(t *testing.T) {
	ours, sameID, other := logOf(t, 7), logOf(t, 7), logOf(t, 8)
	refused := 0
	for number := uint64(1); number <= uint64(len(ours)-1); number++ {
		name := fileName(number)
		where := fileName(max(number, 2)) // the second file doesn't continue the first
		for what, files := range map[string]map[string]string{"another ID": other, "another salt": sameID} {
			refuses(t, name+" of "+what, with(ours, name, files[name]), smallOptions(nil), where)
			refused++
		}
		kept := headed(t, other[name], func(h *fileHeader) { h.PreviousCRC = headerOf(t, ours[name]).PreviousCRC })
		if number > 1 {
			refuses(t, name+" of another ID with our chain", with(ours, name, kept), smallOptions(nil), name)
			refused++
		}
	}
	t.Logf("files of other logs that were refused: %d", refused)

	// Without the two checks nothing would be noticed: the last file, told to be of our log and chain, is taken.
	last := fileName(uint64(len(ours) - 1))
	forged := headed(t, other[last], func(h *fileHeader) {
		mine := headerOf(t, ours[last])
		h.PreviousCRC, h.Log = mine.PreviousCRC, mine.Log
	})
	files := with(ours, last, rechained(t, forged, headerOf(t, ours[last]).PreviousCRC))
	closeLog(t, openLog(t, smallOptions(restore(t, files))))
}

func headerOf(t *testing.T, content string) fileHeader {
	t.Helper()
	header, err := decodeFileHeader([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return header
}

// rechained gives every group of a file the chain that begins with previous, and its checksums.
func rechained(t *testing.T, content string, previous uint32) string {
	t.Helper()
	file := headerOf(t, content)
	data := []byte(content)
	for offset := int64(fileHeaderBytes); offset < int64(len(data)); {
		header, intact := decodeGroupHeader(data[offset:], file)
		if !intact {
			break
		}
		header.PreviousCRC = previous
		copy(data[offset:], header.append(nil))
		end := offset + groupBytes(int64(header.BodyBytes))
		previous = groupCRC(data[offset : end-footerBytes])
		copy(data[end-footerBytes:], appendFooter(nil, previous))
		offset = end
	}
	return string(data)
}

// The CRC of a message with its own CRC behind it is a constant, so a group's must not run over its header's.
func TestTheChainCoversTheHeaderOfEachGroup(t *testing.T) {
	header := groupHeader{Kind: kindFrames, File: 1, Group: 1, Salt: 1}
	_, one := encodeTrailer(header, trailer{Successor: 2, NextSequence: 3})
	header.Salt = 2
	_, two := encodeTrailer(header, trailer{Successor: 2, NextSequence: 3})
	if one == two {
		t.Error("trailers of two salts have the same CRC")
	}
	a, b := crc32.Checksum(header.append(nil), castagnoli), crc32.Checksum(groupHeader{}.append(nil), castagnoli)
	if a != b {
		t.Errorf("the CRC over a header and its CRC is %x and %x: this test's reason is gone", a, b)
	}
}

// endsEarly are logs whose end is missing in a way that the log itself can't tell from one that ended there.
func endsEarly(t *testing.T) (cases map[string]map[string]string, whole map[string]string, last uint64) {
	t.Helper()
	whole, _ = oneFile(t)
	offsets := groupsOf(t, whole[fileName(1)])
	cases = map[string]map[string]string{"no file": {}}
	for i, offset := range offsets[:len(offsets)-1] {
		cases[fmt.Sprintf("%d groups", i)] = with(whole, fileName(1), whole[fileName(1)][:offset])
	}
	last = uint64(7)
	torn := overwrite(whole[fileName(1)], offsets[3]+60, "\xff\xff\xff\xff\xff")
	cases["last group torn"] = with(whole, fileName(1), torn)
	return cases, whole, last
}

func TestALogThatEndsEarlyRefuses(t *testing.T) {
	cases, whole, last := endsEarly(t)
	o := smallOptions(nil)
	o.Written = last
	for name, files := range cases {
		refuses(t, name, files, o, fileName(1))
		report, err := Check(restore(t, files), testDir, o.Known)
		if err != nil || len(report.Damage) != 1 {
			t.Errorf("%s: check found %v, %v, want one damage", name, report.Damage, err)
		}
		// Without that knowledge it is taken for a log that ended there.
		o := smallOptions(restore(t, files))
		closeLog(t, openLog(t, o))
	}
	t.Logf("logs that end early: %d refused", len(cases))
	o.FS = restore(t, whole)
	closeLog(t, openLog(t, o))
	o.ID = 5
	refuses(t, "a log of another ID as a whole", whole, o, fileName(1))
}
