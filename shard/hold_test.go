package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"lineweir/internal/vfs"
	"lineweir/segment"
)

// panickingFS is a file system on which the Parquet writer panics at the end of every file of some measurements.
type panickingFS struct {
	vfs.FS
	panics *atomic.Int64 // how many are left
	footer []byte        // what only the footers of those files hold
}

// panickingOn makes writing the next files of a measurement panic, as many as panics says.
func panickingOn(fsys vfs.FS, measurement string, panics *atomic.Int64) vfs.FS {
	// The value of a key in Thrift's compact protocol: field 2, a string, its length, its bytes.
	footer := fmt.Appendf(nil, "lineweir.measurement\x18%c%s", rune(len(measurement)), measurement)
	return panickingFS{fsys, panics, footer}
}

func (f panickingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.Contains(name, "/l0/") {
		return file, err
	}
	return panickingFile{file, f}, nil
}

type panickingFile struct {
	vfs.File
	of panickingFS
}

func (f panickingFile) Write(p []byte) (int, error) {
	if bytes.Contains(p, f.of.footer) && f.of.panics.Add(-1) >= 0 {
		panic("no file of this measurement")
	}
	return f.File.Write(p)
}

// always is a number of panics that no test uses up.
const always = 1 << 40

// broken returns options under which no file of the measurement "bad" can be written.
func broken(t *testing.T) (Options, *atomic.Int64) {
	panics := &atomic.Int64{}
	panics.Store(always)
	o := testOptions(t.TempDir())
	o.FS = panickingOn(vfs.OS, "bad", panics)
	return o, panics
}

func of(measurement, series string, time int64) testPoint {
	p := at(series, time, time)
	p.Measurement = measurement
	return p
}

// held returns the rows that are held, of all shards.
func held(e *Engine) (rows int64) {
	for _, s := range e.Status().Shards {
		rows += s.HeldRows()
	}
	return rows
}

// segmentRows counts the rows of all segments at one moment, between two merges.
func segmentRows(e *Engine) (rows int64) {
	view := e.store.Acquire(nil)
	defer view.Release()
	view.Each(func(s *segment.Segment) { rows += s.Meta().Rows })
	return rows
}

