package shard

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs/memory"
)

func TestDropsReadAsTheyWereWritten(t *testing.T) {
	for _, want := range []drop{
		{databases: []string{"db"}, measurement: "m"},
		{databases: []string{"a", "a/week", "b"}},
		{databases: []string{strings.Repeat("d", 1000)}, measurement: strings.Repeat("m", dropNameBytes)},
	} {
		got, err := parseDrop(appendDrop(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(drop{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDamagedDropsAreRefused(t *testing.T) {
	good := appendDrop(nil, drop{databases: []string{"a", "b"}, measurement: "m"})
	for length := range good {
		if _, err := parseDrop(good[:length]); !errors.Is(err, errDropDamaged) {
			t.Errorf("%d of %d bytes: %v", length, len(good), err)
		}
	}
	for name, payload := range map[string][]byte{
		"version":      append([]byte{2}, good[1:]...),
		"zeros":        append([]byte{1, 0, 1}, good[3:]...),
		"more bytes":   append(good[:len(good):len(good)], 0),
		"no database":  appendDrop(nil, drop{measurement: "m"}),
		"empty name":   appendDrop(nil, drop{databases: []string{""}}),
		"out of order": appendDrop(nil, drop{databases: []string{"b", "a"}}),
		"twice":        appendDrop(nil, drop{databases: []string{"a", "a"}}),
		"long name":    appendDrop(nil, drop{databases: []string{strings.Repeat("d", dropNameBytes+1)}}),
	} {
		if _, err := parseDrop(payload); !errors.Is(err, errDropDamaged) {
			t.Errorf("%s: got %v, want errDropDamaged", name, err)
		}
	}
}

// What is read as a drop is written as it was read, and what claims to be long takes no memory.
func FuzzParseDrop(f *testing.F) {
	f.Add(appendDrop(nil, drop{databases: []string{"db"}, measurement: "m"}))
	f.Add(appendDrop(nil, drop{databases: []string{"a", "a/week"}}))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		d, err := parseDrop(payload)
		if err != nil {
			return
		}
		if got := appendDrop(nil, d); !cmp.Equal(payload, got) {
			t.Errorf("%x is read as %+v and written as %x", payload, d, got)
		}
	})
}

func TestADumpTellsOfDrops(t *testing.T) {
	disk, o := memory.New(), testOptions("data")
	o.FS = disk
	e := start(t, o)
	mustPut(t, e, at("a", 1, 1))
	mustPutIn(t, e, "db/week", at("a", 1, 1))
	mustDrop(t, e, "db", "m")
	mustPut(t, e, at("a", 2, 2))
	mustDropDatabase(t, e, "db")
	var got []string
	err := DumpLog(context.Background(), disk, filepath.Join("data", "wal"),
		func([]byte) error { got = append(got, "write"); return nil },
		func(databases []string, measurement string) error {
			got = append(got, strings.Join(databases, ",")+" "+measurement)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"write", "write", "db,db/week m", "write", "db,db/week "}, got); diff != "" {
		t.Error(diff)
	}
}
