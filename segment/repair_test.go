package segment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"lineweir/internal/vfs"
)

// setAside moves files to the directory "aside" below dir.
func setAside(t *testing.T, dir string) func(path string) error {
	t.Helper()
	aside := filepath.Join(dir, "aside")
	if err := os.MkdirAll(aside, 0o755); err != nil {
		t.Fatal(err)
	}
	return func(path string) error { return os.Rename(path, filepath.Join(aside, filepath.Base(path))) }
}

// manyEdits is a closed store whose manifest has a checkpoint and edits of all kinds: flushes, a promotion, a
// compaction, floors, drops, a retention. It returns the live segments.
func manyEdits(t *testing.T, dir string) []Meta {
	t.Helper()
	s := openTestStore(t, StoreOptions{Dir: dir})
	mustApply(t, s, Edit{Shards: 2, Floors: []uint64{1, 1}, Log: 77, Retention: []Retention{{"db", 1 << 50}}})
	for n := range 3 {
		addL0(t, s, map[string][]row{"a": series("a", noon, 10, float64(n)), "b": series("b", noon, 10, float64(n))})
	}
	compactAll(t, newTestCompactor(t, CompactorOptions{Store: s}))
	old := addL0(t, s, map[string][]row{"c": series("c", noon, 10, 1), "a": series("a", noon, 10, 7)})
	mustApply(t, s, Edit{Promote: []uint64{old[1].ID}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTestStore(t, StoreOptions{Dir: dir}) // a checkpoint
	addL0(t, s, map[string][]row{"a": series("a", noon, 10, 8), "c": series("c", noon, 10, 8)})
	mustApply(t, s, Edit{Floors: []uint64{40, 50}, Databases: []string{"empty"}})
	mustApply(t, s, Edit{Drops: []Drop{{Database: "db", Measurement: "gone", Sequence: 45}}})
	addL0(t, s, map[string][]row{"b": series("b", noon, 10, 9)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return liveMetas(t, dir)
}

func liveMetas(t *testing.T, dir string) (metas []Meta) {
	t.Helper()
	r, err := replayManifest(vfs.OS, filepath.Join(dir, manifestDirName))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.catalog.metas() {
		metas = append(metas, *m)
	}
	return metas
}

// recordsOf returns where the records of a manifest begin, and its end.
func recordsOf(t *testing.T, data []byte) []int {
	t.Helper()
	offsets := []int{manifestHeaderBytes}
	for at := manifestHeaderBytes; at < len(data); offsets = append(offsets, at) {
		_, payload, whole := parseRecord(data[at:])
		if !whole {
			t.Fatalf("no record at %d", at)
		}
		at += recordHeaderBytes + len(payload)
	}
	return offsets
}

// Whichever record of a manifest can't be read, the segments are live again, in the order that they had.
func TestAManifestIsPutTogetherFromWhatIsWhole(t *testing.T) {
	dir := t.TempDir()
	want := manyEdits(t, dir)
	name := func() string {
		numbers, _, err := listManifests(vfs.OS, filepath.Join(dir, manifestDirName))
		if err != nil || len(numbers) != 1 {
			t.Fatalf("manifests %v, %v", numbers, err)
		}
		return manifestPath(filepath.Join(dir, manifestDirName), numbers[0])
	}()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	records := recordsOf(t, whole)
	for i, at := range records[:len(records)-1] {
		copied := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(whole)
		data[at+recordHeaderBytes+2] ^= 1
		if err := os.WriteFile(filepath.Join(copied, manifestDirName, filepath.Base(name)), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := repairsTo(t, copied, want); err != nil {
			t.Errorf("record %d of %d: %v", i+1, len(records)-1, err)
		}
		// The control: a segment that is live again and should not be, or the other way round, is found.
		if repairsTo(t, copied, want[1:]) == nil {
			t.Errorf("record %d of %d: a segment too many is not found", i+1, len(records)-1)
		}
	}
	t.Logf("%d records, each unreadable once", len(records)-1)
}

// repairsTo repairs a directory and compares the live set with what it was.
func repairsTo(t *testing.T, dir string, want []Meta) error {
	t.Helper()
	p, err := PlanRepair(vfs.OS, dir, false)
	if err != nil {
		return err
	}
	if p.Rebuilt { // else the last record is taken for one that was cut short
		if err := p.Execute(setAside(t, dir)); err != nil {
			return err
		}
	} else if p, err = PlanRepair(vfs.OS, dir, true); err != nil {
		return err
	} else if err := p.Execute(setAside(t, dir)); err != nil {
		return err
	}
	got := liveMetas(t, dir)
	if len(got) != len(want) || len(p.Lost) != 0 {
		return fmt.Errorf("%d segments are live and %d lost, want %d live", len(got), len(p.Lost), len(want))
	}
	for i := range want {
		if got[i].ID != want[i].ID || got[i].Checksum != want[i].Checksum || got[i].Rows != want[i].Rows {
			return fmt.Errorf("segment %+v, want %+v", got[i], want[i])
		}
	}
	if doubt := p.Doubts; len(doubt) == 0 {
		return errors.New("nothing is said to be in doubt")
	}
	s, err := OpenStore(StoreOptions{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	return sameOrder(t, s, want)
}

// sameOrder checks that segments of a measurement lie as their ranks were, unless one was promoted and nothing tells.
func sameOrder(t *testing.T, s *Store, want []Meta) error {
	t.Helper()
	view := s.Acquire(nil)
	defer view.Release()
	for _, measurement := range []string{"a", "b", "c"} {
		var before, after []uint64
		byRank := slices.Clone(want)
		slices.SortFunc(byRank, func(a, b Meta) int { return int(b.Rank) - int(a.Rank) })
		for _, m := range byRank {
			if m.Measurement == measurement {
				before = append(before, m.ID)
			}
		}
		for _, sg := range view.Segments("db", measurement) {
			after = append(after, sg.meta.ID)
		}
		if !slices.Equal(before, after) {
			return fmt.Errorf("measurement %s: newest first %v, want %v", measurement, after, before)
		}
	}
	return nil
}

// A length that is damaged is never believed: no file makes a reader take more memory than it has bytes, by far.
func TestNoDamagedLengthTakesMemory(t *testing.T) {
	skipUnderRace(t)
	dir := t.TempDir()
	manyEdits(t, dir)
	const allowedBytes = 64 << 20
	tried := 0
	for _, name := range files(t, dir) {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at+4 <= len(whole); at += 8 {
			data := slices.Clone(whole)
			copy(data[at:], "\xf0\xff\xff\x3f")
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			if taken := takenBy(func() { _, _ = Check(vfs.OS, dir) }); taken > allowedBytes {
				t.Errorf("%s, a length at byte %d: %d bytes were taken", name, at, taken)
			}
			tried++
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d lengths of a GiB, none believed", tried)
	// The control: a reader that believes a length takes more than is allowed.
	var believed []byte
	if taken := takenBy(func() { believed = make([]byte, allowedBytes+1) }); taken <= allowedBytes {
		t.Errorf("%d bytes were taken, and %d are seen: the test shows nothing", len(believed), taken)
	}
}

// takenBy returns how many bytes of memory a function takes, all in all.
func takenBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
