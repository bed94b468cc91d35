package segment

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// oneFile writes a row of fields whose names begin with a prefix.
func oneFile(t *testing.T, pool *WriterPool, level int, prefix string, fields int, values cell) {
	t.Helper()
	r := row{Key: key("tag", "v"), Fields: map[string]cell{}}
	for i := range fields {
		r.Fields[fmt.Sprintf("%s%05d", prefix, i)] = values
	}
	info := infoOf([]row{r})
	info.Level = level
	if _, err := pool.Write(io.Discard, info, sourceOf(blocksOf([]row{r}, 1)...)); err != nil {
		t.Fatal(err)
	}
}

func TestIdleWritersAreBounded(t *testing.T) {
	var pool WriterPool
	expect := func(when string, writers, columns int) {
		t.Helper()
		if len(pool.idle) != writers || pool.columns != columns {
			t.Errorf("%s: %d writers of %d columns, want %d of %d", when, len(pool.idle), pool.columns, writers, columns)
		}
	}
	oneFile(t, &pool, 0, "a", 1, integer(1))
	oneFile(t, &pool, 0, "a", 1, integer(1))
	expect("the same columns", 1, 3)
	oneFile(t, &pool, 1, "a", 1, integer(1))
	expect("the other level", 2, 6)
	oneFile(t, &pool, 0, "a", 1, float(1))
	expect("another kind", 3, 9)
	oneFile(t, &pool, 0, "t", 1, text(strings.Repeat("x", writerBytesMax)))
	expect("a long string", 3, 9)
	for i := range writersKeptMax {
		oneFile(t, &pool, 0, fmt.Sprint("b", i), 1, integer(1))
	}
	expect("many schemas", writersKeptMax, 3*writersKeptMax)
	oneFile(t, &pool, 0, "c", writersColumnsMax/2-2, integer(1))
	oneFile(t, &pool, 0, "d", writersColumnsMax/2-2, integer(1))
	expect("wide schemas", 2, writersColumnsMax)
	oneFile(t, &pool, 0, "e", writersColumnsMax, integer(1))
	expect("one that is too wide", 1, writersColumnsMax+2)
}
