package segment

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"lineweir/internal/vfs"
)

// openTestStore opens a store that is closed with the test.
func openTestStore(t testing.TB, o StoreOptions) *Store {
	t.Helper()
	s, err := OpenStore(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// placeholder writes a file of the right size where a segment belongs, for tests of what happens to files.
func placeholder(t testing.TB, s *Store, m Meta) Meta {
	t.Helper()
	if m.ID == 0 {
		m.ID = s.nextID.Add(1) - 1
	}
	m.SizeBytes, m.Rows = 100+int64(m.ID), 10
	path := s.path(&m)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, m.SizeBytes), 0o644); err != nil {
		t.Fatal(err)
	}
	return m
}

func mustApply(t testing.TB, s *Store, e Edit) []Meta {
	t.Helper()
	added, err := s.Apply(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// files lists the regular files under a directory, relative to it.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// snapshot is everything that a store answers, for comparison.
type snapshot struct {
	Segments    map[uint64]Meta
	Order       map[string][]uint64
	Shards      int
	Floors      []uint64
	Databases   []string
	MaxSequence uint64
	L0Bytes     int64
}

func takeSnapshot(s *Store) snapshot {
	view := s.Acquire(nil)
	defer view.Release()
	got := snapshot{
		Segments: map[uint64]Meta{}, Order: map[string][]uint64{}, Shards: s.Shards(), Floors: s.Floors(),
		Databases: s.Databases(), MaxSequence: s.MaxSequence(), L0Bytes: s.L0Bytes(),
	}
	view.Each(func(sg *Segment) { got.Segments[sg.Meta().ID] = sg.Meta() })
	for _, db := range got.Databases {
		for _, m := range view.Measurements(db) {
			for _, sg := range view.Segments(db, m) {
				got.Order[db+"/"+m] = append(got.Order[db+"/"+m], sg.Meta().ID)
			}
		}
	}
	return got
}

var cpuColumns = []ColumnDef{{"host", KindTag}, {"region", KindTag}, {"idle", KindFloat}, {"n", KindInt}}

func TestStoreKeepsWhatEditsSaid(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, StoreOptions{Dir: dir})
	mustApply(t, s, Edit{Shards: 2, Floors: []uint64{0, 0}, Databases: []string{"empty"}})
	added := mustApply(t, s, Edit{Floors: []uint64{7, 3}, Add: []Meta{
		placeholder(t, s, Meta{Database: "db", Measurement: "cpu", MinTime: -5, MaxTime: 9, MinSequence: 1,
			MaxSequence: 9, Columns: cpuColumns}),
		placeholder(t, s, Meta{Database: "db/rp", Measurement: "CPU %", MinSequence: 2, MaxSequence: 2,
			Columns: []ColumnDef{{"a", KindBool}, {"b", KindString}, {"c", KindUint}}}),
	}})
	mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "cpu", Columns: cpuColumns})}})
	mustApply(t, s, Edit{Promote: []uint64{added[0].ID}})

	want := takeSnapshot(s)
	wantOrder := map[string][]uint64{"db/cpu": {3, 1}, "db/rp/CPU %": {2}}
	if diff := cmp.Diff(wantOrder, want.Order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if got := want.Segments[1]; got.Rank != 1 || got.Level != 1 || !got.Promoted || !got.Mixed || got.Partition != -1 {
		t.Errorf("promoted segment is %+v", got)
	}
	if got := want.Segments[3].Rank; got != 3 {
		t.Errorf("third segment has rank %d, want 3", got)
	}
	if want.MaxSequence != 9 || !slices.Equal(want.Floors, []uint64{7, 3}) || want.Shards != 2 {
		t.Errorf("recorded state is %+v", want)
	}
	for range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTestStore(t, StoreOptions{Dir: dir})
		if diff := cmp.Diff(want, takeSnapshot(s)); diff != "" {
			t.Fatalf("after reopening (-want +got):\n%s", diff)
		}
	}
	next := mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "cpu"})}})
	if next[0].ID != 4 || next[0].Rank != 4 {
		t.Errorf("after reopening the next segment has id %d and rank %d, want 4 and 4", next[0].ID, next[0].Rank)
	}
}

func TestFloorsOnlyRise(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	mustApply(t, s, Edit{Shards: 2, Floors: []uint64{5, 5}})
	mustApply(t, s, Edit{Floors: []uint64{4, 9}})
	if got := s.Floors(); !slices.Equal(got, []uint64{5, 9}) {
		t.Errorf("floors are %v, want [5 9]", got)
	}
	mustApply(t, s, Edit{Shards: 3, Floors: []uint64{1, 2, 3}})
	if got := s.Floors(); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("floors of the new shards are %v, want [1 2 3]", got)
	}
	if got := s.MaxSequence(); got != 9 {
		t.Errorf("max sequence is %d, want 9", got)
	}
}

