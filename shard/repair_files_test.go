package shard

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// strayCase is a directory in which files are missing, too many, older or swapped.
type strayCase struct {
	name    string
	image   image
	outcome string // of a start: "refused", "as it was", "older"
}

func (h *history) strayCases(t *testing.T) []strayCase {
	t.Helper()
	other := newHistory(t)
	logs, manifest := h.image.matching("/wal/"), h.image.matching(".manifest")[0]
	segments := h.image.matching(".parquet")
	theirs := other.image.matching(".manifest")[0]
	oldManifest := h.old.matching(".manifest")
	older := h.image.without(manifest)
	for _, path := range oldManifest {
		older[path] = h.old[path]
	}
	swapped := h.image.with(logs[0], h.image[logs[1]]).with(logs[1], h.image[logs[0]])
	cases := []strayCase{
		{"no manifest", h.image.without(manifest), "refused"},
		{"no log", h.image.without(logs...), "refused"},
		{"no manifest and no segments", h.image.without(append(segments, manifest)...), "refused"},
		{"nothing but the log's last file", image{logs[len(logs)-1]: h.image[logs[len(logs)-1]]}, "refused"},
		{"the manifest of another directory", h.image.with(manifest, other.image[theirs]), "refused"},
		{"the manifest from before, and the log trimmed since", older, "refused"},
		{"files of the log swapped", swapped, "refused"},
		{"a log of another directory", withLog(h.image, other.image), "refused"},
		{"a segment that no edit names", h.image.with("/data/l0/0000000099.parquet", h.image[segments[0]]), "as it was"},
		{"an unfinished segment", h.image.with("/data/l0/0000000099.parquet.tmp", "x"), "as it was"},
		{"an older manifest beside the newest", h.image.with("/data/manifest/0000000001.manifest", "x"), "as it was"},
		{"an unfinished manifest", h.image.with("/data/manifest/0000000009.manifest.tmp", "x"), "as it was"},
		{"a damaged spare file", h.image.with("/data/wal/spare.wal", "x"), "as it was"},
		{"a foreign file", h.image.with("/data/l0/note.txt", "x"), "as it was"},
		{"an older copy of everything", h.old, "older"},
		{"an empty directory", image{"/data/LOCK": ""}, "older"},
	}
	for _, path := range logs {
		cases = append(cases, strayCase{"without " + path, h.image.without(path), "refused"})
		cases = append(cases, strayCase{path + " of another directory", h.image.with(path, other.image[path]), "refused"})
	}
	for i, path := range segments {
		cases = append(cases, strayCase{"without " + path, h.image.without(path), "refused"})
		cases = append(cases, strayCase{path + " swapped",
			h.image.with(path, h.image[segments[(i+1)%len(segments)]]), "refused"})
	}
	last := logs[len(logs)-1]
	return append(cases, strayCase{"one more file of the log", h.image.with(nextLog(last), h.image[last]), "refused"})
}

// nextLog is the path behind that of a file of the log.
func nextLog(path string) string { return filepath.Join(filepath.Dir(path), "0000000099.wal") }

// withLog replaces the log.
func withLog(i, log image) image {
	changed := i.without(i.matching("/wal/")...)
	for _, path := range log.matching("/wal/") {
		changed[path] = log[path]
	}
	return changed
}

// Files that are missing, too many, older or swapped: a start refuses them with a remedy and has changed nothing, or it
// has everything. What it can't notice is written down in FORMAT.md: a directory that is older, or empty, as a whole.
func TestStrayFilesAreRefusedOrHarmless(t *testing.T) {
	skipUnderRace(t)
	h := newHistory(t)
	outcomes := map[string]int{}
	for _, c := range h.strayCases(t) {
		disk := c.image.disk(t)
		rows, err := h.read(disk)
		got := "older"
		switch {
		case err != nil && namesDamage(err) && !errors.Is(err, errScan):
			got = "refused"
			h.unchanged(t, c, imageOf(t, disk, damageDir))
			h.repairsStray(t, c)
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case h.judge(rows, nothingLost) == nil:
			got = "as it was"
		}
		if got != c.outcome {
			t.Errorf("%s: the start was %q, want %q (%v)", c.name, got, c.outcome, err)
		}
		outcomes[got]++
	}
	t.Logf("starts with files that are missing, too many, older or swapped: %v", outcomes)
}

// unchanged checks that a start which was refused left every file as it was.
func (h *history) unchanged(t *testing.T, c strayCase, after image) {
	t.Helper()
	for path, content := range c.image {
		if now, there := after[path]; !there || now != content && path != "/data/LOCK" {
			t.Errorf("%s: the start that was refused changed %s", c.name, path)
		}
	}
}

// repairsStray checks that a repair leads to a directory with which a server starts, without any row that nobody wrote,
// and that it has deleted nothing.
func (h *history) repairsStray(t *testing.T, c strayCase) {
	t.Helper()
	disk := c.image.disk(t)
	if err := Check(disk, damageDir, io.Discard); err == nil {
		t.Errorf("%s: check finds nothing", c.name)
	}
	report, err := h.repair(disk, true)
	if err != nil {
		t.Errorf("%s: repair: %v", c.name, err)
		return
	}
	kept := slices.Collect(maps.Values(imageOf(t, disk, damageDir)))
	for path, content := range c.image {
		if !slices.Contains(kept, content) {
			t.Errorf("%s: the repair deleted %s", c.name, path)
		}
	}
	rows, err := h.read(disk)
	if err == nil && !strings.Contains(c.name, "another directory") {
		err = h.judge(rows, func(string, uint64) bool { return true })
	}
	if err != nil {
		t.Errorf("%s: after the repair: %v\n%s", c.name, err, report)
	}
}

// The matrix of damages would be worth nothing if it passed without checksums: where the damage comes with a checksum
// that is right, the start takes it, and the matrix finds rows that nobody wrote.
func TestTheMatrixFindsDamageWithGoodChecksums(t *testing.T) {
	skipUnderRace(t)
	h := newHistory(t)
	table := crc32.MakeTable(crc32.Castagnoli)
	found, tried := 0, 0
	for sequence := h.last - 10; sequence <= h.last; sequence++ {
		p := h.places[sequence]
		content := []byte(h.image[p.path])
		group := content[p.start:p.end]
		value := strings.LastIndex(string(group), `"Number":2`) + len(`"Number":`)
		group[value] = '9'
		sum := crc32.Update(crc32.Checksum(group[:44], table), table, group[48:len(group)-8])
		binary.LittleEndian.PutUint32(group[len(group)-8:], sum)
		tried++
		disk := h.image.with(p.path, string(content)).disk(t)
		rows, err := h.read(disk)
		if err == nil && h.judge(rows, nothingLost) != nil {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d of %d damages with good checksums got past the start, want that of the last group, which no chain covers",
			found, tried)
	}
}
