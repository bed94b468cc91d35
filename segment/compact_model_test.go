package segment

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// points is what a measurement should read as: field values by series and time.
type points map[string]map[int64]map[string]cell

func (p points) write(rows []row) {
	for _, r := range rows {
		if p[r.Key] == nil {
			p[r.Key] = map[int64]map[string]cell{}
		}
		if p[r.Key][r.Time] == nil {
			p[r.Key][r.Time] = map[string]cell{}
		}
		maps.Copy(p[r.Key][r.Time], r.Fields)
	}
}

func (p points) clone() points {
	c := points{}
	c.write(p.rows())
	return c
}

func (p points) rows() []row {
	var rows []row
	for _, key := range slices.Sorted(maps.Keys(p)) {
		for _, at := range slices.Sorted(maps.Keys(p[key])) {
			rows = append(rows, row{Key: key, Time: at, Fields: maps.Clone(p[key][at])})
		}
	}
	return rows
}

// distinct drops all but the last row of each series and time, as a memtable does.
func distinct(rows []row) []row {
	p := points{}
	p.write(rows)
	return p.rows()
}

// TestReadsEqualAMap runs random writes, jobs, promotions and reopenings and compares every read with a map.
func TestReadsEqualAMap(t *testing.T) {
	merges := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		m := &storeModel{t: rt, tb: t, fs: memory.New(), want: map[string]points{"m": {}, "n": {}}}
		m.open()
		defer func() {
			m.close()
			merges += m.merges
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"flush":   m.flush,
			"flush2":  m.flush, // so that level 0 grows longer than a merge takes
			"compact": m.compact,
			"promote": m.promote,
			"reopen":  func(*rapid.T) { m.close(); m.open() },
			"hold":    m.hold,
			"read":    func(*rapid.T) { m.check() },
		})
		m.check()
	})
	t.Logf("%d merges", merges)
	if merges == 0 {
		t.Error("nothing was merged")
	}
}

// storeModel is a store beside the map that it must agree with.
type storeModel struct {
	t         *rapid.T
	tb        testing.TB
	fs        vfs.FS
	store     *Store
	compactor *Compactor
	want      map[string]points
	writes    int64
	held      []heldView
	merges    int64
}

// heldView must go on reading what it read when it was taken.
type heldView struct {
	view *View
	want map[string][]row
}

func (m *storeModel) open() {
	var err error
	if m.store, err = OpenStore(StoreOptions{FS: m.fs, Dir: "/data"}); err != nil {
		m.t.Fatal(err)
	}
	if m.compactor, err = NewCompactor(CompactorOptions{Store: m.store}); err != nil {
		m.t.Fatal(err)
	}
	m.compactor.bounds.fanIn = 2
	m.compactor.bounds.mergeFiles = 3
}

func (m *storeModel) close() {
	for _, h := range m.held {
		h.view.Release()
	}
	m.held = nil
	m.merges += m.compactor.Status().Merges
	if err := m.store.Close(); err != nil {
		m.t.Fatal(err)
	}
}

var randomRow = rapid.Custom(func(t *rapid.T) row {
	r := row{
		Key: key("host", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "host")),
		// More days than a merge opens, so that some go to a mixed file.
		Time:   rapid.Int64Range(-3, 20).Draw(t, "day")*day + rapid.Int64Range(0, 2).Draw(t, "time"),
		Fields: map[string]cell{},
	}
	for _, field := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 1, 3,
		func(s string) string { return s }).Draw(t, "fields") {
		r.Fields[field] = cell{Kind: KindInt}
	}
	return r
})

func (m *storeModel) flush(t *rapid.T) {
	measurements := map[string][]row{}
	for name := range m.want {
		rows := rapid.SliceOfN(randomRow, 0, 20).Draw(t, name)
		for i := range rows {
			for field := range rows[i].Fields {
				m.writes++
				rows[i].Fields[field] = integer(m.writes)
			}
		}
		if rows = distinct(rows); len(rows) > 0 {
			measurements[name] = rows
			m.want[name].write(rows)
		}
	}
	if err := flushRows(m.store, measurements); err != nil {
		t.Fatal(err)
	}
}

