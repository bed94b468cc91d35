package e2e

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	backups          = 10
	backupWriters    = 4
	batchesPerBackup = 60 // acknowledged between two backups, at least
)

// backupSettings make memtables, files of the log and the tier small, so that all of them come and go in a short test.
func backupSettings() []string {
	return []string{"shards=2", "memtable.max_bytes=256KiB", "memtable.max_rows=300", "wal.file_bytes=64KiB",
		"page_cache.capacity=1MiB", "admission.max_wait=100ms"}
}

// underLoad is a server that clients write to until the test ends them.
type underLoad struct {
	*server
	sent    *history
	stop    atomic.Bool
	writers sync.WaitGroup
}

func startUnderLoad(t *testing.T, dataDir string) *underLoad {
	t.Helper()
	u := &underLoad{server: start(t, dataDir, backupSettings()...), sent: &history{}}
	u.write(t, "kill", "gone v=1i 1")
	u.must(t, http.MethodPost, "/query?db=kill&q="+url.QueryEscape(`DROP MEASUREMENT "gone"`), "", http.StatusOK)
	for range backupWriters {
		u.writers.Go(func() { u.writeUntilStopped(t) })
	}
	t.Cleanup(u.end)
	return u
}

func (u *underLoad) end() {
	u.stop.Store(true)
	u.writers.Wait()
}

// writeUntilStopped sends new batches. One that is refused is not sent again.
func (u *underLoad) writeUntilStopped(t *testing.T) {
	for !u.stop.Load() {
		batch := u.sent.begin()
		got, err := u.send(t.Context(), http.MethodPost, "/write?db=kill", batchLines(batch))
		switch {
		case err == nil && got.status == http.StatusNoContent:
			u.sent.end(batch, acknowledged)
		case err == nil && got.status == http.StatusServiceUnavailable:
			u.sent.end(batch, refused)
			<-time.After(20 * time.Millisecond) // so that few batches are refused
		default:
			t.Errorf("a write was answered %d %s: %v", got.status, got.body, err)
			return
		}
	}
}

// awaitMore waits until so many batches were acknowledged.
func (u *underLoad) awaitMore(t *testing.T, batches int) {
	t.Helper()
	eventually(t, 3*time.Minute, fmt.Sprintf("%d batches are acknowledged", batches), func() bool {
		return u.sent.count(acknowledged) >= batches
	})
}

// outcomesNow is a copy of what is known by now.
func (h *history) outcomesNow() []outcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.outcomes)
}

// around is what a copy must hold that was begun and ended at the times of two outcomes: what was acknowledged before,
// nothing that was refused, and of what came between whole batches.
func around(before, after []outcome) *history {
	expected := &history{outcomes: slices.Clone(after)}
	for batch, later := range after {
		if later == acknowledged && (batch >= len(before) || before[batch] != acknowledged) {
			expected.outcomes[batch] = unanswered
		}
	}
	return expected
}

func lineweirCommand(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	path, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, arguments...)
	cmd.Dir = t.TempDir()
	cmd.Env = foreignEnvironment()
	return cmd
}

// TestBackupsUnderLoad makes backups in a row of a server that is written to, and flushes, merges and trims. Each passes
// the check, and a server that starts from it has what was acknowledged before, nothing twice, nothing refused, nothing
// dropped; and whatever it does leaves the bytes of the original's segments as they were.
func TestBackupsUnderLoad(t *testing.T) {
	outside(t)
	parent := t.TempDir()
	u := startUnderLoad(t, filepath.Join(parent, "data"))
	var dests []string
	var expected []*history
	for n := range backups {
		u.awaitMore(t, (n+1)*batchesPerBackup)
		dest := filepath.Join(parent, fmt.Sprintf("copy%d", n))
		before := u.sent.outcomesNow()
		summary := ends(t, lineweirCommand(t, "backup", u.dataDir, dest), 0)
		dests, expected = append(dests, dest), append(expected, around(before, u.sent.outcomesNow()))
		if n == 0 || n == backups-1 {
			t.Logf("backup %d says:\n%s", n, summary)
		}
	}
	u.end()
	for n, dest := range dests {
		checkBackup(t, u.server, dest, filepath.Join(parent, fmt.Sprintf("names%d", n)), expected[n])
	}
	u.sent.check(t, u.server)
	u.stopAndCheck(t)
}

func (u *underLoad) stopAndCheck(t *testing.T) {
	t.Helper()
	u.server.stop(t)
	ends(t, lineweirCommand(t, "check", u.dataDir), 0)
}