func TestApplyRefusesWhatDoesNotFit(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	added := mustApply(t, s, Edit{Shards: 1, Floors: []uint64{0}, Add: []Meta{
		placeholder(t, s, Meta{Database: "db", Measurement: "m"}), placeholder(t, s, Meta{Database: "db", Measurement: "m"}),
	}})
	live, newer := added[0], added[1]
	good := Meta{ID: 50, Database: "db", Measurement: "m", SizeBytes: 1, Rows: 1}
	with := func(change func(*Meta)) Edit {
		m := good
		change(&m)
		return Edit{Add: []Meta{m}}
	}
	tests := []struct {
		name string
		edit Edit
		want error
	}{
		{"remove what is not live", Edit{Remove: []uint64{99}}, ErrNotLive},
		{"remove twice", Edit{Remove: []uint64{live.ID, live.ID}}, ErrNotLive},
		{"remove and promote", Edit{Remove: []uint64{live.ID}, Promote: []uint64{live.ID}}, ErrNotLive},
		{"one of two inputs is not live", Edit{Remove: []uint64{live.ID, 99}}, ErrNotLive},
		{"add a live id", with(func(m *Meta) { m.ID = live.ID }), nil},
		{"add one id twice", Edit{Add: []Meta{good, good}}, nil},
		{"no id", with(func(m *Meta) { m.ID = 0 }), nil},
		{"level 2", with(func(m *Meta) { m.Level = 2 }), nil},
		{"level 1 without rank", with(func(m *Meta) { m.Level = 1 }), nil},
		{"mixed level 0", with(func(m *Meta) { m.Mixed = true }), nil},
		{"no rows", with(func(m *Meta) { m.Rows = 0 }), nil},
		{"times turned round", with(func(m *Meta) { m.MinTime = 1 }), nil},
		{"no measurement", with(func(m *Meta) { m.Measurement = "" }), nil},
		{"invalid UTF-8", with(func(m *Meta) { m.Measurement = "\xff" }), nil},
		{"invalid UTF-8 in a column", with(func(m *Meta) { m.Columns = []ColumnDef{{"\xff", KindInt}} }), nil},
		{"invalid UTF-8 in a database", Edit{Databases: []string{"\xff"}}, nil},
		{"promote past an older one", Edit{Promote: []uint64{newer.ID}}, nil},
		{"merge past an older one", Edit{Remove: []uint64{newer.ID},
			Add: with(func(m *Meta) { m.Level, m.Rank = 1, newer.Rank }).Add}, nil},
		{"too few floors", Edit{Floors: []uint64{}}, nil},
		{"new shards without floors", Edit{Shards: 2}, nil},
		{"negative shards", Edit{Shards: -1, Floors: []uint64{1}}, nil},
	}
	want := takeSnapshot(s)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Apply(tt.edit, func() { t.Error("published") })
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error is %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(want, takeSnapshot(s)); diff != "" {
				t.Errorf("the refused edit changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetiredFilesStayWhileAViewHoldsThem(t *testing.T) {
	dir := t.TempDir()
	var retired []uint64
	s := openTestStore(t, StoreOptions{Dir: dir, Retired: func(m Meta) { retired = append(retired, m.ID) }})
	add := func() Meta {
		return mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "m"})}})[0]
	}
	exists := func(m Meta) bool {
		_, err := os.Stat(s.path(&m))
		return err == nil
	}
	a := add()
	before := s.Acquire(nil) // holds a
	b := add()
	between := s.Acquire(nil) // holds a and b
	c := add()
	mustApply(t, s, Edit{Remove: []uint64{a.ID, b.ID, c.ID}})
	if want := []uint64{a.ID, b.ID, c.ID}; !slices.Equal(retired, want) {
		t.Errorf("retired %v, want %v at once", retired, want)
	}
	if exists(c) {
		t.Error("the file that no view holds is still there")
	}
	before.Release()
	before.Release() // a second release changes nothing
	if !exists(a) || !exists(b) {
		t.Error("a file that a view holds is gone")
	}
	if got := len(between.Segments("db", "m")); got != 2 {
		t.Errorf("the view has %d segments, want 2", got)
	}
	between.Release()
	if exists(a) || exists(b) {
		t.Error("a file is still there after its last view")
	}
	if got := s.reclaimer.ids(); len(got) != 0 {
		t.Errorf("the reclaimer still knows %v", got)
	}
}

