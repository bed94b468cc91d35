package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// bubble runs a test with fake time. A channel that was made in a bubble can't be used outside of it, and the codec may
// keep coders of zstd, which have one: once for all, so they are made here before; or in a sync.Pool, which two
// collections empty.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if err := compressOnce(); err != nil {
		t.Fatal(err)
	}
	emptyPools()
	defer emptyPools()
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	synctest.Test(t, test)
}

// Engines come and go, and each leaves many buffers, some in pools that only the second collection empties. So
// collections are rare, and tests call emptyPools now and then.
const gcPercent = 400

func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// compressOnce writes and reads a file of level 1.
var compressOnce = sync.OnceValue(func() error {
	info := segment.FileInfo{Database: "db", Measurement: "m", Level: 1, Tags: []string{"s"},
		Fields: []segment.ColumnDef{{Name: "v", Kind: segment.KindFloat}}}
	b := &segment.Block{Columns: []segment.Column{{Name: "v", Kind: segment.KindFloat}}}
	for n := range int64(1000) {
		b.Times = append(b.Times, n)
		b.Columns[0].Numbers = append(b.Columns[0].Numbers, 0)
	}
	tags := []segment.Tag{{Key: []byte("s"), Value: []byte("a")}}
	b.Runs = []segment.Run{{Key: segment.AppendKey(nil, tags), Rows: 1000}}
	var writers segment.WriterPool
	var out bytes.Buffer
	if _, err := writers.Write(&out, info, &oneBlock{b}); err != nil {
		return err
	}
	file, err := segment.OpenFile("memory", bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		return err
	}
	_, err = file.Verify(1)
	return err
})

type oneBlock struct{ block *segment.Block }

func (s *oneBlock) Close() error { return nil }

func (s *oneBlock) Next() (*segment.Block, error) {
	b := s.block
	if s.block = nil; b == nil {
		return nil, io.EOF
	}
	return b, nil
}

// faultOptions are those of a small engine with small files.
func faultOptions(fs vfs.FS) Options {
	o := testOptions(faultDir)
	o.FS = fs
	o.Shards = 3
	o.Memtable.MaxRows = 24
	o.Memtable.MaxBytes = 32 << 10
	o.Tier.CapacityBytes = 1 << 20
	o.Tier.PageBytes = 4 << 10
	o.WAL = WALOptions{FileBytes: 4 << 10, MaxBytes: 64 << 10}
	return o
}

// work is a server's life on a disk that may fail, several times over: it is opened, used, closed or killed.
type work struct {
	disk    *memory.FS
	decide  func(vfs.Op) fate
	wrap    func(vfs.FS) vfs.FS // nil: nothing
	record  *record
	alive   *atomic.Bool // false: the process of this life was killed
	errs    []error      // what a caller was told, for no fault of his own
	broken  []error      // what must not happen whatever the disk does
	calm    bool         // at most one thing goes wrong, so nothing may stand still either
	cut     *powerCut    // how the power went in this life; the next one begins with what it left
	merged  bool         // files of level 1 were merged
	expired bool         // and removed for their age
}

// run lives four lives, on a goroutine of its own: what calls run is not part of the stacks that tell sites apart.
func (w *work) run() {
	var group sync.WaitGroup
	group.Go(func() {
		w.life(3, w.first)
		w.life(3, w.second)
		w.life(2, w.third)
		w.life(2, w.fourth)
	})
	group.Wait()
}

func (w *work) note(err error) {
	if err != nil {
		w.errs = append(w.errs, err)
	}
}

// life opens the engine, uses it and closes it. Opening is tried again, as a supervisor does.
func (w *work) life(shards int, use func(*Engine)) {
	for range 3 {
		alive := &atomic.Bool{}
		alive.Store(true)
		w.alive = alive
		o := faultOptions(newFaultDisk(w.disk, func(op vfs.Op) fate {
			if !alive.Load() {
				return dead
			}
			return w.decide(op)
		}))
		if w.wrap != nil {
			o.FS = w.wrap(o.FS)
		}
		o.Shards = shards
		gate := &refusingGate{}
		gate.open.Store(true)
		o.Gate = gate
		e, err := Open(o)
		if err != nil {
			w.note(err)
			w.lose()
			continue
		}
		gate.controller.Store(e.tier.controller)
		if err = e.Recover(context.Background()); err == nil {
			synctest.Wait()
			w.look(e)
			use(e)
		}
		w.note(errors.Join(err, w.close(e)))
		w.lose()
		if err == nil {
			return
		}
	}
	w.stands("the engine could not be opened three times in a row: %w", errors.Join(w.errs...))
}

