package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
	"lineweir/wal"
)

const damageDir = "/data"

// image is all files of a data directory, by path.
type image map[string]string

func imageOf(t testing.TB, fsys vfs.FS, dir string) image {
	t.Helper()
	files := image{}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.IsDir() {
			maps.Copy(files, imageOf(t, fsys, path))
			continue
		}
		content, err := vfs.ReadFile(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(content)
	}
	return files
}

// disk returns a file system with these files, all durable.
func (i image) disk(t testing.TB) *memory.FS {
	t.Helper()
	fsys := memory.New()
	dirs := map[string]bool{damageDir: true}
	for path := range i {
		dirs[filepath.Dir(path)] = true
	}
	for dir := range dirs {
		if err := fsys.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range i {
		file, err := fsys.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.Write([]byte(content))
		if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for dir := range dirs {
		if err := fsys.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
	}
	return fsys
}

func (i image) with(path, content string) image {
	changed := maps.Clone(i)
	changed[path] = content
	return changed
}

func (i image) without(paths ...string) image {
	changed := maps.Clone(i)
	for _, path := range paths {
		delete(changed, path)
	}
	return changed
}

// matching returns the paths that contain part, ascending.
func (i image) matching(part string) []string {
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(i)) {
		if strings.Contains(path, part) {
			paths = append(paths, path)
		}
	}
	return paths
}

// written is what was written to a point, oldest first.
type written struct {
	measurement string
	sequences   []uint64
	values      []string
}

// place is where a frame lies in the log.
type place struct {
	path       string
	start, end int64 // of its group
}

// history is a data directory with everything in it, and what was written to it.
type history struct {
	image  image
	old    image                   // of the time before the last flush
	points map[string]*written     // by measurement and row key
	places map[uint64]place        // of the frames in the log
	metas  map[string]segment.Meta // of live segments, by path
	floors []uint64
	last   uint64
}

func (h *history) options(fsys vfs.FS) Options {
	o := testOptions(damageDir)
	o.FS = fsys
	o.WAL = WALOptions{FileBytes: 4 << 10, MaxBytes: 1 << 20}
	return o
}

// put writes one point and takes note of it.
func (h *history) put(t testing.TB, e *Engine, measurement, series string, time, value int64) {
	t.Helper()
	p := at(series, time, value)
	p.Measurement = measurement
	mustPut(t, e, p)
	h.last++
	key := measurement + "/" + rowKey(series, time)
	if h.points[key] == nil {
		h.points[key] = &written{measurement: measurement}
	}
	w := h.points[key]
	w.sequences, w.values = append(w.sequences, h.last), append(w.values, fmt.Sprintf("v=%d", value))
}

func (h *history) flush(t testing.TB, e *Engine) {
	t.Helper()
	for _, s := range e.allShards() {
		if err := e.flushAll(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// newHistory makes a directory with files of level 1 and 0, a manifest of a checkpoint and edits, and a log of several
// files whose last frames are in no segment.
func newHistory(t testing.TB) *history {
	t.Helper()
	h := &history{points: map[string]*written{}, places: map[uint64]place{}, metas: map[string]segment.Meta{}}
	disk := memory.New()
	e := start(t, h.options(disk))
	pause(t, e, true)
	for round := range int64(4) {
		for n := range int64(8) {
			h.put(t, e, "m", fmt.Sprint("s", n%4), n, round*100+n)
			h.put(t, e, "n", fmt.Sprint("s", n%4), round*8+n, n)
		}
		h.flush(t, e)
	}
	pause(t, e, false)
	compacted(t, e)
	shutdown(t, e)
	h.old = imageOf(t, disk, damageDir)

	o := h.options(disk)
	e = start(t, o)
	pause(t, e, true)
	for n := range int64(10) {
		h.put(t, e, "m", fmt.Sprint("s", n%4), n, 1000+n)
	}
	h.flush(t, e)
	for n := range int64(40) {
		h.put(t, e, []string{"m", "n"}[n%2], fmt.Sprint("s", n%4), n%12, 2000+n)
	}
	h.floors = e.store.Floors()
	view := e.store.Acquire(nil)
	view.Each(func(s *segment.Segment) { h.metas[pathOf(s.Meta())] = s.Meta() })
	view.Release()
	h.image = imageOf(t, disk.CrashClone(rand.New(rand.NewPCG(1, 1))), damageDir)
	shutdown(t, e)
	for path := range h.image {
		if strings.HasSuffix(path, "spare.wal") || strings.HasSuffix(path, ".tmp") {
			delete(h.image, path)
		}
	}
	manifests := h.image.matching(".manifest") // the removal of an older one need not be durable
	h.image = h.image.without(manifests[:len(manifests)-1]...)
	h.findFrames(t)
	return h
}

func pause(t testing.TB, e *Engine, paused bool) {
	t.Helper()
	if err := e.SetCompaction(nil, &paused); err != nil {
		t.Fatal(err)
	}
}

// compacted waits until no segment is of level 0, as long as it takes.
func compacted(t testing.TB, e *Engine) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(3 * time.Minute); e.store.Level(0).Segments > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d segments are still of level 0", e.store.Level(0).Segments)
		}
	}
}

// pathOf is where the file of a segment lies in tests, by its id.
func pathOf(m segment.Meta) string { return fmt.Sprintf("/%010d.parquet", m.ID) }

// findFrames notes where in the log the group of each frame lies. Each put has a group of its own.
func (h *history) findFrames(t testing.TB) {
	t.Helper()
	err := wal.Dump(h.image.disk(t), damageDir+"/wal", func(file string, offset int64, f wal.Frame) error {
		const header, footer, frameHeader = 48, 8, 16
		h.places[f.Sequence] = place{file, offset - header, offset + frameHeader + int64(len(f.Payload)+7)&^7 + footer}
		return nil
	})
	if err != nil || len(h.places) == 0 || h.places[h.last].path == "" {
		t.Fatalf("found %d frames, and the last of %d at %v: %v", len(h.places), h.last, h.places[h.last], err)
	}
}

// judge compares rows with what was written, where the frames of lost may be missing. It returns what is wrong.
func (h *history) judge(rows map[string]string, lost func(measurement string, sequence uint64) bool) error {
	var problems []error
	for key, w := range h.points {
		newest := len(w.sequences) - 1
		got, there := rows[key]
		if !lost(w.measurement, w.sequences[newest]) && got != w.values[newest] {
			problems = append(problems, fmt.Errorf("%q: got %q, want %q of sequence %d", key, got, w.values[newest],
				w.sequences[newest]))
		}
		if there && !slices.Contains(w.values, got) {
			problems = append(problems, fmt.Errorf("%q: got %q, which nobody wrote", key, got))
		}
	}
	for key := range rows {
		if h.points[key] == nil {
			problems = append(problems, fmt.Errorf("%q: nobody wrote it", key))
		}
	}
	return errors.Join(problems...)
}

func nothingLost(string, uint64) bool { return false }

// read starts an engine and returns all rows.
func (h *history) read(fsys vfs.FS) (rows map[string]string, err error) {
	e, err := Open(h.options(fsys))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Shutdown(context.Background())) }()
	if err := e.Recover(context.Background()); err != nil {
		return nil, err
	}
	rows = map[string]string{}
	for _, m := range []string{"m", "n"} {
		if err := readInto(rows, e, m); err != nil {
			return nil, fmt.Errorf("%w: %w", errScan, err)
		}
	}
	return rows, nil
}

