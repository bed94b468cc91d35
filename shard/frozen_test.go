package shard

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"lineweir/internal/vfs"
)

// lateInsert lets a caller break the rules: it gives up the room for the row of sequence 2, so that the flush does not
// wait for it, and inserts it after the flush. It returns what that says, and how many rows are in segments and in memory.
func lateInsert(t *testing.T, guarded bool) (inSegments, inMemory int, err error) {
	t.Helper()
	c := newController(t, vfs.OS, nil)
	insert(t, c, 1, at("a", 1, 1))
	b := batchOf(t, at("a", 2, 2))
	m := c.reserve(b.needs[0], 2)
	c.cancel(m, b.needs[0])
	freeze(t, c)
	results, err := c.FlushFrozen()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		inSegments += int(r.Rows)
	}
	if !guarded {
		m.flushed = make(chan struct{})
	}
	m.applies.Add(1)
	err = c.apply(m, b, b.needs[0], 2)
	if floor := c.MinUnflushedWALSeq(); floor != 0 {
		t.Errorf("sequence %d is unflushed: the floor would not pass the late row", floor)
	}
	return inSegments, len(controllerRows(t, c)), err
}

// A row that comes to a memtable after its flush would be in no segment, in no memtable and below the floor. ErrFrozen
// keeps it from being acknowledged; without the guard the insert succeeds, and the row is lost.
func TestInsertAfterTheFlushIsRefused(t *testing.T) {
	inSegments, inMemory, err := lateInsert(t, true)
	if !errors.Is(err, ErrFrozen) || inSegments != 1 || inMemory != 0 {
		t.Errorf("got %v, %d rows in segments and %d in memory, want ErrFrozen, 1 and 0", err, inSegments, inMemory)
	}
	inSegments, inMemory, err = lateInsert(t, false)
	if err != nil || inSegments+inMemory != 1 {
		t.Errorf("without the guard: %v, %d rows in segments and %d in memory; want that the second row is lost without a "+
			"word", err, inSegments, inMemory)
	}
}

// The engine acknowledges no write that meets a flushed memtable: it panics, which ends the process.
func TestAWriteThatMeetsAFlushedMemtableIsNotAcknowledged(t *testing.T) {
	e := start(t, testOptions(t.TempDir()))
	mustPut(t, e, at("a", 0, 0)) // a memtable without rows is not sealed
	b := e.NewBatch("db")
	p := at("a", 1, 1)
	if err := b.Append(p.point()); err != nil {
		t.Fatal(err)
	}
	w := newWrite(b, encodeFrame("db", []testPoint{p}))
	if waits, err := e.commitOrQueue(w); waits || err != nil {
		t.Fatalf("commit: waits %t, %v", waits, err)
	}
	if err := w.ticket.Wait(); err != nil {
		t.Fatal(err)
	}
	part := &w.parts[0]
	e.allShards()[part.shard].cancel(part.memtable, part.need) // so that the flush does not wait for the write
	sealAll(t, e)
	part.memtable.applies.Add(1)
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, ErrFrozen.Error()) {
			t.Errorf("the write ended with %q, want a panic that names ErrFrozen", p)
		}
	}()
	e.apply(w)
}