func (w *work) breaks(format string, args ...any) {
	if !w.alive.Load() {
		return // whatever a killed process makes of it
	}
	w.broken = append(w.broken, fmt.Errorf(format, args...))
}

// stands is breaks for what ends by itself if nothing else goes wrong.
func (w *work) stands(format string, args ...any) {
	if w.calm {
		w.breaks(format, args...)
	}
}

// look compares what is there after the start with what the writers were told. A read may fail; if it does not, it must
// be right.
func (w *work) look(e *Engine) {
	rows, err := readEngine(e)
	if err != nil {
		w.note(err)
		return
	}
	if err := errors.Join(w.record.resolve(rows), checkFloors(e)); err != nil {
		w.breaks("after a start: %w", err)
	}
}

func (w *work) close(e *Engine) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := e.Shutdown(ctx)
	if !w.alive.Load() {
		return nil
	}
	return err
}

// lose gives the next life what a power cut in this one has left.
func (w *work) lose() {
	if w.cut != nil {
		w.disk, w.record, w.cut = w.cut.disk, w.cut.record, nil
	}
}

// kill ends the process as kill -9 does. What Shutdown tries afterwards has no effect.
func (w *work) kill() { w.alive.Store(false) }

const day = int64(24 * time.Hour)

// first writes, is refused, seals, flushes and compacts.
func (w *work) first(e *Engine) {
	for n := range int64(6) {
		w.put(e, "m", fmt.Sprintf("s%d", n%4), (n%3)*day, (n%2)*day+n, 5)
	}
	w.refusedForGood(e)
	w.seal(e)
	w.burst(e)
	w.put(e, "m", "s1", 0, day, 7)
	w.seal(e)
	w.put(e, "o", "s1", 0, 1)
	w.refusedByTheGate(e)
	w.compact(e)
	w.expire(e)
	for n := range int64(8) { // as many files of a day as a merge within level 1 takes
		w.note(w.record.put(e, w.record.point("n", "s1", n%3), w.record.point("n", "s1", n)))
		w.seal(e)
		w.compact(e)
	}
	w.put(e, "o", "s2", 1, day)
	w.put(e, "m", "s3", 0, 2*day)
}

// second finds everything flushed, and is killed.
func (w *work) second(e *Engine) {
	for n := range int64(5) {
		w.put(e, "m", fmt.Sprintf("s%d", n%4), (n%3)*day, n)
	}
	w.put(e, "o", "s1", 3)
	w.seal(e)
	w.put(e, "o", "s2", 4)
	w.drop(e, "o")
	w.put(e, "o", "s1", 0, 5)
	for n := range int64(12) {
		w.put(e, "m", fmt.Sprintf("s%d", n%5), n*day, n)
	}
	w.kill()
}

// third replays, changes the number of shards, and is killed.
func (w *work) third(e *Engine) {
	w.burst(e)
	w.put(e, "n", "s2", 1, 2, 3)
	w.compact(e)
	w.put(e, "n", "s1", 1, 2, 3)
	w.put(e, "o", "s1", 0, 6)
	w.drop(e, "o")
	w.kill()
}

// fourth replays, and is closed.
func (w *work) fourth(e *Engine) {
	w.put(e, "m", "s1", 0, day)
	w.put(e, "o", "s2", 0, 7)
	w.put(e, expiring, "s1", 20*day)
	w.seal(e)
	w.compact(e)
	w.expireNow(e)
}