// flushRows does what a flush does, errors included.
func flushRows(s *Store, measurements map[string][]row) error {
	var pending []*PendingFile
	defer func() { abortAll(pending) }()
	var e Edit
	for _, name := range slices.Sorted(maps.Keys(measurements)) {
		info := infoOf(measurements[name])
		info.Measurement = name
		p := s.NewFile(0, info, 0)
		pending = append(pending, p)
		meta, err := p.Write(sourceOf(blocksOf(measurements[name], 7)...))
		if err != nil {
			return err
		}
		e.Add = append(e.Add, meta)
	}
	if err := s.Seal(pending); err != nil {
		return err
	}
	_, err := s.Apply(e, nil)
	return err
}

func (m *storeModel) compact(t *rapid.T) {
	if _, err := m.compactor.CompactOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (m *storeModel) promote(t *rapid.T) {
	view := m.store.Acquire(nil)
	defer view.Release()
	list := view.version.lists[measurementKey{"db", "m"}]
	if list == nil || list.l0 == 0 {
		t.Skip("nothing in level 0")
	}
	oldest := list.level0()[list.l0-1]
	if _, err := m.store.Apply(Edit{Promote: []uint64{oldest.meta.ID}}, nil); err != nil {
		t.Fatal(err)
	}
}

func (m *storeModel) hold(t *rapid.T) {
	h := heldView{view: m.store.Acquire(nil), want: map[string][]row{}}
	for name, p := range m.want {
		h.want[name] = p.rows()
	}
	m.held = append(m.held, h)
	if len(m.held) > 2 {
		m.checkView(m.held[0].view, m.held[0].want)
		m.held[0].view.Release()
		m.held = m.held[1:]
	}
}

func (m *storeModel) check() {
	view := m.store.Acquire(nil)
	defer view.Release()
	want := map[string][]row{}
	for name, p := range m.want {
		want[name] = p.rows()
	}
	m.checkView(view, want)
}

func (m *storeModel) checkView(view *View, want map[string][]row) {
	for name := range m.want {
		got, err := scanView(m.tb, view, name)
		if err != nil {
			m.t.Fatal(err)
		}
		if !slices.EqualFunc(want[name], got, row.equal) {
			m.t.Fatalf("%s (-want +got):\n%s", name, gocmp.Diff(want[name], got))
		}
	}
}

func (r row) equal(other row) bool {
	return r.Key == other.Key && r.Time == other.Time && maps.Equal(r.Fields, other.Fields)
}

func scanView(t testing.TB, view *View, measurement string) ([]row, error) {
	var sources []Source
	for _, sg := range view.Segments("db", measurement) {
		source, err := sg.Scan(AllTime())
		if err != nil {
			return nil, errors.Join(err, closeAll(sources))
		}
		sources = append(sources, source)
	}
	return drain(t, Merge(sources))
}

// crashWork is a run of flushes and jobs, with what it has been promised.
type crashWork struct {
	t  *testing.T
	fs *memory.FS

	mu           sync.Mutex
	acknowledged points
	inFlight     []row
}

func (w *crashWork) run(fsys vfs.FS) error {
	s, err := OpenStore(StoreOptions{FS: fsys, Dir: "/data"})
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := NewCompactor(CompactorOptions{Store: s})
	if err != nil {
		return err
	}
	c.bounds.fanIn = 2
	for i := range 6 {
		rows := append(series("a", noon, 5+i, float64(i)), series(fmt.Sprint(i), noon.AddDate(0, 0, i%2), 3, 1)...)
		err = errors.Join(err, w.flush(s, rows))
		if errors.Is(err, ErrOutcomeUnknown) {
			return err
		}
		if i%2 == 1 {
			_, compactErr := c.CompactOnce(w.t.Context())
			err = errors.Join(err, compactErr)
		}
		s.applyMu.Lock()
		s.manifest.rotateBytes = 0 // every edit makes a checkpoint due
		s.applyMu.Unlock()
	}
	return err
}

func (w *crashWork) flush(s *Store, rows []row) error {
	w.mu.Lock()
	w.inFlight = rows
	w.mu.Unlock()
	err := flushRows(s, map[string][]row{"m": rows})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.acknowledged.write(rows)
	}
	if !errors.Is(err, ErrOutcomeUnknown) {
		w.inFlight = nil
	}
	return err
}

