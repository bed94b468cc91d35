package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// faulty is a server whose data directory lies on a file system that passes requests on, and can fail them.
type faulty struct {
	disk     *helper
	dataDir  string
	settings []string
	sent     history
}

func newFaulty(t *testing.T, settings []string) *faulty {
	t.Helper()
	outside(t)
	require(t, "fuse", canServeFUSE())
	mount, under := filepath.Join(t.TempDir(), "fuse"), filepath.Join(t.TempDir(), "under")
	for _, directory := range []string{mount, under} {
		if err := os.Mkdir(directory, mountPointMode); err != nil {
			t.Fatal(err)
		}
	}
	f := &faulty{disk: startHelper(t, "disk"), settings: settings}
	_, err := f.disk.try(t, diskCommand{Operation: "mount", Mount: mount, Under: under})
	require(t, "fuse", err)
	f.dataDir = filepath.Join(f.disk.within(mount), "data")
	return f
}

func (f *faulty) start(t *testing.T, binary string) *server {
	t.Helper()
	s := launchBinary(t, binary, anyPort, f.dataDir, f.settings...)
	s.awaitReady(t)
	return s
}

func (f *faulty) fail(t *testing.T, next fault) {
	t.Helper()
	f.disk.do(t, diskCommand{Operation: "fail", Fault: next})
}

// healed takes the fault away and returns how many it injected, by kind. None is a mistake of the test.
func (f *faulty) healed(t *testing.T) map[string]int {
	t.Helper()
	f.fail(t, fault{})
	injected := f.disk.do(t, diskCommand{Operation: "look"}).State.Injected
	if len(injected) == 0 {
		t.Error("no fault was injected")
	}
	return injected
}

// write sends a new batch and notes what became of it.
func (f *faulty) write(t *testing.T, s *server) answer {
	t.Helper()
	got, err := f.writeWithin(t.Context(), s)
	if err != nil {
		t.Error(err)
	}
	return got
}

// writeWithin is write until ctx ends.
func (f *faulty) writeWithin(ctx context.Context, s *server) (answer, error) {
	batch := f.sent.begin()
	got, err := s.send(ctx, http.MethodPost, "/write?db=kill", batchLines(batch))
	switch {
	case err != nil:
		return got, fmt.Errorf("batch %d: %w", batch, err)
	case got.status == http.StatusNoContent:
		f.sent.end(batch, acknowledged)
	case !strings.Contains(got.body, "outcome_unknown"):
		f.sent.end(batch, refused)
	}
	return got, nil
}

func (f *faulty) writeAcknowledged(t *testing.T, s *server, batches int) {
	t.Helper()
	for range batches {
		if got := f.write(t, s); got.status != http.StatusNoContent {
			t.Fatalf("a write was answered %d: %s", got.status, got.body)
		}
	}
}

// failure is one that lineweir can't know the outcome of.
type failure struct {
	name  string
	fault fault
}

// Of the log only numbered files are hit: a spare file that can't be made is tried again, and no failure.
var failures = []failure{
	{"fsync of the log", fault{On: "fsync", In: "data/wal/0", First: 3, Last: 3, Errno: syscall.EIO}},
	{"write of the log", fault{On: "write", In: "data/wal/0", First: 2, Last: 2, Errno: syscall.EIO}},
	{"full disk under the log", fault{On: "write", In: "data/wal/0", First: 2, Last: 2, Errno: syscall.ENOSPC}},
	{"fsync of the manifest", fault{On: "fsync", In: "data/manifest/", First: 1, Last: 1, Errno: syscall.EIO}},
	{"write of the manifest", fault{On: "write", In: "data/manifest/", First: 1, Last: 1, Errno: syscall.EIO}},
}

// TestNoWriteIsAcknowledgedAfterAFailedFsync fails one fsync or write of the log or the manifest; later ones succeed,
// as a kernel's do that has thrown the pages away. Only a restart may find out what is on the disk.
func TestNoWriteIsAcknowledgedAfterAFailedFsync(t *testing.T) {
	outside(t)
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			disk := newFaulty(t, belowTheMerge)
			s := disk.start(t, binary)
			disk.writeAcknowledged(t, s, 10)
			disk.fail(t, f.fault)
			for _, problem := range disk.afterFailure(t, s, time.Minute) {
				t.Error(problem)
			}
			t.Logf("injected: %v", disk.healed(t))
			disk.sent.checkAcknowledged(t, s)
			exitsWithFailure(t, s)
			s = disk.start(t, binary)
			disk.sent.check(t, s)
			disk.writeAcknowledged(t, s, 10)
			s.seal(t)
			stored := disk.sent.check(t, s)
			s.stop(t)
			checkStoredOnce(t, s, stored)
		})
	}
}

