package segment

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// dropStore has segments of two databases, of sequences 1 to 4.
func dropStore(t *testing.T, o StoreOptions) *Store {
	t.Helper()
	s := openTestStore(t, o)
	mustApply(t, s, Edit{Shards: 2, Floors: []uint64{0, 0}, Databases: []string{"bare"}})
	add := func(database, measurement string, sequence uint64) Meta {
		return placeholder(t, s, Meta{
			Database: database, Measurement: measurement, MinSequence: sequence, MaxSequence: sequence, Columns: cpuColumns,
		})
	}
	added := mustApply(t, s, Edit{Add: []Meta{
		add("a", "cpu", 1), add("a", "cpu", 2), add("a", "mem", 3), add("b", "cpu", 4),
	}})
	mustApply(t, s, Edit{Promote: []uint64{added[0].ID}})
	mustApply(t, s, Edit{Retention: []Retention{{"a", time.Hour}, {"b", 2 * time.Hour}}})
	return s
}

func liveOf(s *Store) []uint64 {
	var ids []uint64
	for id := range takeSnapshot(s).Segments {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// A drop removes the segments of lower sequences in its own edit, and what it says outlives restarts and checkpoints.
func TestADropRemovesSegmentsOfLowerSequences(t *testing.T) {
	kept := []Retention{{"a", time.Hour}, {"b", 2 * time.Hour}}
	for _, tc := range []struct {
		name      string
		drop      Drop
		live      []uint64
		retired   []uint64
		databases []string
		retention []Retention
	}{
		{"a measurement", Drop{"a", "cpu", 5}, []uint64{3, 4}, []uint64{2}, []string{"a", "b", "bare"}, kept},
		{"part of a measurement", Drop{"a", "cpu", 2}, []uint64{2, 3, 4}, nil, []string{"a", "b", "bare"}, kept},
		{"a database", Drop{"a", "", 5}, []uint64{4}, []uint64{2, 3}, []string{"b", "bare"}, kept[1:]},
		{"a database without segments", Drop{"bare", "", 5}, []uint64{1, 2, 3, 4}, nil, []string{"a", "b"}, kept},
		{"nothing", Drop{"a", "disk", 5}, []uint64{1, 2, 3, 4}, nil, []string{"a", "b", "bare"}, kept},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			var retired []uint64
			o := StoreOptions{Dir: dir, Retired: func(m Meta) { retired = append(retired, m.ID) }}
			s := dropStore(t, o)
			retired = nil
			mustApply(t, s, Edit{Drops: []Drop{tc.drop}})
			slices.Sort(retired)
			if diff := cmp.Diff(tc.retired, retired); diff != "" {
				t.Errorf("retired from level 0 (-want +got):\n%s", diff)
			}
			for range 3 {
				if diff := cmp.Diff(tc.live, liveOf(s)); diff != "" {
					t.Fatalf("live segments (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.databases, s.Databases()); diff != "" {
					t.Errorf("databases (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.retention, s.Retention()); diff != "" {
					t.Errorf("retention (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]Drop{tc.drop}, s.Drops()); diff != "" {
					t.Errorf("drops (-want +got):\n%s", diff)
				}
				if got, want := s.MaxSequence(), max(tc.drop.Sequence, 4); got != want {
					t.Errorf("max sequence is %d, want %d", got, want)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openTestStore(t, o) // the first time from edits, then from a checkpoint
			}
		})
	}
}

// No edit brings back rows that a drop has taken; those written after it are welcome.
func TestAnEditWithDroppedRowsIsRefused(t *testing.T) {
	s := dropStore(t, StoreOptions{Dir: t.TempDir()})
	mustApply(t, s, Edit{Drops: []Drop{{"a", "cpu", 10}, {"b", "", 11}}})
	for _, tc := range []struct {
		database, measurement string
		sequence              uint64
		want                  error
	}{
		{"a", "cpu", 9, ErrDropped}, {"a", "cpu", 12, nil}, {"a", "mem", 9, nil},
		{"b", "cpu", 10, ErrDropped}, {"b", "new", 10, ErrDropped}, {"b", "new", 12, nil},
	} {
		m := placeholder(t, s, Meta{Database: tc.database, Measurement: tc.measurement, MaxSequence: tc.sequence})
		before := liveOf(s)
		_, err := s.Apply(Edit{Add: []Meta{m}}, nil)
		if !errors.Is(err, tc.want) || err != nil && tc.want == nil {
			t.Errorf("%s %s at %d: got %v, want %v", tc.database, tc.measurement, tc.sequence, err, tc.want)
		}
		if err != nil && !slices.Equal(before, liveOf(s)) {
			t.Errorf("%s %s at %d: the refused edit changed the live set", tc.database, tc.measurement, tc.sequence)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "bare"}, s.Databases()); diff != "" {
		t.Errorf("a database lives again when rows come (-want +got):\n%s", diff)
	}
}

// A drop is recorded until the floors of all shards have reached it.
func TestADropIsForgottenWithTheFloors(t *testing.T) {
	s := dropStore(t, StoreOptions{Dir: t.TempDir()})
	mustApply(t, s, Edit{Drops: []Drop{{"a", "cpu", 10}, {"b", "", 20}, {"a", "cpu", 15}}})
	for _, tc := range []struct {
		floors []uint64
		want   []Drop
	}{
		{[]uint64{30, 14}, []Drop{{"a", "cpu", 15}, {"b", "", 20}}},
		{[]uint64{30, 15}, []Drop{{"b", "", 20}}},
		{[]uint64{30, 30}, []Drop{}},
	} {
		mustApply(t, s, Edit{Floors: tc.floors})
		if diff := cmp.Diff(tc.want, s.Drops()); diff != "" {
			t.Errorf("floors %v (-want +got):\n%s", tc.floors, diff)
		}
	}
}

func TestADropWithoutDatabaseOrSequenceIsRefused(t *testing.T) {
	s := dropStore(t, StoreOptions{Dir: t.TempDir()})
	for _, e := range []Edit{
		{Drops: []Drop{{"", "m", 4}}}, {Drops: []Drop{{"a", "m", 0}}}, {Drops: []Drop{{"a", "\xff", 4}}},
		{Retention: []Retention{{"", time.Hour}}}, {Retention: []Retention{{"a", -1}}},
		{Retention: []Retention{{"\xff", time.Hour}}},
	} {
		if _, err := s.Apply(e, nil); err == nil {
			t.Errorf("%+v was accepted", e)
		}
	}
}

// A view that was taken before a drop reads on; the files go when it is released.
func TestAViewOutlivesADrop(t *testing.T) {
	fsys := memory.New()
	s := openTestStore(t, StoreOptions{FS: fsys, Dir: "data"})
	addL0(t, s, map[string][]row{"cpu": series("a", noon, 100, 1)})
	view := s.Acquire(nil)
	mustApply(t, s, Edit{Drops: []Drop{{"db", "cpu", 1000}}})
	segments := view.Segments("db", "cpu")
	source, err := segments[0].Scan(AllTime())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(collect(t, source)); got != 100 {
		t.Errorf("the view reads %d rows, want 100", got)
	}
	view.Release()
	if _, err := fsys.Stat(s.path(segments[0].meta)); err == nil {
		t.Error("the file of a dropped segment is still there")
	}
	if got := readRows(t, s, "cpu"); len(got) != 0 {
		t.Errorf("%d rows after the drop", len(got))
	}
}

// Directories in which nothing is left go at the next start.
func TestAStartRemovesEmptyDirectories(t *testing.T) {
	fsys := memory.New()
	o := StoreOptions{FS: fsys, Dir: "data"}
	s := openTestStore(t, o)
	c := newTestCompactor(t, CompactorOptions{Store: s})
	addL0(t, s, map[string][]row{"cpu": series("a", noon, 10, 1), "mem": series("a", noon, 10, 1)})
	compactAll(t, c)
	mustApply(t, s, Edit{Drops: []Drop{{"db", "cpu", 1000}}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTestStore(t, o)
	if _, err := fsys.Stat("data/l1/db/cpu"); err == nil {
		t.Error("the directory of a dropped measurement is still there")
	}
	if got := readRows(t, s, "mem"); len(got) != 10 {
		t.Errorf("%d rows of the other measurement, want 10", len(got))
	}
	mustApply(t, s, Edit{Shards: 1, Floors: []uint64{1000}}) // the drop is over
	addL0(t, s, map[string][]row{"cpu": series("a", noon, 10, 1)})
	compactAll(t, newTestCompactor(t, CompactorOptions{Store: s}))
	if got := readRows(t, s, "cpu"); len(got) != 10 {
		t.Errorf("%d rows were written again, want 10", len(got))
	}
}

// A merge whose input is dropped under it is given up without being called a failure; the others of its job count.
func TestAMergeWhoseInputsAreDroppedIsGivenUp(t *testing.T) {
	fsys := memory.New()
	var s *Store
	dropped := false
	hooked := vfs.Inject(fsys, func(op vfs.Op) error {
		// The outputs are being sealed: their merges have read all inputs.
		if !dropped && op.Name == "rename" && len(op.Path) > len("data/l1") && op.Path[:7] == "data/l1" {
			dropped = true
			mustApply(t, s, Edit{Drops: []Drop{{"db", "cpu", 1000}}})
		}
		return nil
	})
	s = openTestStore(t, StoreOptions{FS: hooked, Dir: "data"})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	for range 2 {
		addL0(t, s, map[string][]row{"cpu": series("a", noon, 100, 1), "mem": series("b", noon, 100, 2)})
	}
	want := readRows(t, s, "mem")
	compactAll(t, c)
	if !dropped {
		t.Fatal("nothing was dropped")
	}
	if got := readRows(t, s, "cpu"); len(got) != 0 {
		t.Errorf("%d dropped rows are back", len(got))
	}
	if diff := diffRows(want, readRows(t, s, "mem")); diff != "" {
		t.Error(diff)
	}
	if status := c.Status(); status.Failures != 0 || s.L0Bytes() != 0 {
		t.Errorf("status %+v and %d bytes in level 0, want no failure and none", status, s.L0Bytes())
	}
	for path := range takeInventoryOf(t, fsys).segments {
		if cpu := "l1/db/cpu"; len(path) > len(cpu) && path[:len(cpu)] == cpu {
			t.Errorf("%s was left behind", path)
		}
	}
}

func takeInventoryOf(t *testing.T, fsys vfs.FS) *inventory {
	t.Helper()
	found, err := takeInventory(fsys, "data")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A promotion of a segment that was dropped is given up as well.
func TestAPromotionOfADroppedSegmentIsGivenUp(t *testing.T) {
	s := dropStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	view := s.Acquire(nil)
	defer view.Release()
	promotes := view.Segments("a", "mem")
	mustApply(t, s, Edit{Drops: []Drop{{"a", "mem", 10}}})
	if _, err := c.run(context.Background(), job{promotes: promotes}, newMeter(c)); err != nil {
		t.Errorf("got %v", err)
	}
	if status := c.Status(); status.Failures != 0 || status.Promoted != 0 {
		t.Errorf("status is %+v", status)
	}
}

// ScanKeys yields the series and times of a segment and reads none of its fields.
func TestScanKeysReadsNoField(t *testing.T) {
	fsys := memory.New()
	var readBytes int64
	hooked := vfs.Inject(fsys, func(op vfs.Op) error {
		if op.Name == "readat" {
			readBytes += op.Bytes
		}
		return nil
	})
	s := openTestStore(t, StoreOptions{FS: hooked, Dir: "data"})
	rows := append(series("a", noon, 3000, 1.5), series("b", noon, 3000, 2.5)...)
	for i := range rows {
		rows[i].Fields["text"] = text(string(rune('a'+i%26)) + "long enough to be seen in the number of bytes read")
	}
	addL0(t, s, map[string][]row{"m": rows})
	view := s.Acquire(nil)
	defer view.Release()
	read := func(scan func(Selection) (Source, error), sel Selection) (got []row, bytes int64) {
		readBytes = 0
		source, err := scan(sel)
		if err != nil {
			t.Fatal(err)
		}
		return collectKeys(t, source), readBytes
	}
	sg := view.Segments("db", "m")[0]
	all, allBytes := read(sg.Scan, AllTime())
	keys, keyBytes := read(sg.ScanKeys, AllTime())
	if diff := diffRows(all, keys); diff != "" {
		t.Error(diff)
	}
	if keyBytes*3 > allBytes {
		t.Errorf("ScanKeys read %d bytes, Scan %d", keyBytes, allBytes)
	}
	some := AllTime()
	some.Tags = []TagEqual{{"host", "b"}}
	some.Start = noon.Add(time.Hour).UnixNano()
	if keys, _ = read(sg.ScanKeys, some); len(keys) != 3000-60 || keys[0].Key != key("host", "b") {
		t.Errorf("%d rows from %q on", len(keys), keys[0].Key)
	}
}

// collectKeys reads keys and times, and leaves fields out.
func collectKeys(t *testing.T, source Source) []row {
	t.Helper()
	var rows []row
	for {
		b, err := source.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, run := range b.Runs {
			for range run.Rows {
				rows = append(rows, row{Key: string(run.Key), Time: b.Times[i]})
				i++
			}
		}
	}
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	return rows
}