// errScan says that the engine started and that a scan failed.
var errScan = errors.New("scan")

func readInto(rows map[string]string, e *Engine, measurement string) error {
	source, err := e.Scan(context.Background(),
		Query{Database: "db", Measurement: measurement, Selection: everything()})
	if errors.Is(err, ErrDatabaseNotFound) || errors.Is(err, ErrMeasurementNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return eachBlock(source, func(b *segment.Block) error {
		row := 0
		for _, run := range b.Runs {
			for range run.Rows {
				rows[fmt.Sprintf("%s/%s %020d", measurement, run.Key, uint64(b.Times[row])^(1<<63))] = valuesOf(b, row)
				row++
			}
		}
		return nil
	})
}

func (h *history) repair(fsys vfs.FS, accept bool) (report string, err error) {
	var out bytes.Buffer
	o := RepairOptions{FS: fsys, DataDir: damageDir, AcceptLoss: accept, Decode: decodeFrame}
	err = Repair(context.Background(), o, &out)
	return out.String(), err
}

// namesDamage reports that an error is of one of the types for damage, and says where and what to do.
func namesDamage(err error) bool {
	var log *wal.CorruptionError
	var file *segment.CorruptionError
	return errors.As(err, &log) && log.Path != "" && strings.Contains(err.Error(), log.Remedy) ||
		errors.As(err, &file) && file.Path != "" && strings.Contains(err.Error(), "lineweir repair") ||
		errors.Is(err, wal.ErrVersion) || errors.Is(err, segment.ErrManifestVersion)
}