// TestAnIgnoredFsyncErrorIsNoticed takes the protection away: a server that takes no notice of what fdatasync returns
// goes on, and the test above must say so.
func TestAnIgnoredFsyncErrorIsNoticed(t *testing.T) {
	disk := newFaulty(t, belowTheMerge)
	binary := variant(t, "internal/vfs/os_linux.go", "return errors.Join(err, syncErr)", "return err")
	s := disk.start(t, binary)
	disk.fail(t, failures[0].fault)
	problems := disk.afterFailure(t, s, time.Second)
	disk.healed(t)
	if len(problems) == 0 {
		t.Fatal("nothing was noticed")
	}
	t.Logf("noticed: %s, and %d more", problems[0], len(problems)-1)
}

// afterFailure writes and seals so that something fails, gives the server a while to notice, and tells what is wrong
// with it after that.
func (f *faulty) afterFailure(t *testing.T, s *server, while time.Duration) (problems []string) {
	t.Helper()
	report := func(format string, arguments ...any) { problems = append(problems, fmt.Sprintf(format, arguments...)) }
	unknown := false
	for range 5 {
		got := f.write(t, s)
		if unknown && got.status == http.StatusNoContent {
			report("a write was acknowledged after one whose outcome is unknown")
		}
		unknown = unknown || strings.Contains(got.body, "outcome_unknown")
	}
	if _, err := s.send(t.Context(), http.MethodPost, "/api/seal?wait=true", ""); err != nil {
		report("seal: %v", err)
	}
	ready := func() bool {
		got, err := s.send(t.Context(), http.MethodGet, "/ready", "")
		return err == nil && got.status == http.StatusOK
	}
	for deadline := time.Now().Add(while); ready() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		if got := f.write(t, s); got.status != http.StatusServiceUnavailable {
			report("a write after the failure was answered %d: %s", got.status, got.body)
		} else if !strings.Contains(got.body, `"read_only"`) {
			report("a write after the failure was refused without the cause read_only: %s", got.body)
		}
	}
	for _, path := range []string{"/ready", "/health"} {
		got, err := s.send(t.Context(), http.MethodGet, path, "")
		if err != nil || got.status != http.StatusServiceUnavailable {
			report("%s was answered %d %s %v", path, got.status, got.body, err)
		}
	}
	status := s.must(t, http.MethodGet, "/api/status", "", http.StatusOK).body
	if !strings.Contains(status, `"state":"read_only"`) || !strings.Contains(status, "data/") {
		report("the status does not name the state and the file: %s", status)
	}
	if printed := s.printed(t); !strings.Contains(printed, "read-only until a restart") {
		report("the log does not say that the server is read-only: %s", tail(printed, printedMax))
	}
	return problems
}

// checkAcknowledged requires that all that was acknowledged is read, and nothing that was refused.
func (h *history) checkAcknowledged(t *testing.T, s *server) {
	t.Helper()
	got := s.batches(t, "kill")
	for batch, outcome := range h.outcomes {
		present := take(t, got, batch)
		if outcome != unanswered && !outcome.allows(present) {
			t.Errorf("batch %d was %s, and %d of its %d points are read", batch, outcome, present, batchPoints)
		}
	}
}

// exitsWithFailure stops the server and requires that its exit status and its last words say what had failed.
func exitsWithFailure(t *testing.T, s *server) {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t, stopLimit); code != 1 {
		t.Errorf("lineweir exited with status %d after a failure, want 1", code)
	}
	lines := strings.Split(strings.TrimSpace(s.printed(t)), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "lineweir: ") || !strings.Contains(last, "data/") {
		t.Errorf("the last line does not say why: %s", last)
	}
}

// TestAFlushOutlivesAFailingDisk fails what has a second chance: files of segments, of both levels. Nothing becomes
// read-only, nothing is lost, and nothing is stored twice.
func TestAFlushOutlivesAFailingDisk(t *testing.T) {
	outside(t)
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	disk := newFaulty(t, compacting)
	s := disk.start(t, binary)
	for _, f := range []fault{
		{On: "write", In: "data/l0/", First: 1, Last: 4, Errno: syscall.ENOSPC},
		{On: "write", In: "data/l0/", First: 2, Last: 3, Errno: syscall.EIO},
		{On: "fsync", In: "data/l0/", First: 1, Last: 2, Errno: syscall.EIO},
		{On: "write", In: "data/l1/", First: 1, Last: 4, Errno: syscall.ENOSPC},
		{On: "write", In: "", First: 1, Last: 50, Short: true},
	} {
		disk.flushUnder(t, s, f)
		disk.sent.check(t, s)
	}
	s.seal(t)
	t.Logf("injected: %v", disk.healed(t))
	disk.sent.check(t, s)
	s.stop(t)
	s = disk.start(t, binary)
	disk.sent.check(t, s)
	s.stop(t)
}

