package shard

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"lineweir/internal/vfs/memory"
)

var damageLong = flag.Bool("damage-long", false, "damage every byte and try every length")

// damageCase is one damage of one file.
type damageCase struct {
	kind, name string
	path       string
	at         int64 // first byte that is damaged
	end        int64 // behind the last one
	image      image
}

// region names the part of a file that a damage is in.
func (h *history) region(c damageCase) string {
	content := h.image[c.path]
	switch {
	case strings.Contains(c.path, "/wal/"):
		for _, p := range h.places {
			if p.path == c.path && c.at >= p.start && c.at < p.end {
				return "wal groups"
			}
		}
		if c.at < 64 {
			return "wal header"
		}
		return "wal trailer and unused"
	case strings.Contains(c.path, "/manifest/"):
		if first := int64(strings.Index(content[30:], "lwed") + 30); c.at < first {
			return "manifest header and checkpoint"
		}
		return "manifest edits"
	case c.at >= int64(len(content))-int64(footerBytes(content)):
		return "segment footer"
	default:
		return "segment data and index"
	}
}

func footerBytes(content string) int {
	n := len(content)
	return 8 + int(content[n-8]) + int(content[n-7])<<8 + int(content[n-6])<<16
}

// cases are flips of bytes and truncations of all files.
func (h *history) cases() []damageCase {
	var cases []damageCase
	for _, path := range slices.Sorted(maps.Keys(h.image)) {
		content := h.image[path]
		if strings.HasSuffix(path, "LOCK") {
			continue
		}
		step := max(len(content)/60, 1)
		if *damageLong {
			step = 1
		}
		for at := 0; at < len(content); at += step {
			flipped := []byte(content)
			flipped[at] ^= 0x10
			cases = append(cases, damageCase{"flip", fmt.Sprintf("%s, byte %d flipped", path, at), path,
				int64(at), int64(at + 1), h.image.with(path, string(flipped))})
			if at%(2*step) == 0 {
				cases = append(cases, damageCase{"cut", fmt.Sprintf("%s cut to %d bytes", path, at), path,
					int64(at), int64(len(content)), h.image.with(path, content[:at])})
			}
		}
	}
	return cases
}

// lost returns which writes a damage may take: frames of the log that no segment holds, and rows of a segment that
// the log doesn't hold.
func (h *history) lost(c damageCase) func(measurement string, sequence uint64) bool {
	if meta, ok := h.metas["/"+c.path[strings.LastIndex(c.path, "/")+1:]]; ok {
		return func(measurement string, sequence uint64) bool {
			_, logged := h.places[sequence]
			return !logged && measurement == meta.Measurement && sequence >= meta.MinSequence && sequence <= meta.MaxSequence
		}
	}
	return func(_ string, sequence uint64) bool {
		p, logged := h.places[sequence]
		return logged && p.path == c.path && p.start < c.end && p.end > c.at && sequence > slices.Min(h.floors)
	}
}

// matrixReport counts what became of damages, by region.
type matrixReport map[string]map[string]int

func (r matrixReport) count(region, outcome string) {
	if r[region] == nil {
		r[region] = map[string]int{}
	}
	r[region][outcome]++
}

// The matrix of damages: whatever byte is changed and wherever a file ends, a start either has everything that can be
// proven, or names what is damaged. After a repair it has everything that the damage left.
func TestEveryDamageIsRefusedOrHarmlessAndRepaired(t *testing.T) {
	skipUnderRace(t)
	h := newHistory(t)
	rows, err := h.read(h.image.disk(t))
	if err := errors.Join(err, h.judge(rows, nothingLost)); err != nil {
		t.Fatalf("without damage: %v", err)
	}
	report := matrixReport{}
	for _, c := range h.cases() {
		region := h.region(c)
		outcome, err := h.tryDamage(t, c)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		report.count(c.kind+" "+region, outcome)
		if err := h.tryRepair(t, c); err != nil {
			t.Errorf("%s: repair: %v", c.name, err)
		}
	}
	for _, region := range slices.Sorted(maps.Keys(report)) {
		t.Logf("%s: %v", region, report[region])
	}
}

// tryDamage starts on a damaged directory. What it says must be true.
func (h *history) tryDamage(t *testing.T, c damageCase) (outcome string, err error) {
	checked := Check(c.image.disk(t), damageDir, io.Discard)
	disk := c.image.disk(t)
	rows, err := h.read(disk)
	switch {
	case err == nil && h.judge(rows, nothingLost) == nil:
		return "harmless", nil
	case err == nil && h.isTail(c):
		return "torn tail", h.judge(rows, h.lost(c))
	case err == nil:
		return "LOST", h.judge(rows, nothingLost)
	case !namesDamage(err):
		return "NOT NAMED", fmt.Errorf("got %w, want an error that names file and remedy", err)
	case checked == nil:
		return "NOT CHECKED", fmt.Errorf("check found nothing, the start said %w", err)
	case errors.Is(err, errScan):
		return "named by scan and check", nil
	default:
		return "start refused", nil
	}
}

// isTail reports that nothing proves that what a damage took was ever there: the frames from the damaged group on are
// the last ones, and the manifest knows of none of them.
func (h *history) isTail(c damageCase) bool {
	last := h.places[h.last]
	if c.path != last.path {
		return false
	}
	return c.kind == "cut" || c.at >= last.start
}

func (h *history) tryRepair(t *testing.T, c damageCase) error {
	disk := c.image.disk(t)
	before := imageOf(t, disk, damageDir)
	_, planned := h.repair(disk, false)
	if after := imageOf(t, disk, damageDir); !maps.Equal(before, after) && len(after) != len(before)+1 { // LOCK
		return errors.New("a repair that was not accepted changed files")
	}
	if planned != nil && !errors.Is(planned, ErrNotAccepted) {
		if namesDamage(planned) { // another version
			return nil
		}
		return fmt.Errorf("the plan: %w", planned)
	}
	report, err := h.repair(disk, true)
	if err != nil {
		return err
	}
	if (planned == nil) != strings.Contains(report, "nothing is damaged") {
		return fmt.Errorf("planned %w, and reported %q", planned, report)
	}
	return h.verifyRepaired(t, disk, c, report)
}

// verifyRepaired checks that nothing is damaged any more, that all is there that the damage left, and that every byte of
// the damaged files still is.
func (h *history) verifyRepaired(t *testing.T, disk *memory.FS, c damageCase, report string) error {
	again, err := h.repair(disk, true)
	if err != nil || !strings.Contains(again, "nothing is damaged") {
		return fmt.Errorf("a second repair: %w: %s", err, again)
	}
	if err := Check(disk, damageDir, io.Discard); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	kept := slices.Collect(maps.Values(imageOf(t, disk, damageDir)))
	if !slices.Contains(kept, c.image[c.path]) {
		return errors.New("the damaged file is gone")
	}
	for range 2 {
		rows, err := h.read(disk)
		if err := errors.Join(err, h.judge(rows, h.lost(c))); err != nil {
			return fmt.Errorf("%w\nafter the report %s", err, report)
		}
	}
	return nil
}
