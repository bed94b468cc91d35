package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs/memory"
)

// verify starts the engine three times on what a crash or a failure has left, and compares it with what the writers
// were told. It goes on writing, too. Bubbles only.
func verify(disk *memory.FS, r *record, shards int) error {
	v := verifier{disk, r, shards}
	if err := v.start(v.afterTheFault); err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	if err := v.start(v.afterACleanStop); err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	before, err := namesBelow(disk, faultDir)
	if err != nil {
		return err
	}
	if err := v.start(v.look); err != nil {
		return fmt.Errorf("third start: %w", err)
	}
	after, err := namesBelow(disk, faultDir)
	if diff := cmp.Diff(before, after); err == nil && diff != "" { // I14
		err = fmt.Errorf("starting and stopping changes files (-before +after):\n%s", diff)
	}
	return err
}

type verifier struct {
	disk   *memory.FS
	record *record
	shards int
}

// start starts the engine, lets it be looked at, and stops it.
func (v *verifier) start(look func(*Engine) error) (err error) {
	o := faultOptions(v.disk)
	o.Shards = v.shards
	e, err := Open(o)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = errors.Join(err, e.Shutdown(ctx))
	}()
	if err := e.Recover(context.Background()); err != nil {
		return err
	}
	return look(e)
}

// look compares all that can be read.
func (v *verifier) look(e *Engine) error {
	rows, err := readEngine(e)
	if err != nil {
		return err
	}
	if err := v.record.resolve(rows); err != nil {
		return err
	}
	return errors.Join(checkCopies(e), checkFloors(e))
}

func (v *verifier) afterTheFault(e *Engine) error {
	if err := v.look(e); err != nil {
		return err
	}
	return v.record.put(e, v.record.point("m", "s1", 0), v.record.point("m", "s2", 0))
}

// afterACleanStop finds nothing to replay (I14), writes, flushes and compacts.
func (v *verifier) afterACleanStop(e *Engine) error {
	if got := e.Status().Recovery; got.FramesReplayed != 0 || got.RowsReplayed != 0 {
		return fmt.Errorf("after a clean stop %d frames with %d rows were replayed", got.FramesReplayed, got.RowsReplayed)
	}
	if err := v.look(e); err != nil {
		return err
	}
	if err := v.record.put(e, v.record.point("m", "s1", day), v.record.point("n", "s2", 1)); err != nil {
		return err
	}
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		return err
	}
	if err := fence.Wait(context.Background()); err != nil {
		return err
	}
	if !compactAll(e) {
		return fmt.Errorf("level 0 is not compacted: %+v", e.Status().Drain)
	}
	return nil // the third start looks at it
}

// counted are the files whose names count up.
var counted = regexp.MustCompile(`[0-9]+(\.manifest|\.wal)$`)

// namesBelow lists all files below a directory.
func namesBelow(disk *memory.FS, dir string) (names []string, err error) {
	entries, err := disk.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		name := filepath.ToSlash(filepath.Join(dir, entry.Name()))
		if !entry.IsDir() {
			names = append(names, counted.ReplaceAllString(name, "N$1"))
			continue
		}
		below, err := namesBelow(disk, name)
		if err != nil {
			return nil, err
		}
		names = append(names, below...)
	}
	return names, err
}

// What follows shows that the checks find what they are for.

func TestChecksFindWhatIsWrong(t *testing.T) {
	o := testOptions(t.TempDir())
	e := start(t, o)
	r := &record{}
	if err := r.put(e, r.point("m", "s1", 1), r.point("m", "s2", 2)); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		rows, err := readEngine(e)
		return errors.Join(err, r.copy().resolve(rows), checkCopies(e), checkFloors(e))
	}
	if err := check(); err != nil {
		t.Fatalf("the checks complain about a good engine: %v", err)
	}
	good := r.copy()
	for name, change := range map[string]func(){
		"acknowledged and missing": func() {
			r.requests = append(r.requests, request{points: []testPoint{r.point("m", "s1", 3)}, outcome: acknowledged})
		},
		"refused and present": func() { r.requests[0].outcome = refused },
		"half of a request": func() {
			r.requests[0].points = append(slices.Clone(r.requests[0].points), r.point("m", "s1", 4))
			r.requests[0].outcome = unknown
		},
		"an older value": func() {
			r.requests = append(r.requests, request{points: []testPoint{r.point("m", "s1", 1)}, outcome: acknowledged})
		},
	} {
		r = good.copy()
		change()
		if check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
	r = good.copy()
	seal(t, e)
	if err := check(); err != nil {
		t.Fatal(err)
	}
	if invariants {
		return // the engine itself would find what follows, and end the process
	}
	again := e.NewBatch("db")
	defer again.Release()
	for i := range r.requests[0].points {
		if err := again.Append(r.requests[0].points[i].point()); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range e.allShards() {
		if again.needs[s.shard].rows == 0 {
			continue
		}
		if err := s.InsertWithWALSeq(again, e.log.LastSequence()); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkCopies(e); err == nil {
		t.Error("stored in a segment and in a memtable: not found")
	}
	if err := checkFloors(e); err == nil {
		t.Error("a floor at what is not flushed: not found")
	}
}