// flushUnder writes and flushes until a fault was injected.
func (f *faulty) flushUnder(t *testing.T, s *server, next fault) {
	t.Helper()
	f.fail(t, next)
	hit := func() int {
		return f.disk.do(t, diskCommand{Operation: "look"}).State.Injected[next.kind()]
	}
	before := hit()
	eventually(t, 3*time.Minute, "the fault is injected: "+next.kind(), func() bool {
		for range 5 {
			f.write(t, s) // it may be refused while a flush is tried again
		}
		s.seal(t)
		return hit() > before
	})
}

// TestAFlushThatLetsGoIsNoticed takes the protection away: a server whose memtables go though their flush has failed
// loses what was in them, and the comparison of the test above must say so.
func TestAFlushThatLetsGoIsNoticed(t *testing.T) {
	disk := newFaulty(t, compacting)
	s := disk.start(t, variant(t, "shard/flush.go", "abort(pending)\n", "abort(pending)\n\t\tc.release(m)\n"))
	disk.flushUnder(t, s, fault{On: "write", In: "data/l0/", First: 1, Last: 4, Errno: syscall.ENOSPC})
	disk.healed(t)
	var problems []string
	eventually(t, 3*time.Minute, "the loss is noticed", func() bool {
		problems = disk.sent.problems(t, s.batches(t, "kill"))
		return len(problems) > 0
	})
	t.Logf("noticed: %s, and %d more", problems[0], len(problems)-1)
	s.kill()
}

const (
	slowFsync       = 2 * time.Second
	slowWriters     = 8
	slowWrites      = 2 // of each writer
	slowMemoryBytes = 256 << 20
)

// TestASlowDiskOnlySlows lets each fsync take 2 seconds: every write is answered, memory stays bounded, and when the
// disk is fast again all goes on.
func TestASlowDiskOnlySlows(t *testing.T) {
	disk, s, before := slowedDisk(t, slowFsync)
	problems := disk.writeSlowly(t, s, sendLimit)
	s.seal(t)
	during := s.usage(t)
	for _, problem := range append(problems, slowMemoryProblems(before, during)...) {
		t.Error(problem)
	}
	t.Logf("injected: %v; before: %+v, during: %+v", disk.healed(t), before, during)
	disk.writeAcknowledged(t, s, 10)
	disk.sent.check(t, s)
	s.stop(t)
}

// slowedDisk starts a server that compacts on a disk of its own, whose fsyncs take that long from then on. before is
// what the server took until then.
func slowedDisk(t *testing.T, fsync time.Duration) (disk *faulty, s *server, before usage) {
	t.Helper()
	outside(t)
	t.Parallel() // it sleeps
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	disk = newFaulty(t, compacting)
	s = disk.start(t, binary)
	disk.writeAcknowledged(t, s, 10)
	before = s.usage(t)
	disk.fail(t, fault{On: "fsync", First: 1, Delay: fsync})
	return disk, s, before
}

// writeSlowly lets several writers write, and tells which writes were not acknowledged within a limit.
func (f *faulty) writeSlowly(t *testing.T, s *server, limit time.Duration) (problems []string) {
	t.Helper()
	var mu sync.Mutex
	var writers sync.WaitGroup
	for range slowWriters {
		writers.Go(func() {
			for range slowWrites {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				got, err := f.writeWithin(ctx, s)
				cancel()
				if err != nil || got.status != http.StatusNoContent {
					mu.Lock()
					problems = append(problems, fmt.Sprintf("a write on a slow disk: %d %s %v", got.status, got.body, err))
					mu.Unlock()
				}
			}
		})
	}
	writers.Wait()
	return problems
}

func slowMemoryProblems(before, during usage) (problems []string) {
	if more := during.ResidentBytes - before.ResidentBytes; more > slowMemoryBytes {
		problems = append(problems, fmt.Sprintf("a slow disk takes %.0f bytes of memory more", more))
	}
	return problems
}

// TestAWaitThatLastsIsNoticed is the proof that the test above can fail: fsyncs that last longer than a write may take
// are reported for every write, and so is memory that grows beyond the bound.
func TestAWaitThatLastsIsNoticed(t *testing.T) {
	disk, s, _ := slowedDisk(t, 3*slowFsync)
	if problems := disk.writeSlowly(t, s, slowFsync/20); len(problems) != slowWriters*slowWrites {
		t.Errorf("%d of %d writes that take too long are reported", len(problems), slowWriters*slowWrites)
	}
	disk.healed(t)
	s.seal(t)
	s.stop(t)
	before := usage{ResidentBytes: 1 << 20}
	if len(slowMemoryProblems(before, usage{ResidentBytes: before.ResidentBytes + slowMemoryBytes + 1})) == 0 {
		t.Error("memory that grows is not reported")
	}
}