// checkBackup runs a server on a copy. It gives the segments of the copy third names, under which their bytes stay seen.
func checkBackup(t *testing.T, original *server, dest, names string, expected *history) {
	t.Helper()
	ends(t, lineweirCommand(t, "check", dest), 0)
	linked := linkSegments(t, original.dataDir, dest, names)
	before := hashes(t, names)
	s := start(t, dest, append(backupSettings(), "compaction.max_bytes_per_second=1")...)
	if got := s.count(t, "kill", "gone"); got != 0 {
		t.Errorf("%s: %d points that were dropped are there", dest, got)
	}
	stored := expected.check(t, s)
	s.write(t, "kill", "own v=1i 1")
	s.seal(t)
	s.stop(t)
	checkStoredOnce(t, s, stored+1)
	if diff := cmp.Diff(before, hashes(t, names)); diff != "" {
		t.Errorf("%s: running the copy has changed segments (-before +after):\n%s", dest, diff)
	}
	t.Logf("%s: %d points, %d segments, %d of them still the original's too", filepath.Base(dest), stored, len(before), linked)
}

// linkSegments gives the segments of a copy other names, and counts those that are files of the original.
func linkSegments(t *testing.T, original, dest, names string) (shared int) {
	t.Helper()
	for _, path := range (&server{dataDir: dest}).files(t, "l0", "l1") {
		relative, err := filepath.Rel(dest, path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(names, relative)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Link(path, name)); err != nil {
			t.Fatal(err)
		}
		mine, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if theirs, err := os.Stat(filepath.Join(original, relative)); err == nil && os.SameFile(mine, theirs) {
			shared++
		}
	}
	return shared
}

// hashes returns the hash of each file below a directory, which may be missing.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[path] = fmt.Sprintf("%d bytes, %x", len(content), sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A copy that is made with cp, of the log first and then of the rest, is found out: so the test above could fail.
func TestACopyInTheWrongOrderIsRefused(t *testing.T) {
	outside(t)
	parent := t.TempDir()
	u := startUnderLoad(t, filepath.Join(parent, "data"))
	dest := filepath.Join(parent, "copy")
	u.awaitMore(t, batchesPerBackup)
	copyTree(t, filepath.Join(u.dataDir, "wal"), filepath.Join(dest, "wal"))
	u.awaitMore(t, 2*batchesPerBackup)
	u.end()
	u.seal(t)
	u.stopAndCheck(t)
	for _, part := range []string{"manifest", "l0", "l1"} {
		copyTree(t, filepath.Join(u.dataDir, part), filepath.Join(dest, part))
	}
	printed := ends(t, lineweirCommand(t, "check", dest), 1)
	if !strings.Contains(printed, "were durable") {
		t.Errorf("check says:\n%s", printed)
	}
	s := launch(t, anyPort, dest, backupSettings()...)
	if code := s.wait(t, readyLimit); code != 1 {
		t.Errorf("a server that starts from it exited with status %d, want 1", code)
	}
}

// copyTree copies the files below a directory, as they are found, like cp -r does. What is gone by then is left out.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(to, relative), 0o755))
		}
		return copyFound(path, filepath.Join(to, relative))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copyFound(from, to string) error {
	source, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer source.Close()
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	return errors.Join(err, file.Close())
}

// A backup that was killed leaves what every command refuses, and keeps nothing from a server: its log is trimmed and
// its files are deleted as before. The directory of a stopped server is
// copied too.
func TestABackupThatIsKilledAndTheNext(t *testing.T) {
	outside(t)
	parent := t.TempDir()
	u := startUnderLoad(t, filepath.Join(parent, "data"))
	u.awaitMore(t, batchesPerBackup)
	half := filepath.Join(parent, "half")
	for range 5 { // it may be over before it is killed
		if err := os.RemoveAll(half); err != nil {
			t.Fatal(err)
		}
		p := startProcess(t, lineweirCommand(t, "backup", u.dataDir, half))
		eventually(t, readyLimit, "the backup has begun", func() bool {
			_, err := os.Stat(filepath.Join(half, "INCOMPLETE"))
			return err == nil || !p.running()
		})
		p.kill()
		if _, err := os.Stat(filepath.Join(half, "INCOMPLETE")); err == nil {
			printed := ends(t, lineweirCommand(t, "check", half), 1)
			if !strings.Contains(printed, "not finished") {
				t.Errorf("check of what was killed says:\n%s", printed)
			}
			break
		}
	}
	u.end()
	u.seal(t)
	before := u.sent.outcomesNow()
	u.server.stop(t)
	whole := filepath.Join(parent, "whole")
	ends(t, lineweirCommand(t, "backup", u.dataDir, whole), 0)
	ends(t, lineweirCommand(t, "backup", u.dataDir, whole), 1) // it is not empty any more
	s := start(t, whole, backupSettings()...)
	around(before, before).check(t, s)
	s.stop(t)
}
