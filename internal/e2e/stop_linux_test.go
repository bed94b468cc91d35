package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hangTimeout is the shutdown.timeout of servers whose disk hangs.
const hangTimeout = time.Second

// withHangTimeout are settings for a stop that gives up soon, below the merge.
func withHangTimeout() []string {
	return append(slices.Clone(belowTheMerge), "shutdown.timeout="+hangTimeout.String(), "admission.max_wait=100ms")
}

// hangs are files whose fsyncs don't return.
var hangs = []struct{ name, in string }{
	{"the log", "data/wal/0"},
	{"a segment", "data/l0/"},
	{"the manifest", "data/manifest/"},
}

// hangAndStop lets fsyncs hang, with a write under way, and tells the server to stop. The result waits for the write,
// whose outcome the history has.
func (f *faulty) hangAndStop(t *testing.T, s *server, in string) (wait func()) {
	t.Helper()
	f.writeAcknowledged(t, s, 10)
	f.fail(t, fault{On: "fsync", In: in, First: 1, Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() { _, _ = f.writeWithin(ctx, s) }) // an error is an answer that did not come
	if in == hangs[0].in {
		eventually(t, sendLimit, "the write hangs", func() bool {
			return f.disk.do(t, diskCommand{Operation: "look"}).State.Injected["fsync hung"] > 0
		})
	}
	s.signal(t, syscall.SIGTERM)
	return func() {
		cancel()
		writer.Wait()
	}
}

// TestAStopEndsThoughTheDiskHangs stops a server whose disk no longer answers: nothing ends such a call but the end of
// the process. It ends all the same, says so, and the next start has what was acknowledged.
func TestAStopEndsThoughTheDiskHangs(t *testing.T) {
	outside(t)
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hangs {
		t.Run(h.name, func(t *testing.T) {
			disk := newFaulty(t, withHangTimeout())
			s := disk.start(t, binary)
			wait := disk.hangAndStop(t, s, h.in)
			code := s.wait(t, stopLimit)
			wait()
			if printed := s.printed(t); code != 1 || !strings.Contains(printed, "the next start replays the log") {
				t.Errorf("exit status %d, want 1 and the reason:\n%s", code, tail(printed, printedMax))
			}
			t.Logf("injected: %v", disk.healed(t))
			disk.settings = belowTheMerge // its stop has time, also on a slow machine
			s = disk.start(t, binary)
			disk.sent.check(t, s)
			if s.status(t).Recovery.RowsReplayed == 0 {
				t.Error("the next start replayed nothing: the stop did not run out of time")
			}
			disk.writeAcknowledged(t, s, 10)
			s.seal(t)
			stored := disk.sent.check(t, s)
			s.stop(t)
			checkStoredOnce(t, s, stored)
		})
	}
}

// TestAStopThatNeverEndsIsNoticed takes the protection away: a server that waits for its disk however long that takes
// does not end before the disk answers.
func TestAStopThatNeverEndsIsNoticed(t *testing.T) {
	outside(t)
	t.Parallel() // it sleeps
	disk := newFaulty(t, withHangTimeout())
	s := disk.start(t, variant(t, "main.go", "case <-timer.C:", "case <-make(chan time.Time):"))
	wait := disk.hangAndStop(t, s, hangs[1].in)
	time.Sleep(3 * hangTimeout)
	if !s.running() {
		t.Error("it has ended though the disk does not answer")
	}
	disk.healed(t)
	s.wait(t, stopLimit)
	wait()
}

// TestAStopThatWaitsForClientsIsNoticed takes the protection away: a server that gives requests all of its time has none
// for the flush, and TestAStopDoesNotWaitForStuckClients must say so. Nothing is lost all the same.
func TestAStopThatWaitsForClientsIsNoticed(t *testing.T) {
	outside(t)
	t.Parallel() // it sleeps
	binary := variant(t, "main.go", "requestsShare = 2", "requestsShare = 1")
	dataDir := t.TempDir()
	s := launchBinary(t, binary, anyPort, dataDir, "shutdown.timeout=1s", "admission.max_wait=100ms")
	s.awaitReady(t)
	s.stuckClients(t)
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t, stopLimit); code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	next := start(t, dataDir) // a flush that was under way may have come to its end, so it replays rows or not
	if got := next.count(t, "db", "stuck"); got != stuckRows {
		t.Errorf("%d points, want %d", got, stuckRows)
	}
	next.stop(t)
}
