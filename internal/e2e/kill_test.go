package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	kills       = 20
	killWriters = 4
)

// TestKillUnderConcurrentWrites kills the server again and again while writers, flushes and compactions are at work.
// Every batch is sent once, so each must be there once if it was acknowledged, never if it was refused, and whole or
// not at all if its answer was cut off.
func TestKillUnderConcurrentWrites(t *testing.T) {
	outside(t)
	small := []string{"shards=2", "memtable.max_bytes=256KiB", "memtable.max_rows=500", "wal.file_bytes=1MiB"}
	t.Run("compacting", func(t *testing.T) {
		s := killAgainAndAgain(t, append(slices.Clone(small), "page_cache.capacity=1MiB", "admission.max_wait=20ms")...)
		if len(s.files(t, "l1")) == 0 {
			t.Error("no compaction was hit: there is no L1 segment")
		}
	})
	// With next to no compaction the tier keeps every flushed row, so that none can be stored twice and merged away.
	t.Run("below the merge", func(t *testing.T) {
		s := killAgainAndAgain(t,
			append(slices.Clone(small), "page_cache.capacity=256MiB", "compaction.max_bytes_per_second=1")...)
		if flushed := len(s.files(t, "l0")); flushed < kills {
			t.Errorf("there are %d L0 segments after %d kills, too few to have hit flushes", flushed, kills)
		}
	})
}

// killAgainAndAgain returns the last server, stopped, with all that was written in segments.
func killAgainAndAgain(t *testing.T, settings ...string) *server {
	t.Helper()
	dataDir := t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	sent := &history{}
	for round := range kills {
		s := launch(t, anyPort, dataDir, settings...)
		if round%5 == 4 { // a recovery is killed too
			<-time.After(time.Duration(random.IntN(50)) * time.Millisecond)
			s.kill()
			continue
		}
		s.awaitReady(t)
		sent.checkCount(t, s)
		killUnderWrites(t, s, sent, 1+random.Int64N(300))
	}
	s := launch(t, anyPort, dataDir, settings...)
	s.awaitReady(t)
	t.Logf("the last start replayed %d rows, and has %d segments of level 1", s.status(t).Recovery.RowsReplayed,
		len(s.files(t, "l1")))
	sent.check(t, s)
	s.seal(t)
	stored := sent.check(t, s)
	s.stop(t)
	checkStoredOnce(t, s, stored)
	return s
}

// killUnderWrites kills the server in the midst of writes, as soon as a number of them was acknowledged.
func killUnderWrites(t *testing.T, s *server, sent *history, acknowledgements int64) {
	t.Helper()
	var left atomic.Int64
	left.Store(acknowledgements)
	enough := make(chan struct{})
	var writers sync.WaitGroup
	for range killWriters {
		writers.Go(func() {
			sent.writeUntilKilled(t, s, func() {
				if left.Add(-1) == 0 {
					close(enough)
				}
			})
		})
	}
	select {
	case <-enough:
	case <-time.After(3 * time.Minute):
		t.Errorf("%d of %d writes were not acknowledged within 3 minutes", left.Load(), acknowledgements)
	}
	s.kill()
	writers.Wait()
}

// writeUntilKilled sends new batches until the server is gone.
func (h *history) writeUntilKilled(t *testing.T, s *server, acknowledge func()) {
	for {
		batch := h.begin()
		got, err := s.send(t.Context(), http.MethodPost, "/write?db=kill", batchLines(batch))
		switch {
		case err != nil:
			return
		case got.status == http.StatusNoContent:
			h.end(batch, acknowledged)
			acknowledge()
		case got.status == http.StatusServiceUnavailable && !strings.Contains(got.body, "outcome_unknown"):
			h.end(batch, refused)
		default:
			t.Errorf("a write was answered %d: %s", got.status, got.body)
			return
		}
	}
}

// checkStoredOnce requires that the files hold each of the stored points in one row.
func checkStoredOnce(t *testing.T, s *server, stored int) {
	t.Helper()
	for _, problem := range storedProblems(physicalRows(t, s), stored) {
		t.Error(problem)
	}
}

// storedProblems tells what is wrong with the rows of files that should hold each of the stored points in one row.
func storedProblems(rows []string, stored int) (problems []string) {
	if len(rows) != stored {
		problems = append(problems, fmt.Sprintf("the files hold %d rows of %d points", len(rows), stored))
	}
	slices.Sort(rows)
	if unique := len(slices.Compact(rows)); unique != len(rows) {
		problems = append(problems, fmt.Sprintf("%d of %d rows in the files are copies", len(rows)-unique, len(rows)))
	}
	return problems
}
