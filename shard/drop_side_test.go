package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// D1: rows from both sides of a drop are never in one table, in whichever order they are applied; what the older ones
// took is given back.
func TestATableOfDroppedRowsGivesWay(t *testing.T) {
	known := newSchema()
	c, err := NewFlushController(ControllerOptions{
		Memtable: testOptions("").Memtable, Limits: testOptions("").Limits, tombstones: &known.tombstones,
	})
	if err != nil {
		t.Fatal(err)
	}
	insert := func(sequence uint64, points ...testPoint) {
		t.Helper()
		b := newBatch(known, testOptions("").Limits, 1)
		b.reset("db")
		for i := range points {
			mustAppend(b, points[i].point())
		}
		if err := c.InsertWithWALSeq(b, sequence); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want ...string) {
		t.Helper()
		rows := drainSource(t, c.ScanMeasurement("db", "m", everything()))
		got := []string{}
		for n := range int64(10) {
			if row, ok := rows[rowKey("a", n)]; ok {
				got = append(got, row)
			}
		}
		if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
			t.Error(diff)
		}
	}
	insert(1, at("a", 1, 1), named("stays", "a", 1, int64(1)))
	insert(2, at("a", 2, 2))
	read("v=1", "v=2")
	other := c.Fill().active
	known.drop([]segment.Drop{{Database: "db", Measurement: "m", Sequence: 5}})
	read()
	insert(4, at("a", 4, 4)) // was committed before the drop
	read()
	insert(7, named("m", "a", 7, "text"))
	read(`v="text"`)
	insert(3, at("a", 3, 3))
	read(`v="text"`)
	insert(8, named("m", "a", 8, "more"))
	read(`v="text"`, `v="more"`)
	c.purge()
	read(`v="text"`, `v="more"`)
	if got := c.Fill().active; got.rows != 3 || got.tables != 2 || got.memoryBytes > other.memoryBytes+200 {
		t.Errorf("3 rows in 2 tables are counted as %+v", got)
	}
	if diff := cmp.Diff(recounted(c), c.Fill().active, cmp.AllowUnexported(usage{})); diff != "" {
		t.Errorf("what is counted is not what the tables took (-want +got):\n%s", diff)
	}
}

// recounted sums up what the tables of the active memtable have taken.
func recounted(c *FlushController) usage {
	var sum usage
	for _, table := range c.active.tables {
		sum.add(table.used)
	}
	return sum
}

// D2: a read never sees rows from both sides of a drop, also not from different shards. Series are named after the
// drops that came before them, and after each drop fields have another type.
func TestAReadIsOfOneSideOfADrop(t *testing.T) {
	o := testOptions("data")
	o.FS, o.Shards = memory.New(), 8
	e := start(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for range 2 {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := putNamedAfterDrops(e); err != nil && !errors.Is(err, ErrSchemaChanged) {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Go(func() {
		for ctx.Err() == nil {
			if err := e.DropMeasurement(context.Background(), "db", "m"); err != nil && !errors.Is(err, ErrDatabaseNotFound) {
				t.Error(err)
				return
			}
		}
	})
	for ctx.Err() == nil && !t.Failed() {
		source, err := e.Scan(context.Background(), Query{Database: "db", Measurement: "m", Selection: everything()})
		if errors.Is(err, ErrDatabaseNotFound) || errors.Is(err, ErrMeasurementNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		sides := map[string]bool{}
		err = eachBlock(source, func(b *segment.Block) error {
			for _, run := range b.Runs {
				side, _, _ := strings.Cut(string(run.Key), "-")
				sides[side] = true
			}
			return nil
		})
		if err != nil || len(sides) > 1 {
			t.Fatalf("rows of %d sides in one read, error %v", len(sides), err)
		}
	}
}

// putNamedAfterDrops writes a point to each of several series. If it succeeds, all came after as many drops as their
// names tell.
func putNamedAfterDrops(e *Engine) error {
	b := e.NewBatch("db")
	defer b.Release()
	values := []any{int64(1), 1.5, "text", true}
	points := make([]testPoint, 16)
	for i := range points {
		points[i] = named("m", fmt.Sprintf("%d-%d", b.drops, i), 1, values[b.drops%uint64(len(values))])
		if err := b.Append(points[i].point()); err != nil {
			return ErrSchemaChanged // a drop came since the batch was begun
		}
	}
	return e.Write(context.Background(), b, encodeFrame("db", points))
}

// D2: a read that began before a drop, and takes its view after it, begins anew: else it would find the segments of
// before, which an edit has yet to remove, and the rows of after.
func TestAReadThatADropOvertakesBeginsAnew(t *testing.T) {
	o := testOptions("data")
	o.FS = memory.New()
	e := start(t, o)
	for round := range int64(10) {
		mustPut(t, e, at("a", 1, round))
		seal(t, e)
		entered, release := make(chan struct{}), make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() { // keeps readers from their views, and drops from their edits
			publish := func() { close(entered); <-release }
			if _, err := e.store.Apply(segment.Edit{Databases: []string{"other"}}, publish); err != nil {
				t.Error(err)
			}
		})
		<-entered
		reads := make(chan string, 8)
		for range cap(reads) {
			group.Go(func() { reads <- valuesRead(e) })
		}
		drops := e.schema.drops.Load()
		group.Go(func() {
			if err := e.DropMeasurement(context.Background(), "db", "m"); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "the drop is committed", func() bool { return e.schema.drops.Load() > drops })
		mustPut(t, e, named("m", "a", 2, "text"))
		close(release)
		group.Wait()
		for range cap(reads) {
			if got, want := <-reads, `v="text";`; got != want {
				t.Fatalf("round %d: read %q, want %q", round, got, want)
			}
		}
		mustDrop(t, e, "db", "m")
	}
}

// valuesRead returns the values of m, or why they can't be read.
func valuesRead(e *Engine) (values string) {
	source, err := e.Scan(context.Background(), Query{Database: "db", Measurement: "m", Selection: everything()})
	if err == nil {
		err = eachBlock(source, func(b *segment.Block) error {
			for row := range b.Times {
				values += valuesOf(b, row) + ";"
			}
			return nil
		})
	}
	if err != nil {
		return err.Error()
	}
	return values
}

// D3: a flush of later rows settles the drop before it registers them.
func TestALaterFlushWaitsForTheDrop(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	o.FS = disk
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	seal(t, e)
	e.ddl.settleMu.Lock() // as if its edit took long
	dropped := make(chan error, 1)
	go func() { dropped <- e.DropMeasurement(context.Background(), "db", "m") }()
	eventually(t, "the drop is committed", func() bool { return e.schema.drops.Load() == 1 })
	mustPut(t, e, named("m", "a", 2, "text"))
	fence, err := e.ForceSeal(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := fence.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the flush ended with %v while the drop is not in the manifest", err)
	}
	want := map[string]string{rowKey("a", 2): `v="text"`}
	if diff := cmp.Diff(want, rowsOf(t, start(t, crashed(o, disk, 1)), "m")); diff != "" {
		t.Errorf("after a crash:\n%s", diff)
	}
	e.ddl.settleMu.Unlock()
	if err := errors.Join(<-dropped, fence.Wait(context.Background())); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rowsOf(t, e, "m")); diff != "" {
		t.Error(diff)
	}
}
