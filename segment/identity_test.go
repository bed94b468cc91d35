package segment

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"lineweir/internal/vfs"
)

// twins are two live segments of one measurement whose files have the same size and other values.
func twins(t *testing.T, s *Store, known bool) (a, b Meta) {
	t.Helper()
	var added []Meta
	for _, value := range []float64{1.5, 2.5} {
		info := infoOf(series("a", noon, 10, value))
		info.Measurement = "cpu"
		p := s.NewFile(0, info, 0)
		m, err := p.Write(sourceOf(blocksOf(series("a", noon, 10, value), 50)...))
		if err == nil {
			err = s.Seal([]*PendingFile{p})
		}
		if err != nil {
			t.Fatal(err)
		}
		if !known {
			m.Checksum = 0
		}
		added = append(added, mustApply(t, s, Edit{Add: []Meta{m}})...)
	}
	if added[0].SizeBytes != added[1].SizeBytes {
		t.Fatalf("the files have %d and %d bytes, want as many", added[0].SizeBytes, added[1].SizeBytes)
	}
	return added[0], added[1]
}

func TestASegmentOfTheSameSizeIsNotTakenForAnother(t *testing.T) {
	// Without the checksum in the manifest nobody notices.
	for _, known := range []bool{true, false} {
		dir := t.TempDir()
		s := openTestStore(t, StoreOptions{Dir: dir})
		a, b := twins(t, s, known)
		content, err := os.ReadFile(s.path(&b))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path(&a), content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, scanned := segmentOf(t, s, a.ID).Scan(Selection{Start: math.MinInt64, Stop: math.MaxInt64})
		_, opened := OpenStore(StoreOptions{Dir: dir})
		report, err := Check(vfs.OS, dir)
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"scan": scanned, "start": opened, "check": errors.Join(report.Problems...)} {
			var damage *CorruptionError
			found := errors.As(err, &damage) && damage.Path == s.path(&a)
			if found != known {
				t.Errorf("known %v: %s: got %v", known, what, err)
			}
		}
		if known && !strings.Contains(opened.Error(), "backup") {
			t.Errorf("%v names no remedy", opened)
		}
	}
}

// segmentOf is the live segment of the measurement cpu with that id.
func segmentOf(t *testing.T, s *Store, id uint64) *Segment {
	t.Helper()
	view := s.Acquire(nil)
	t.Cleanup(view.Release)
	for _, sg := range view.Segments("db", "cpu") {
		if sg.meta.ID == id {
			return sg
		}
	}
	t.Fatalf("segment %d is not live", id)
	return nil
}

// A manifest that is older than the log must not have its way with the segments that it doesn't know.
func TestAManifestThatIsNotApprovedChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, StoreOptions{Dir: dir})
	addL0(t, s, map[string][]row{"cpu": series("a", noon, 10, 1)})
	placeholder(t, s, Meta{Database: "db", Measurement: "m", ID: 20})
	mustApply(t, s, Edit{Floors: []uint64{7}, Shards: 1, Log: 3})
	before := files(t, dir)
	refusal := errors.New("the log says otherwise")
	_, err := OpenStore(StoreOptions{Dir: dir, Approve: func(r Recorded) error {
		if r.Log != 3 || r.MaxSequence != 7 || len(r.Floors) != 1 {
			t.Errorf("recorded is %+v", r)
		}
		return refusal
	}})
	if !errors.Is(err, refusal) {
		t.Errorf("got %v, want %v", err, refusal)
	}
	if after := files(t, dir); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("files are %v, were %v", after, before)
	}
	closed := openTestStore(t, StoreOptions{Dir: dir})
	if after := files(t, dir); strings.Join(after, " ") == strings.Join(before, " ") {
		t.Error("an approved start moved nothing to quarantine: this test shows nothing")
	}
	if closed.Log() != 3 {
		t.Errorf("the log is %d, want 3", closed.Log())
	}
}