// put writes one point at each time, and one of a second series, which may be of another shard.
func (w *work) put(e *Engine, measurement, series string, times ...int64) {
	if !w.alive.Load() {
		return
	}
	var points []testPoint
	for i, t := range times {
		points = append(points, w.record.point(measurement, series, t))
		if i == 0 {
			points = append(points, w.record.point(measurement, "shared", t))
		}
	}
	failed := e.FailedReadOnly()
	err := w.record.put(e, points...)
	if err == nil && failed != nil {
		w.breaks("a write was acknowledged after: %w", failed)
	}
	w.note(err)
	synctest.Wait() // so that what follows does not depend on who is faster
}

// drop drops a measurement.
func (w *work) drop(e *Engine, measurement string) {
	if !w.alive.Load() {
		return
	}
	w.note(w.record.drop(e, measurement))
	synctest.Wait()
}

// expire brings points to level 1, sets a retention that is too short for some of them, and has those removed.
func (w *work) expire(e *Engine) {
	if !w.alive.Load() {
		return
	}
	w.put(e, expiring, "s1", 0, 1, day)
	w.put(e, expiring, "s2", day)
	w.seal(e)
	w.compact(e)
	w.note(e.AlterRetention(context.Background(), databaseOf(expiring), expiringKept))
	w.expireNow(e)
}

func (w *work) expireNow(e *Engine) {
	before := e.store.Level(1).Segments
	e.refreshRetention()
	e.expire()
	w.expired = w.expired || e.store.Level(1).Segments < before
}

// burst writes side by side, so that groups of the log have several frames.
func (w *work) burst(e *Engine) {
	if !w.alive.Load() {
		return
	}
	var group sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		series := fmt.Sprintf("b%d", i)
		group.Go(func() {
			for n := range int64(2) {
				errs[i] = errors.Join(errs[i], w.record.put(e,
					w.record.point("m", series, n), w.record.point("m", series+"'", n)))
			}
		})
	}
	group.Wait()
	w.note(errors.Join(errs...))
}

// refusedForGood sends what can never be taken: a batch larger than a memtable, and a field of another type.
func (w *work) refusedForGood(e *Engine) {
	var many []testPoint
	for n := range int64(40) {
		many = append(many, w.record.point("m", "s1", 100+n))
	}
	if w.record.put(e, many...) == nil {
		w.breaks("a batch that no memtable holds was taken")
	}
	other := w.record.point("m", "s1", 100)
	other.Fields = map[string]any{"v": "text", "w": "text"}
	if w.record.put(e, w.record.point("m", "s2", 100), other) == nil {
		w.breaks("a field of another type was taken")
	}
}

// refusedByTheGate fills a shard while no seal may be had.
func (w *work) refusedByTheGate(e *Engine) {
	gate := e.tier.gate.(*refusingGate)
	gate.open.Store(false)
	taken := 0
	for taken < 30 && w.record.put(e, w.record.point("m", "full", int64(taken))) == nil {
		taken++
	}
	if taken == 30 {
		w.breaks("a shut gate refused nothing")
	}
	gate.open.Store(true)
	e.kick()
}

func (w *work) seal(e *Engine) {
	if !w.alive.Load() {
		return
	}
	fence, err := e.ForceSeal(context.Background())
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = fence.Wait(ctx)
	}
	w.note(err)
	synctest.Wait()
	if errors.Is(err, context.DeadlineExceeded) && e.FailedReadOnly() == nil {
		w.stands("a flush did not come to its end: %+v", e.Status().Shards)
	}
}

func (w *work) compact(e *Engine) {
	if !w.alive.Load() {
		return
	}
	before := e.store.Level(1).Segments
	if !compactAll(e) && e.FailedReadOnly() == nil {
		w.stands("compaction did not come to its end: %+v", e.Status().Drain)
	}
	w.merged = w.merged || e.store.Level(1).Segments < before
}

// compactAll pokes until level 0 is empty and level 1 is at rest. Bubbles only.
func compactAll(e *Engine) bool {
	for range 100 {
		e.tier.compactor.Poke()
		synctest.Wait()
		if e.store.Level(0).Segments == 0 {
			return true
		}
		if e.FailedReadOnly() != nil {
			return false
		}
		time.Sleep(flushRetryMin)
	}
	return false
}
