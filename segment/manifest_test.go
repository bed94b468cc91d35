package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
)

// editHistory applies a few edits of every kind and returns, for each, the size of the manifest after it and what the
// store answered then.
func editHistory(t *testing.T, s *Store) (sizes []int64, states []snapshot) {
	t.Helper()
	note := func(e Edit) []Meta {
		added := mustApply(t, s, e)
		sizes = append(sizes, s.manifest.sizeBytes)
		states = append(states, takeSnapshot(s))
		return added
	}
	note(Edit{Shards: 2, Floors: []uint64{0, 0}})
	first := note(Edit{Floors: []uint64{4, 2}, Add: []Meta{
		placeholder(t, s, Meta{Database: "db", Measurement: "cpu", MaxSequence: 4, Columns: cpuColumns}),
		placeholder(t, s, Meta{Database: "db", Measurement: "mem", MaxSequence: 3, Columns: cpuColumns[:1]}),
	}})
	note(Edit{Databases: []string{"other"}})
	note(Edit{Promote: []uint64{first[0].ID}})
	return sizes, states
}

// writeManifest replaces the manifest of a closed store.
func writeManifest(t *testing.T, dir string, number uint64, data []byte) {
	t.Helper()
	manifests := filepath.Join(dir, manifestDirName)
	if err := os.RemoveAll(manifests); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifestPath(manifests, number), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// closedHistory returns the bytes of the manifest that editHistory leaves, in a data directory with its segments.
func closedHistory(t *testing.T) (dir string, data []byte, sizes []int64, states []snapshot) {
	t.Helper()
	dir = t.TempDir()
	s := openTestStore(t, StoreOptions{Dir: dir})
	sizes = []int64{s.manifest.sizeBytes}
	states = []snapshot{takeSnapshot(s)}
	laterSizes, laterStates := editHistory(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(manifestPath(filepath.Join(dir, manifestDirName), 1))
	if err != nil {
		t.Fatal(err)
	}
	return dir, data, append(sizes, laterSizes...), append(states, laterStates...)
}

func TestATornRecordIsDroppedAtEveryLength(t *testing.T) {
	skipUnderRace(t)
	dir, data, sizes, states := closedHistory(t)
	manifests := filepath.Join(dir, manifestDirName)
	for length := sizes[0]; length <= int64(len(data)); length++ {
		writeManifest(t, dir, 1, data[:length])
		r, err := replayManifest(vfs.OS, manifests)
		if err != nil {
			t.Fatalf("cut to %d bytes: %v", length, err)
		}
		edits, _ := slices.BinarySearch(sizes, length+1)
		want := states[edits-1]
		if len(r.catalog.segments) != len(want.Segments) || !slices.Equal(r.catalog.floors, want.Floors) ||
			len(r.catalog.databases) != len(want.Databases) {
			t.Fatalf("cut to %d bytes: it holds %+v, want %+v", length, r.catalog, want)
		}
		if got := r.validBytes + r.tornBytes; r.validBytes != sizes[edits-1] || got != length {
			t.Fatalf("cut to %d bytes: %d valid and %d torn", length, r.validBytes, r.tornBytes)
		}
	}
	for length := int64(0); length < sizes[0]; length++ {
		writeManifest(t, dir, 1, data[:length])
		if _, err := replayManifest(vfs.OS, manifests); !isCorruption(err) {
			t.Fatalf("cut to %d bytes, within the checkpoint: error is %v", length, err)
		}
	}
}

// A crash may also leave a record at its full length with parts that were not written.
func TestATornRecordOfFullLengthIsDropped(t *testing.T) {
	dir, data, sizes, states := closedHistory(t)
	start := sizes[len(sizes)-2]
	for at := start; at < int64(len(data)); at++ {
		torn := slices.Clone(data)
		clear(torn[at:])
		writeManifest(t, dir, 1, torn)
		r, err := replayManifest(vfs.OS, filepath.Join(dir, manifestDirName))
		if err != nil || r.validBytes != start {
			t.Fatalf("zeros from byte %d: %+v, %v", at, r, err)
		}
	}
	s := openTestStore(t, StoreOptions{Dir: dir})
	if diff := cmp.Diff(states[len(states)-2], takeSnapshot(s)); diff != "" {
		t.Errorf("after the torn record (-want +got):\n%s", diff)
	}
	mustApply(t, s, Edit{Databases: []string{"next"}})
	want := takeSnapshot(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, takeSnapshot(openTestStore(t, StoreOptions{Dir: dir}))); diff != "" {
		t.Errorf("an edit after the torn record (-want +got):\n%s", diff)
	}
}

func isCorruption(err error) bool {
	var corruption *CorruptionError
	return errors.As(err, &corruption)
}

func TestEveryFlippedByteBeforeTheLastRecordRefuses(t *testing.T) {
	skipUnderRace(t)
	dir, data, sizes, _ := closedHistory(t)
	last := sizes[len(sizes)-2]
	path := manifestPath(filepath.Join(dir, manifestDirName), 1)
	for at := range last {
		flipped := slices.Clone(data)
		flipped[at] ^= 0x10
		writeManifest(t, dir, 1, flipped)
		_, err := OpenStore(StoreOptions{Dir: dir})
		var corruption *CorruptionError
		if !errors.As(err, &corruption) {
			t.Fatalf("byte %d flipped: error is %v", at, err)
		}
		start := int64(0) // of the header or record that holds the byte
		for _, size := range append([]int64{manifestHeaderBytes}, sizes...) {
			if size <= at {
				start = size
			}
		}
		if corruption.Path != path || corruption.Offset != start {
			t.Fatalf("byte %d flipped: it names %s at %d, want %s at %d", at, corruption.Path, corruption.Offset,
				path, start)
		}
		if !strings.Contains(err.Error(), "backup") {
			t.Fatalf("the error names no remedy: %v", err)
		}
	}
}

// manifestOf builds a manifest from payloads as they stand.
func manifestOf(payloads ...string) []byte {
	data := appendManifestHeader(nil, 1)
	for i, payload := range payloads {
		data = appendRecord(data, uint64(i+1), []byte(payload))
	}
	return data
}

func TestReplayIsStrict(t *testing.T) {
	const opening = `{"checkpoint":{"records":1,"next_id":1,"next_rank":1,"max_sequence":0}}`
	tests := []struct {
		name   string
		data   []byte
		reason string
	}{
		{"unknown key", manifestOf(opening, `{"databases":["a"],"colour":"red"}`), "unknown field"},
		{"two objects", manifestOf(opening, `{"databases":["a"]}{}`), "follows the record"},
		{"no object", manifestOf(opening, `[]`), "cannot unmarshal"},
		{"no checkpoint", manifestOf(`{"databases":["a"]}`), "opens the checkpoint"},
		{"second checkpoint", manifestOf(opening, opening), "opens the checkpoint"},
		{"unfinished checkpoint", manifestOf(strings.Replace(opening, `"records":1`, `"records":2`, 1)), "within its"},
		{"removal of an unknown segment", manifestOf(opening, `{"remove":[4]}`), "not live"},
		{"schema out of range", manifestOf(opening, `{"add":[{"id":1,"schema":0}]}`), "schema 0 of 0"},
		{"negative schema", manifestOf(opening, `{"add":[{"id":1,"schema":-1}]}`), "schema -1"},
		{"repeated record", append(manifestOf(opening, `{}`), appendRecord(nil, 2, []byte(`{}`))...), "record 2 stands"},
		{"another number", append(appendManifestHeader(nil, 7), manifestOf(opening)[24:]...), "manifest 7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeManifest(t, dir, 1, tt.data)
			_, err := OpenStore(StoreOptions{Dir: dir})
			if !isCorruption(err) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("error is %v, want a CorruptionError with %q", err, tt.reason)
			}
		})
	}
}

func TestAnotherVersionIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	header := appendManifestHeader(nil, 1)[:20]
	header[8]++
	writeManifest(t, dir, 1, binary.LittleEndian.AppendUint32(header, manifestChecksum(header)))
	if _, err := OpenStore(StoreOptions{Dir: dir}); !errors.Is(err, ErrManifestVersion) || isCorruption(err) {
		t.Errorf("error is %v, want ErrManifestVersion and no CorruptionError", err)
	}
}

func TestPortionsOf(t *testing.T) {
	tests := []struct {
		name     string
		segments int
		columns  int
		want     []int
	}{
		{"none", 0, 0, nil},
		{"few", 3, 10, []int{3}},
		{"as many as fit", recordSegmentsMax, 1, []int{recordSegmentsMax}},
		{"one more", recordSegmentsMax + 1, 1, []int{recordSegmentsMax, 1}},
		{"many columns", 5, recordColumnsMax / 2, []int{2, 2, 1}},
		{"more columns than fit", 2, recordColumnsMax + 1, []int{1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			metas := slices.Repeat([]*Meta{{Columns: make([]ColumnDef, tt.columns)}}, tt.segments)
			var got []int
			for _, portion := range portionsOf(metas) {
				got = append(got, len(portion))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("portions of %v segments, want %v", got, tt.want)
			}
		})
	}
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"databases":["a"]}`), []byte(`{"shards":1,"floors":[3]}`), 5)
	f.Add([]byte(`{"schemas":[{"tags":["a"]}],"add":[{"id":1,"level":0,"database":"d","measurement":"m","rank":1,`+
		`"bytes":1,"rows":1,"times":[0,0],"sequences":[0,0],"schema":0}]}`), []byte(`{"remove":[1]}`), 0)
	f.Fuzz(func(t *testing.T, first, second []byte, cut int) {
		const opening = `{"checkpoint":{"records":1,"next_id":1,"next_rank":1,"max_sequence":0}}`
		data := manifestOf(opening, string(first), string(second))
		data = data[:len(data)-min(max(cut, 0), len(second))]
		r := &replayed{number: 1, catalog: newCatalog(), unlinked: make(map[uint64]struct{})}
		if err := r.replay(data); err != nil && !isCorruption(err) {
			t.Errorf("error is %v, want a CorruptionError", err)
		}
	})
}

// TestFailingCalls fails file-system call 0, 1, 2 … of a run of edits and checkpoints, reopens, and requires all that
// was acknowledged, and nothing but what was acknowledged or in flight.
func TestFailingCalls(t *testing.T) {
	skipUnderRace(t)
	for _, durable := range []bool{false, true} { // does the failing call take effect all the same?
		t.Run(fmt.Sprintf("durable=%t", durable), func(t *testing.T) {
			for n := 0; ; n++ {
				if !failCall(t, n, durable) {
					t.Logf("the run makes %d calls", n)
					return
				}
			}
		})
	}
}

// failCall runs the workload with call n failing and reports whether the run got that far.
func failCall(t *testing.T, n int, takesEffect bool) bool {
	dir := t.TempDir()
	var acknowledged, attempted []string
	failed := runFailing(t, dir, n, takesEffect, &acknowledged, &attempted)
	s, err := OpenStore(StoreOptions{Dir: dir})
	if err != nil {
		t.Fatalf("call %d failed, then: %v", n, err)
	}
	defer s.Close()
	got := s.Databases()
	for _, name := range acknowledged {
		if !slices.Contains(got, name) {
			t.Fatalf("call %d failed and %q, which was acknowledged, is lost", n, name)
		}
	}
	for _, name := range got {
		if !slices.Contains(attempted, name) {
			t.Fatalf("call %d failed and %q appears out of nowhere", n, name)
		}
	}
	mustApply(t, s, Edit{Databases: []string{"afterwards"}})
	return failed
}

func runFailing(t *testing.T, dir string, n int, takesEffect bool, acknowledged, attempted *[]string) (failed bool) {
	calls := 0
	fails := func() bool {
		calls++
		failed = failed || calls-1 == n
		return calls-1 == n
	}
	s, err := OpenStore(StoreOptions{Dir: dir, FS: failingFS{vfs.OS, fails, takesEffect}})
	if err != nil {
		return failed
	}
	defer s.Close()
	for i := range 8 {
		name := fmt.Sprint("db", i)
		*attempted = append(*attempted, name)
		_, err := s.Apply(Edit{Databases: []string{name}}, nil)
		if err == nil {
			*acknowledged = append(*acknowledged, name)
		}
		if errors.Is(err, ErrReadOnly) && i == 0 {
			t.Errorf("read-only before the first edit: %v", err)
		}
		s.applyMu.Lock()
		s.manifest.rotateBytes = 0 // every edit makes a checkpoint due
		s.applyMu.Unlock()
	}
	return failed
}

// failingFS fails the calls that fails picks, before or after they are made. Only calls that change something count.
type failingFS struct {
	vfs.FS
	fails       func() bool
	takesEffect bool
}

func (f failingFS) call(do func() error) error {
	if !f.fails() {
		return do()
	}
	if f.takesEffect {
		return errors.Join(errInjected, do())
	}
	return errInjected
}

func (f failingFS) OpenFile(name string, flag int, perm os.FileMode) (file vfs.File, err error) {
	if flag&os.O_CREATE == 0 {
		file, err = f.FS.OpenFile(name, flag, perm)
	} else {
		err = f.call(func() (err error) { file, err = f.FS.OpenFile(name, flag, perm); return err })
	}
	if err != nil {
		return nil, err
	}
	return failingFile{file, f}, nil
}

func (f failingFS) Rename(from, to string) error {
	return f.call(func() error { return f.FS.Rename(from, to) })
}
func (f failingFS) Remove(name string) error {
	return f.call(func() error { return f.FS.Remove(name) })
}
func (f failingFS) SyncDir(name string) error {
	return f.call(func() error { return f.FS.SyncDir(name) })
}
func (f failingFS) MkdirAll(name string, perm os.FileMode) error {
	return f.call(func() error { return f.FS.MkdirAll(name, perm) })
}

type failingFile struct {
	vfs.File
	fs failingFS
}

func (f failingFile) Write(p []byte) (n int, err error) {
	err = f.fs.call(func() (err error) { n, err = f.File.Write(p); return err })
	return n, err
}

func (f failingFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.fs.call(func() (err error) { n, err = f.File.WriteAt(p, at); return err })
	return n, err
}

func (f failingFile) Sync() error { return f.fs.call(f.File.Sync) }
func (f failingFile) Truncate(size int64) error {
	return f.fs.call(func() error { return f.File.Truncate(size) })
}
