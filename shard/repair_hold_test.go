package shard

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lineweir/internal/vfs"
)

// What is held is no damage, and a scan without a server reads it.
func TestWhatIsHeldIsSeenWithoutAServer(t *testing.T) {
	o, _ := broken(t)
	holdBeside(t, o)
	if err := Check(vfs.OS, o.DataDir, io.Discard); err != nil {
		t.Errorf("check: %v", err)
	}
	e, err := OpenOffline(t.Context(), OfflineOptions{FS: vfs.OS, DataDir: o.DataDir, Decode: o.Decode})
	if err != nil {
		t.Fatal(err)
	}
	if bad, good := rowsOf(t, e, "bad"), rowsOf(t, e, "good"); len(bad) != 20 || len(good) != 25 {
		t.Errorf("%d held rows and %d others are read, want 20 and 25", len(bad), len(good))
	}
	if err := e.CloseOffline(); err != nil {
		t.Error(err)
	}
}

// holdBeside leaves a closed directory in which one of two shards holds 20 rows of "bad", and 25 rows of "good" are in
// segments. Edits of the other shard have the floors of both.
func holdBeside(t *testing.T, o Options) {
	t.Helper()
	e := start(t, o)
	for n := range int64(20) {
		mustPut(t, e, of("bad", "a", n), of("good", fmt.Sprint(n), n))
	}
	sealAll(t, e)
	if held(e) != 20 {
		t.Fatalf("%d rows are held, want 20", held(e))
	}
	for n := range int64(5) {
		mustPut(t, e, of("good", fmt.Sprint(n), 100+n))
		sealAll(t, e)
	}
	shutdown(t, e)
}

// spoilManifests does something to each manifest of a directory.
func spoilManifests(t *testing.T, dataDir string, spoil func(*testing.T, string, []byte)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dataDir, "manifest", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, path, data)
	}
}

// A repair that puts the manifest together anew doesn't know of holds in records that can't be read. What was held is
// in the log, and is there afterwards.
func TestARepairKeepsWhatIsHeld(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, path string, data []byte)
	}{
		{"a whole manifest", func(*testing.T, string, []byte) {}},
		{"no record of the holds can be read", flipEach(`"held":[{`)},
		{"no record of floors can be read", flipEach(`"floors":[`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, panics := broken(t)
			holdBeside(t, o)
			spoilManifests(t, o.DataDir, test.spoil)
			var report strings.Builder
			repair := RepairOptions{FS: vfs.OS, DataDir: o.DataDir, AcceptLoss: true, Decode: o.Decode}
			if err := Repair(t.Context(), repair, &report); err != nil {
				t.Fatalf("%v\n%s", err, report.String())
			}
			panics.Store(0)
			e := start(t, o)
			if bad, good := rowsOf(t, e, "bad"), rowsOf(t, e, "good"); len(bad) != 20 || len(good) != 25 {
				t.Errorf("%d held rows and %d others are there, want 20 and 25; the repair said:\n%s",
					len(bad), len(good), report.String())
			}
		})
	}
}

// The proof that the test above can fail: a repair that leaves the floors as they are recorded loses the held rows, and
// no others.
func TestARepairNeedsLowerFloors(t *testing.T) {
	o, panics := broken(t)
	holdBeside(t, o)
	spoilManifests(t, o.DataDir, flipEach(`"held":[{`))
	r := &repair{options: RepairOptions{FS: vfs.OS, DataDir: o.DataDir, AcceptLoss: true, Decode: o.Decode}}
	if _, err := r.planFiles(); err != nil {
		t.Fatal(err)
	}
	if err := r.execute(""); err != nil {
		t.Fatal(err)
	}
	panics.Store(0)
	e := start(t, o)
	bad, good := rowsOf(t, e, "bad"), rowsOf(t, e, "good")
	if len(bad) == 20 || len(good) != 25 {
		t.Errorf("%d held rows and %d others are there, want less than 20, and 25", len(bad), len(good))
	}
	t.Logf("%d of 20 held rows are there", len(bad))
}

// flipEach damages each record that holds the text.
func flipEach(text string) func(*testing.T, string, []byte) {
	return func(t *testing.T, path string, data []byte) {
		t.Helper()
		for at := 0; ; {
			next := bytes.Index(data[at:], []byte(text))
			if next < 0 {
				break
			}
			at += next + 1
			data[at] ^= 0x40
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