// Files whose deletion is put off go later: when asked, with the next edit, or in the next life of the store.
func TestRemovedFilesStayWhileTheyAreLocked(t *testing.T) {
	locked := errors.New("a backup reads them")
	refused, held := 0, true
	o := StoreOptions{Dir: t.TempDir(), LockRemoval: func() (io.Closer, error) {
		if held {
			refused++
			return nil, locked
		}
		return io.NopCloser(nil), nil
	}}
	s := openTestStore(t, o)
	m := mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "m"})}})[0]
	exists := func() bool {
		_, err := os.Stat(s.path(&m))
		return err == nil
	}
	mustApply(t, s, Edit{Remove: []uint64{m.ID}})
	s.Reclaim()
	if refused != 2 || !exists() {
		t.Errorf("asked %d times, want 2; the file is there: %v", refused, exists())
	}
	for range 2 { // the second start knows of it from the checkpoint that the first one wrote
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTestStore(t, o)
		if !exists() {
			t.Fatal("a start has deleted the file though it is locked")
		}
	}
	held = false
	s.Reclaim()
	if exists() || len(s.reclaimer.ids()) > 0 {
		t.Errorf("the file is there: %v, known: %v, though nothing keeps it", exists(), s.reclaimer.ids())
	}
}

func TestPromotionKeepsTheFileAndLeavesTheTier(t *testing.T) {
	dir := t.TempDir()
	var retired []Meta
	s := openTestStore(t, StoreOptions{Dir: dir, Retired: func(m Meta) { retired = append(retired, m) }})
	m := mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "m"})}})[0]
	view := s.Acquire(nil) // sees it at level 0
	mustApply(t, s, Edit{Promote: []uint64{m.ID}})
	if len(retired) != 1 || retired[0].ID != m.ID || retired[0].Level != 0 {
		t.Errorf("retired %+v, want the segment as it was at level 0", retired)
	}
	if s.L0Bytes() != 0 || s.Level(1).Segments != 1 {
		t.Errorf("level 0 has %d bytes, level 1 %+v", s.L0Bytes(), s.Level(1))
	}
	mustApply(t, s, Edit{Remove: []uint64{m.ID}})
	if got := files(t, filepath.Join(dir, "l0")); len(got) != 1 {
		t.Errorf("while a view holds it, l0 has %v", got)
	}
	view.Release()
	if got := files(t, filepath.Join(dir, "l0")); len(got) != 0 {
		t.Errorf("after the view, l0 has %v", got)
	}
	if len(retired) != 1 {
		t.Errorf("retired %d times", len(retired))
	}
}

func TestOpenTidiesUp(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, StoreOptions{Dir: dir})
	live := mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "m"})}})[0]
	removed := mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "m"})}})[0]
	view := s.Acquire(nil)
	defer view.Release()
	mustApply(t, s, Edit{Remove: []uint64{removed.ID}}) // the view keeps its file
	placeholder(t, s, Meta{Database: "db", Measurement: "m", ID: 20})
	placeholder(t, s, Meta{Database: "db", Measurement: "m", ID: 21, Level: 1, Rank: 1})
	for _, name := range []string{"l0/0000000030.parquet.tmp", "manifest/0000000002.manifest.tmp", "l0/notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTestStore(t, StoreOptions{Dir: dir})
	want := []string{
		fmt.Sprintf("l0/%010d.parquet", live.ID), "l0/notes.txt", "manifest/0000000002.manifest",
		"quarantine/0000000020.parquet", "quarantine/0000000021.parquet",
	}
	if diff := cmp.Diff(want, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if p := s.NewFile(0, FileInfo{}, 0); p.ID() != 22 {
		t.Errorf("the next id is %d, want 22: one above all that lie around", p.ID())
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name   string
		damage func(dir string) error
		path   string
	}{
		{"a missing manifest beside segments", func(dir string) error {
			return os.Remove(filepath.Join(dir, "manifest/0000000001.manifest"))
		}, "manifest"},
		{"a missing manifest directory", func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, "manifest"))
		}, "manifest"},
		{"an empty manifest", func(dir string) error {
			return os.Truncate(filepath.Join(dir, "manifest/0000000001.manifest"), 0)
		}, "manifest/0000000001.manifest"},
		{"a missing segment", func(dir string) error {
			return os.Remove(filepath.Join(dir, "l0/0000000001.parquet"))
		}, "l0/0000000001.parquet"},
		{"a short segment", func(dir string) error {
			return os.Truncate(filepath.Join(dir, "l0/0000000001.parquet"), 50)
		}, "l0/0000000001.parquet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openTestStore(t, StoreOptions{Dir: dir})
			mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "m"})}})
			placeholder(t, s, Meta{Database: "db", Measurement: "m", ID: 20}) // an orphan
			if err := errors.Join(s.Close(), tt.damage(dir)); err != nil {
				t.Fatal(err)
			}
			before := files(t, dir)
			_, err := OpenStore(StoreOptions{Dir: dir})
			var corruption *CorruptionError
			if !errors.As(err, &corruption) {
				t.Fatalf("error is %v, want a CorruptionError", err)
			}
			if want := filepath.Join(dir, tt.path); corruption.Path != want {
				t.Errorf("it names %s, want %s", corruption.Path, want)
			}
			if diff := cmp.Diff(before, files(t, dir)); diff != "" {
				t.Errorf("the refused start changed files (-before +after):\n%s", diff)
			}
		})
	}
}