func sealAll(t testing.TB, e *Engine) {
	t.Helper()
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := fence.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A measurement whose file can't be written holds up neither the others of its shard, nor the end of the server; its
// rows stay readable, its further points are refused, and a better program finds them all, once.
func TestAMeasurementThatCannotBeWrittenHoldsNobodyUp(t *testing.T) {
	o, panics := broken(t)
	o.Shards = 1
	e := start(t, o)
	mustPut(t, e, of("bad", "a", 1), of("good", "a", 1))
	mustPut(t, e, of("bad", "b", 2))
	for n := range int64(5) { // more than the queue of frozen memtables has places
		mustPut(t, e, of("good", "a", 10+n))
		sealAll(t, e)
	}
	if got := rowsOf(t, e, "good"); len(got) != 6 {
		t.Errorf("good rows: %v", got)
	}
	if got := rowsOf(t, e, "bad"); len(got) != 2 {
		t.Errorf("bad rows: %v", got)
	}
	if got := segmentRows(e); got != 6 {
		t.Errorf("%d rows are in segments, want the 6 good ones", got)
	}
	status := e.Status().Shards[0]
	if len(status.Held) != 1 || status.Held[0].Measurement != "bad" || status.Held[0].Rows != 2 ||
		!strings.Contains(status.Held[0].Cause, "no file of this measurement") || status.Frozen != 0 {
		t.Errorf("the status does not name what is held: %+v", status)
	}
	var refused *PointError
	if err := put(e, "db", of("bad", "a", 3)); !errors.As(err, &refused) {
		t.Errorf("a point of what can't be written: %v, want that it is refused", err)
	}
	if floor, horizon := e.store.Floors()[0], e.store.Horizon(); horizon != 0 || floor < 5 {
		t.Errorf("floor %d, horizon %d: the log of the held rows may be trimmed, or the floor stands", floor, horizon)
	}
	shutdown(t, e)

	panics.Store(0)
	e = start(t, o)
	if got := rowsOf(t, e, "bad"); len(got) != 2 {
		t.Errorf("bad rows after a restart: %v", got)
	}
	if got := e.Status().Recovery; got.RowsReplayed != 2 {
		t.Errorf("%d rows were replayed, want the 2 held ones", got.RowsReplayed)
	}
	mustPut(t, e, of("bad", "a", 3))
	sealAll(t, e)
	if err := checkMeasurementCopies(e, "bad", "good"); err != nil {
		t.Error(err)
	}
	if got := segmentRows(e); got != 9 {
		t.Errorf("%d rows are in segments, want 9", got)
	}
	if holds, horizon := e.store.Holds(0), e.store.Horizon(); len(holds) > 0 || horizon == 0 {
		t.Errorf("holds %v and horizon %d when everything is written", holds, horizon)
	}
}

// checkMeasurementCopies is checkCopies for measurements of these tests.
func checkMeasurementCopies(e *Engine, measurements ...string) error {
	all := faultMeasurements
	faultMeasurements = measurements
	defer func() { faultMeasurements = all }()
	return checkCopies(e)
}

// What is held is written as soon as it can be, at a force-seal, and then taken again.
func TestHeldRowsAreWrittenWhenTheyCanBe(t *testing.T) {
	o, panics := broken(t)
	e := start(t, o)
	for n := range int64(20) {
		mustPut(t, e, of("bad", fmt.Sprint(n), n), of("good", fmt.Sprint(n), n))
	}
	sealAll(t, e)
	if got := held(e); got != 20 {
		t.Fatalf("%d rows are held, want 20", got)
	}
	sealAll(t, e) // tried again, without success
	panics.Store(0)
	sealAll(t, e)
	eventually(t, "nothing is held", func() bool { return held(e) == 0 })
	if err := put(e, "db", of("bad", "a", 3)); err != nil {
		t.Errorf("a point when nothing is held: %v", err)
	}
	if got := segmentRows(e); got != 40 {
		t.Errorf("%d rows are in segments, want 40", got)
	}
	if ledger := e.tier.controller.Ledger(); ledger.ReservedBytes != 0 || ledger.OverReservations != 0 {
		t.Errorf("the ledger after all: %+v", ledger)
	}
}

// A file that the writer panics over once is written plain.
func TestAPanicInTheWriterIsTriedAgainPlain(t *testing.T) {
	o, panics := broken(t)
	panics.Store(1)
	e := start(t, o)
	mustPut(t, e, of("bad", "a", 1), of("bad", "a", 2))
	sealAll(t, e)
	if got := held(e); got != 0 || segmentRows(e) != 2 || panics.Load() >= 0 {
		t.Errorf("%d rows are held after one panic (%d left), want none", got, panics.Load())
	}
	if got := rowsOf(t, e, "bad"); len(got) != 2 {
		t.Errorf("rows: %v", got)
	}
}

// A shard holds no more than its memtables may take. Beyond that its flush fails, and stays named, until the
// measurement is dropped.
func TestWhatIsHeldIsBounded(t *testing.T) {
	panics := &atomic.Int64{}
	panics.Store(always)
	c := newController(t, panickingOn(vfs.OS, "bad", panics), nil)
	sequence, full := uint64(0), c.options.Memtable.MaxBytes
	fill := func() {
		t.Helper()
		for c.Fill().active.bytes() < full*3/4 {
			sequence++
			insert(t, c, sequence, of("bad", fmt.Sprint(sequence), 1))
		}
		freeze(t, c)
	}
	var err error
	for err == nil {
		fill()
		_, err = c.FlushFrozen()
	}
	if failure := (*FlushError)(nil); !errors.As(err, &failure) || !errors.Is(err, ErrUnwritable) ||
		failure.Measurement != "bad" {
		t.Fatalf("a flush when too much is held: %v", err)
	}
	c.mu.Lock()
	bytes := c.heldBytesLocked()
	c.mu.Unlock()
	if most := full * int64(1+c.options.Memtable.FrozenMax); bytes > most || c.HeldCount() < c.options.Memtable.FrozenMax ||
		c.FrozenCount() != 1 {
		t.Errorf("%d bytes are held of at most %d, %d memtables are frozen", bytes, most, c.FrozenCount())
	}
	panics.Store(0)
	if _, err := c.FlushHeldWith(func(_ []FlushResult, release func()) error { release(); return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.FlushFrozen(); err != nil || !c.IsIdle() {
		t.Errorf("when everything can be written: %v; idle: %t", err, c.IsIdle())
	}
}
