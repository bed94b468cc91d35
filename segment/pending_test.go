package segment

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// newPending makes a written file of ten rows.
func newPending(t testing.TB, s *Store) *PendingFile {
	t.Helper()
	rows := series("a", noon, 10, 1)
	p := s.NewFile(0, infoOf(rows), 0)
	if _, err := p.Write(sourceOf(blockOf(rows))); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAFailedSyncLeavesNothing(t *testing.T) {
	fsys := memory.New()
	s := openTestStore(t, StoreOptions{FS: fsys, Dir: "/data"})
	good := newPending(t, s)
	if err := good.waitSynced(); err != nil {
		t.Fatal(err)
	}
	fsys.FailNextSync()
	bad := newPending(t, s)
	if err := s.Seal([]*PendingFile{good, bad}); err == nil {
		t.Fatal("Seal succeeded")
	}
	abortAll([]*PendingFile{good, bad})
	if entries, err := fsys.ReadDir("/data/l0"); err != nil || len(entries) != 0 {
		t.Errorf("l0 has %v, %v", entries, err)
	}
	if s.ReadOnly() != nil {
		t.Error("the store is read-only")
	}
}

func TestAbortKeepsWhatAnEditHasTakenOver(t *testing.T) {
	tests := []struct {
		name  string
		apply func(s *Store, fsys *memory.FS, m Meta) error
		kept  bool
	}{
		{"live", func(s *Store, _ *memory.FS, m Meta) error {
			_, err := s.Apply(Edit{Add: []Meta{m}}, nil)
			return err
		}, true},
		{"unknown outcome", func(s *Store, fsys *memory.FS, m Meta) error {
			fsys.FailNextSync()
			if _, err := s.Apply(Edit{Add: []Meta{m}}, nil); !errors.Is(err, ErrOutcomeUnknown) {
				return fmt.Errorf("the edit ended with %w", err)
			}
			return nil
		}, true},
		{"refused edit", func(s *Store, _ *memory.FS, m Meta) error {
			if _, err := s.Apply(Edit{Add: []Meta{m}, Remove: []uint64{99}}, nil); !errors.Is(err, ErrNotLive) {
				return fmt.Errorf("the edit ended with %w", err)
			}
			return nil
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := memory.New()
			s := openTestStore(t, StoreOptions{FS: fsys, Dir: "/data"})
			p := newPending(t, s)
			if err := s.Seal([]*PendingFile{p}); err != nil {
				t.Fatal(err)
			}
			if err := tt.apply(s, fsys, p.meta); err != nil {
				t.Fatal(err)
			}
			p.Abort()
			p.Abort()
			if _, err := fsys.Stat(p.Path()); (err == nil) != tt.kept {
				t.Errorf("after Abort: %v, want the file kept: %t", err, tt.kept)
			}
		})
	}
}

// TestSyncsRunSideBySide makes every sync wait until as many run as may.
func TestSyncsRunSideBySide(t *testing.T) {
	var mu sync.Mutex
	running, highest := 0, 0
	enough := make(chan struct{})
	reached := sync.OnceFunc(func() { close(enough) })
	s := openTestStore(t, StoreOptions{Dir: t.TempDir(), FS: vfs.Inject(vfs.OS, func(op vfs.Op) error {
		if !strings.HasSuffix(op.Path, ".parquet.tmp") || op.Name != "sync" && op.Name != "close" {
			return nil
		}
		mu.Lock()
		if op.Name == "close" {
			running--
			mu.Unlock()
			return nil
		}
		running++
		highest = max(highest, running)
		if running == segmentSyncs {
			reached()
		}
		mu.Unlock()
		<-enough
		return nil
	})})
	var pending []*PendingFile
	for range segmentSyncs + 1 {
		pending = append(pending, newPending(t, s))
	}
	if err := s.Seal(pending); err != nil {
		t.Fatal(err)
	}
	if highest != segmentSyncs {
		t.Errorf("%d syncs ran at once, want %d", highest, segmentSyncs)
	}
	for _, p := range pending {
		p.Abort()
	}
}

// TestOrderOfCalls is a transcript of what makes a flush and a job durable, in this order.
func TestOrderOfCalls(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	fsys := vfs.Inject(memory.New(), func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		path := strings.TrimPrefix(op.Path, "/data/")
		switch op.Name {
		case "open":
			if op.Flag&os.O_CREATE == 0 {
				return nil
			}
		case "write", "writeat", "sync", "mkdirall", "syncdir", "remove":
		case "rename":
			path += " to " + strings.TrimPrefix(op.Target, "/data/")
		default:
			return nil
		}
		calls = append(calls, op.Name+" "+path)
		return nil
	})
	s := openTestStore(t, StoreOptions{FS: fsys, Dir: "/data"})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	expect := func(what string, want ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if diff := gocmp.Diff(want, calls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		calls = nil
	}
	expect("the first start",
		"mkdirall manifest", "mkdirall l0", "syncdir manifest",
		"open manifest/0000000001.manifest.tmp", "write manifest/0000000001.manifest.tmp",
		"sync manifest/0000000001.manifest.tmp",
		"rename manifest/0000000001.manifest.tmp to manifest/0000000001.manifest", "syncdir manifest")
	addL0(t, s, map[string][]row{"cpu": series("a", noon, 10, 1)})
	expect("a flush",
		"open l0/0000000001.parquet.tmp", "write l0/0000000001.parquet.tmp", "sync l0/0000000001.parquet.tmp",
		"rename l0/0000000001.parquet.tmp to l0/0000000001.parquet", "syncdir l0",
		"writeat manifest/0000000001.manifest", "sync manifest/0000000001.manifest")
	compactAll(t, c)
	const output = "l1/db/cpu/2026-03-14/0000000002.parquet"
	expect("a job", "mkdirall l1", "mkdirall l1/db", "mkdirall l1/db/cpu", "mkdirall l1/db/cpu/2026-03-14",
		"open "+output+".tmp", "write "+output+".tmp", "sync "+output+".tmp",
		"rename "+output+".tmp to "+output, "syncdir l1/db/cpu/2026-03-14",
		"writeat manifest/0000000001.manifest", "sync manifest/0000000001.manifest",
		"remove l0/0000000001.parquet")
}