var errInjected = errors.New("injected failure")

func TestAFailedEditMakesTheStoreReadOnly(t *testing.T) {
	tests := []struct {
		name    string
		op      string
		durable bool // what the next start finds
	}{
		{"write fails", "writeat", false},
		{"sync fails", "sync", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			failing := false
			s := openTestStore(t, StoreOptions{Dir: dir, FS: vfs.Inject(vfs.OS, func(op vfs.Op) error {
				if failing && op.Name == tt.op {
					return errInjected
				}
				return nil
			})})
			old := mustApply(t, s, Edit{Add: []Meta{placeholder(t, s, Meta{Database: "db", Measurement: "m"})}})[0]
			before := takeSnapshot(s)
			failing = true
			added := placeholder(t, s, Meta{Database: "db", Measurement: "m"})
			_, err := s.Apply(Edit{Add: []Meta{added}, Remove: []uint64{old.ID}}, func() { t.Error("published") })
			if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, errInjected) {
				t.Errorf("error is %v, want ErrOutcomeUnknown with its cause", err)
			}
			failing = false
			if _, err := s.Apply(Edit{Databases: []string{"x"}}, nil); !errors.Is(err, ErrReadOnly) {
				t.Errorf("the next edit's error is %v, want ErrReadOnly", err)
			}
			if !errors.Is(s.ReadOnly(), ErrOutcomeUnknown) {
				t.Errorf("ReadOnly is %v", s.ReadOnly())
			}
			if diff := cmp.Diff(before, takeSnapshot(s)); diff != "" {
				t.Errorf("the live set changed (-before +after):\n%s", diff)
			}
			if got := len(files(t, filepath.Join(dir, "l0"))); got != 2 {
				t.Errorf("l0 has %d files, want both: nothing is deleted", got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTestStore(t, StoreOptions{Dir: dir})
			want := old.ID
			if tt.durable {
				want = added.ID
			}
			if got := slices.Collect(maps.Keys(takeSnapshot(s).Segments)); !slices.Equal(got, []uint64{want}) {
				t.Errorf("after reopening, %v are live, want %d", got, want)
			}
		})
	}
}

func TestAFullDiskIsNoFailedEdit(t *testing.T) {
	full := false
	s := openTestStore(t, StoreOptions{Dir: t.TempDir(), FS: diskFS{vfs.OS, &full}})
	full = true
	if _, err := s.Apply(Edit{Databases: []string{"db"}}, nil); !errors.Is(err, ErrDiskLow) {
		t.Errorf("error is %v, want ErrDiskLow", err)
	}
	full = false
	mustApply(t, s, Edit{Databases: []string{"db"}})
}

// diskFS has no free space while full is set.
type diskFS struct {
	vfs.FS
	full *bool
}

func (d diskFS) FreeBytes(name string) (int64, error) {
	if *d.full {
		return 4096, nil
	}
	return d.FS.FreeBytes(name)
}

func TestReadersSeeNeitherGapNorDuplicateWhileRowsMoveToSegments(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	const rows = 50
	var inMemory atomic.Int64 // pinned and published under the store's lock
	inMemory.Store(rows)
	var writer errgroup.Group
	writer.Go(func() error {
		for range rows {
			m := placeholder(t, s, Meta{Database: "db", Measurement: "m"})
			if _, err := s.Apply(Edit{Add: []Meta{m}}, func() { inMemory.Add(-1) }); err != nil {
				return err
			}
		}
		return nil
	})
	for seen := int64(rows); seen > 0; {
		view := s.Acquire(func() { seen = inMemory.Load() })
		if got := seen + int64(len(view.Segments("db", "m"))); got != rows {
			t.Errorf("a reader sees %d rows, want %d", got, rows)
		}
		view.Release()
	}
	if err := writer.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseRefusesEdits(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	view := s.Acquire(nil)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(Edit{Databases: []string{"db"}}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("error is %v, want ErrClosed", err)
	}
	view.Release()
}