// check opens what is left after a crash and requires all that was acknowledged, and what was in flight whole or not
// at all.
func (w *crashWork) check(fsys vfs.FS, acknowledged points, inFlight []row) error {
	s, err := OpenStore(StoreOptions{FS: fsys, Dir: "/data"})
	if err != nil {
		return err
	}
	defer s.Close()
	view := s.Acquire(nil)
	defer view.Release()
	got, err := scanView(w.t, view, "m")
	if err != nil {
		return err
	}
	without := acknowledged.rows()
	diff := gocmp.Diff(without, got)
	if diff == "" {
		return nil
	}
	acknowledged.write(inFlight)
	if gocmp.Equal(acknowledged.rows(), got) {
		return nil
	}
	return fmt.Errorf("rows (-acknowledged +got):\n%s", diff)
}

// TestPowerCuts cuts the power before every call that the work makes, with a few outcomes each of what was not synced.
func TestPowerCuts(t *testing.T) {
	w := &crashWork{t: t, fs: memory.New(), acknowledged: points{}}
	type crash struct {
		op           vfs.Op
		fs           *memory.FS
		acknowledged points
		inFlight     []row
	}
	var crashes []crash
	random := rand.New(rand.NewPCG(1, 2))
	err := w.run(vfs.Inject(w.fs, func(op vfs.Op) error {
		if op.Name == "readat" || op.Name == "close" || op.Name == "stat" {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for range 2 {
			crashes = append(crashes, crash{op, w.fs.CrashClone(random), w.acknowledged.clone(), w.inFlight})
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range crashes {
		if err := w.check(c.fs, c.acknowledged, c.inFlight); err != nil {
			t.Fatalf("power cut %d of %d, before %+v: %v", i, len(crashes), c.op, err)
		}
	}
	t.Logf("%d power cuts", len(crashes))
}

// TestEveryCallFailsOnce fails call 0, 1, 2 … of the work, goes on, cuts the power at the end and looks.
func TestEveryCallFailsOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for n, failed := 0, true; failed; n++ {
		failed = false
		w := &crashWork{t: t, fs: memory.New(), acknowledged: points{}}
		var mu sync.Mutex
		calls := 0
		_ = w.run(failingFS{w.fs, func() bool { // some of it fails, which is the point
			mu.Lock()
			defer mu.Unlock()
			calls++
			failed = failed || calls-1 == n
			return calls-1 == n
		}, n%2 == 0})
		if err := w.check(w.fs.CrashClone(random), w.acknowledged.clone(), w.inFlight); err != nil {
			t.Fatalf("call %d failed, then the power: %v", n, err)
		}
		if err := w.check(w.fs, w.acknowledged.clone(), w.inFlight); err != nil {
			t.Fatalf("call %d failed: %v", n, err)
		}
	}
}

// A failed sync may leave an edit in the page cache only, where the next process reads it and no later sync writes it.
func TestAnEditThatWasOnlyReadIsWrittenAnew(t *testing.T) {
	fsys := memory.New()
	open := func(fsys *memory.FS) *Store { return openTestStore(t, StoreOptions{FS: fsys, Dir: "/data"}) }
	s := open(fsys)
	fsys.FailNextSync()
	if _, err := s.Apply(Edit{Databases: []string{"db"}}, nil); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("error is %v", err)
	}
	seen := open(fsys).Databases() // the process was started again, the machine was not
	if !slices.Equal(seen, []string{"db"}) {
		t.Fatalf("databases are %v: the failed sync left nothing to read", seen)
	}
	random := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		if got := open(fsys.CrashClone(random)).Databases(); !slices.Equal(got, seen) {
			t.Fatalf("after a power cut databases are %v, and they were %v", got, seen)
		}
	}
}
