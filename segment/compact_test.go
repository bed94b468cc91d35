package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lineweir/internal/vfs"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// addL0 does what a flush does: one file per measurement, one edit.
func addL0(t testing.TB, s *Store, measurements map[string][]row) []Meta {
	t.Helper()
	var pending []*PendingFile
	var e Edit
	for _, name := range slices.Sorted(maps.Keys(measurements)) {
		rows := measurements[name]
		info := infoOf(rows)
		info.Measurement = name
		p := s.NewFile(0, info, 0)
		m, err := p.Write(sourceOf(blocksOf(rows, 50)...))
		if err != nil {
			t.Fatal(err)
		}
		pending, e.Add = append(pending, p), append(e.Add, m)
	}
	if err := s.Seal(pending); err != nil {
		t.Fatal(err)
	}
	return mustApply(t, s, e)
}

// readRows reads a measurement as a query does.
func readRows(t testing.TB, s *Store, measurement string) []row {
	t.Helper()
	view := s.Acquire(nil)
	defer view.Release()
	var sources []Source
	for _, sg := range view.Segments("db", measurement) {
		source, err := sg.Scan(AllTime())
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
	}
	return collect(t, Merge(sources))
}

func newTestCompactor(t testing.TB, o CompactorOptions) *Compactor {
	t.Helper()
	c, err := NewCompactor(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// compactAll runs jobs until there are none.
func compactAll(t testing.TB, c *Compactor) {
	t.Helper()
	for {
		did, err := c.CompactOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !did {
			return
		}
	}
}

// series makes rows of one field, a minute apart.
func series(host string, from time.Time, count int, value float64) []row {
	var rows []row
	for i := range count {
		rows = append(rows, row{Key: key("host", host), Time: from.Add(time.Duration(i) * time.Minute).UnixNano(),
			Fields: map[string]cell{"value": float(value)}})
	}
	return rows
}

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func TestCompactionMovesSegmentsToLevel1(t *testing.T) {
	dir := t.TempDir()
	var retired []uint64
	s := openTestStore(t, StoreOptions{Dir: dir, Retired: func(m Meta) { retired = append(retired, m.ID) }})
	var merged int64
	c := newTestCompactor(t, CompactorOptions{Store: s, Progress: func(n int64, _ time.Duration) { merged += n }})

	first := addL0(t, s, map[string][]row{"cpu": series("a", noon, 100, 1), "mem": series("a", noon, 10, 1)})
	second := addL0(t, s, map[string][]row{"cpu": append(series("a", noon, 50, 2), series("b", noon, 5, 2)...)})
	wantCPU, wantMem := readRows(t, s, "cpu"), readRows(t, s, "mem")
	if len(wantCPU) != 105 || wantCPU[0].Fields["value"] != float(2) || wantCPU[50].Fields["value"] != float(1) {
		t.Fatalf("level 0 reads as %d rows from %v on", len(wantCPU), wantCPU[0])
	}
	before := s.L0Bytes()
	compactAll(t, c)

	if diff := gocmp.Diff(wantCPU, readRows(t, s, "cpu")); diff != "" {
		t.Errorf("cpu (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(wantMem, readRows(t, s, "mem")); diff != "" {
		t.Errorf("mem (-want +got):\n%s", diff)
	}
	if s.L0Bytes() != 0 || merged != before {
		t.Errorf("%d bytes are left of %d, and progress told of %d", s.L0Bytes(), before, merged)
	}
	slices.Sort(retired)
	if want := []uint64{first[0].ID, first[1].ID, second[0].ID}; !slices.Equal(retired, want) {
		t.Errorf("retired %v, want %v", retired, want)
	}
	want := []string{"l1/db/cpu/2026-03-14/0000000004.parquet", "l1/db/mem/2026-03-14/0000000005.parquet",
		"manifest/0000000001.manifest"}
	if diff := gocmp.Diff(want, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	got := takeSnapshot(s).Segments[4]
	if got.Rank != second[0].Rank || got.Level != 1 || got.Mixed || got.Rows != 105 {
		t.Errorf("the output is %+v, want the rank of the newest input", got)
	}
	if status := c.Status(); status.Jobs != 2 || status.Merges != 2 || status.BytesRead != before || status.Running {
		t.Errorf("status is %+v", status)
	}
}

func TestCompactionSplitsByDay(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	rows := append(series("a", noon, 2000, 1), series("b", noon.AddDate(0, 0, 1), 3, 1)...)
	addL0(t, s, map[string][]row{"cpu": rows})
	want := readRows(t, s, "cpu")
	compactAll(t, c)
	if diff := gocmp.Diff(want, readRows(t, s, "cpu")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	got := map[string]int64{}
	for _, m := range takeSnapshot(s).Segments {
		got[partitionName(m.Partition)] = m.Rows
		if partitionOf(m.MinTime) != m.Partition || partitionOf(m.MaxTime) != m.Partition {
			t.Errorf("segment %+v leaves its partition", m)
		}
	}
	if want := map[string]int64{"2026-03-14": 720, "2026-03-15": 1283}; !maps.Equal(want, got) {
		t.Errorf("rows per partition are %v, want %v", got, want)
	}
}

func TestCompactionPutsSparsePartitionsIntoOneMixedFile(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, StoreOptions{Dir: dir})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	var rows []row
	for d := range 40 {
		rows = append(rows, series("a", noon.AddDate(0, 0, -d), 1, 1)...)
		if d%2 == 0 && d < 20 {
			rows = append(rows, series("b", noon.AddDate(0, 0, -d), 10, 1)...)
		}
	}
	addL0(t, s, map[string][]row{"cpu": rows})
	want := readRows(t, s, "cpu")
	compactAll(t, c)
	if diff := gocmp.Diff(want, readRows(t, s, "cpu")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	own, mixed := 0, 0
	for _, m := range takeSnapshot(s).Segments {
		if m.Mixed {
			mixed++
			if m.MinTime != noon.AddDate(0, 0, -39).UnixNano() || m.Rows != 25 {
				t.Errorf("the mixed file is %+v", m)
			}
			continue
		}
		own++
	}
	if own != openPartitionsMax-1 || mixed != 1 {
		t.Errorf("there are %d files of one partition and %d mixed ones", own, mixed)
	}
	if _, err := os.Stat(filepath.Join(dir, "l1/db/cpu/mixed")); err != nil {
		t.Error(err)
	}
}

// damage flips a byte in the middle of a segment.
func damage(t *testing.T, s *Store, m Meta) {
	t.Helper()
	path := s.path(&m)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/3] ^= 0xff
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestASegmentThatCannotBeMergedIsPromoted(t *testing.T) {
	var retired []uint64
	s := openTestStore(t, StoreOptions{Dir: t.TempDir(), Retired: func(m Meta) { retired = append(retired, m.ID) }})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	var bad Meta
	for i := range 8 {
		added := addL0(t, s, map[string][]row{"bad": series("a", noon, 10, float64(i)), "good": series("a", noon, 9, 1)})
		if i == 4 {
			bad = added[0]
			damage(t, s, bad)
		}
	}
	var failures []string
	for range 50 {
		did, err := c.CompactOnce(t.Context())
		if err != nil {
			failures = append(failures, err.Error())
		}
		if !did && err == nil && s.L0Bytes() == 0 {
			break
		}
		for _, a := range c.attempts.byMeasurement {
			a.retryAt = time.Time{} // no waiting in tests
		}
	}
	if s.L0Bytes() != 0 {
		t.Fatalf("level 0 still has %d bytes after %v", s.L0Bytes(), failures)
	}
	if len(retired) != 16 {
		t.Errorf("retired %d segments, want all 16: %v", len(retired), retired)
	}
	if len(failures) < promoteAfterFailures {
		t.Errorf("there were %d failures: %v", len(failures), failures)
	}
	for _, failure := range failures {
		if !strings.Contains(failure, s.path(&bad)) {
			t.Errorf("a failure does not name the damaged file: %s", failure)
		}
	}
	snapshot := takeSnapshot(s)
	if got := snapshot.Segments[bad.ID]; !got.Promoted || got.Level != 1 {
		t.Errorf("the damaged segment is %+v, want it promoted", got)
	}
	if got := c.Status(); got.Promoted != 1 || got.Failures != int64(len(failures)) || got.LastError == "" {
		t.Errorf("status is %+v", got)
	}
	if got := len(readRows(t, s, "good")); got != 9 {
		t.Errorf("the other measurement has %d rows, want 9", got)
	}
	if _, err := os.Stat(s.path(&bad)); err != nil {
		t.Errorf("the damaged file: %v", err)
	}
}

func TestAPanicConcernsOneMeasurement(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, StoreOptions{Dir: dir, OpenL0: func(id uint64, r io.ReaderAt, _ int64) io.ReaderAt {
		if id == 1 {
			return panickingReader{}
		}
		return r
	}})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	c.trigger.files = 1 // both are due, and nothing is urgent: one job
	addL0(t, s, map[string][]row{"a": series("a", noon, 10, 1), "b": series("a", noon, 10, 1)})
	did, _, err := c.step(t.Context(), false)
	if !did || err == nil || !strings.Contains(err.Error(), "panic: no reading here") {
		t.Fatalf("got %t, %v, want a job and the panic", did, err)
	}
	if got := takeSnapshot(s).Order; len(got["db/a"]) != 1 || s.Level(0).Segments != 1 || s.Level(1).Segments != 1 {
		t.Errorf("live are %v", got)
	}
	for _, name := range files(t, dir) {
		if isTemporary(name) {
			t.Errorf("%s is left", name)
		}
	}
}

type panickingReader struct{}

func (panickingReader) ReadAt([]byte, int64) (int, error) { panic("no reading here") }

func TestLevel1IsMergedInTiers(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	written := int64(0)
	const flushes = 200
	for i := range flushes {
		addL0(t, s, map[string][]row{"cpu": series(fmt.Sprint(i), noon, 10, float64(i))})
		compactAll(t, c)
	}
	written = c.Status().RowsWritten
	if got := len(readRows(t, s, "cpu")); got != flushes*10 {
		t.Errorf("%d rows, want %d", got, flushes*10)
	}
	if got := s.Level(1).Segments; got > 3*mergeFanIn {
		t.Errorf("level 1 has %d segments after %d flushes", got, flushes)
	}
	if amplification := float64(written) / (flushes * 10); amplification > 5 {
		t.Errorf("each row was written %.1f times", amplification)
	} else {
		t.Logf("each row was written %.1f times; %d segments are left", amplification, s.Level(1).Segments)
	}
}

func TestADamagedFileOfLevel1IsLeftAlone(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	c.bounds.fanIn = 4
	for i := range 5 {
		addL0(t, s, map[string][]row{"cpu": series(fmt.Sprint(i), noon, 10, 1)})
		if _, _, err := c.stepL0(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	view := s.Acquire(nil)
	defer view.Release()
	l1 := view.Segments("db", "cpu")
	damaged := l1[len(l1)-1].Meta()
	damage(t, s, damaged)
	if did, err := c.CompactOnce(t.Context()); did || !isCorruption(err) {
		t.Fatalf("with the damaged file: %t, %v", did, err)
	}
	if did, err := c.CompactOnce(t.Context()); !did || err != nil {
		t.Fatalf("without the damaged file: %t, %v", did, err)
	}
	if got := takeSnapshot(s).Order["db/cpu"]; len(got) != 2 || got[1] != damaged.ID {
		t.Errorf("live are %v, want the damaged %d and one that the others became", got, damaged.ID)
	}
	if did, err := c.CompactOnce(t.Context()); did || err != nil {
		t.Errorf("in the end: %t, %v", did, err)
	}
}

func TestLevel1IsNotMergedOnAFullDisk(t *testing.T) {
	full := false
	s := openTestStore(t, StoreOptions{Dir: t.TempDir(), FS: diskFS{vfs.OS, &full}})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	c.bounds.fanIn = 4
	for i := range 4 {
		addL0(t, s, map[string][]row{"cpu": series(fmt.Sprint(i), noon, 10, 1)})
		if _, _, err := c.stepL0(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	full = true
	if did, err := c.CompactOnce(t.Context()); did || err != nil {
		t.Errorf("on a full disk: %t, %v", did, err)
	}
	full = false
	if did, err := c.CompactOnce(t.Context()); !did || err != nil {
		t.Errorf("with room: %t, %v", did, err)
	}
}

func TestCompactorOptionsValidate(t *testing.T) {
	_, err := NewCompactor(CompactorOptions{TriggerFiles: -1, MaxBytesPerSecond: -1})
	for _, want := range []string{"needs a store", "file trigger", "bytes per second"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not tell of %q", err, want)
		}
	}
}

func TestCompactOnceEndsWithItsContext(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	addL0(t, s, map[string][]row{"cpu": series("a", noon, 10, 1)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if did, err := c.CompactOnce(ctx); did || !errors.Is(err, context.Canceled) {
		t.Errorf("got %t, %v", did, err)
	}
}

// What is due in level 0 goes before a merge of level 1 that is due as well, whatever came first.
func TestLevel1DoesNotStartWhileLevel0IsDue(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s, TriggerFiles: 1})
	flush := func(measurement string, i int) {
		addL0(t, s, map[string][]row{measurement: series(fmt.Sprint(i), noon, 10, float64(i))})
	}
	step := func() {
		if did, _, err := c.step(t.Context(), false); !did || err != nil {
			t.Fatalf("got %t, %v, want a job", did, err)
		}
	}
	for i := range mergeFanIn {
		flush("cpu", i)
		step()
	}
	for i := range 3 { // a merge of level 1 is due from the first of them on
		flush("mem", i)
		step()
		if l0, l1 := s.Level(0).Segments, s.Level(1).Segments; l0 != 0 || l1 != mergeFanIn+i+1 {
			t.Fatalf("%d segments in level 0 and %d in level 1, want none and %d", l0, l1, mergeFanIn+i+1)
		}
	}
	step()
	if got := s.Level(1).Segments; got != 1+3 {
		t.Errorf("%d segments in level 1 once level 0 is empty, want 4", got)
	}
}
