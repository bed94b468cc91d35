package e2e

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	smallDiskBytes = 64 << 20
	reserveBytes   = 4 << 20 // as in the settings below
	lowLimit       = 3 * time.Minute
)

// smallDisk has memtables that are large beside the reserve: their flush must fit on the disk as well.
var smallDisk = []string{
	"shards=1", "memtable.max_bytes=8MiB", "memtable.frozen_max=2", "wal.file_bytes=1MiB", "page_cache.capacity=64MiB",
	"disk.reserve_bytes=4MiB",
}

// TestALowDiskIsReadOnlyUntilThereIsRoom takes the free space of a real ext4 away and gives it back.
func TestALowDiskIsReadOnlyUntilThereIsRoom(t *testing.T) {
	p, s := onSmallDisk(t)
	written := &knownHistory{}
	written.write(t, s)
	for _, left := range []int64{reserveBytes - 1<<20, 0} { // below the watermark, and nothing at all
		written.write(t, s)
		ballast := p.fillUp(t, left)
		refusal := written.writeUntil(t, s, "disk_low")
		if refusal.header.Get("Retry-After") == "" {
			t.Errorf("a write on a low disk was refused without Retry-After: %+v", refusal)
		}
		ready, err := s.send(t.Context(), http.MethodGet, "/ready", "")
		if err != nil || ready.status != http.StatusServiceUnavailable || !strings.Contains(ready.body, "disk_low") {
			t.Errorf("/ready on a low disk: %d %s %v", ready.status, ready.body, err)
		}
		if left > 0 {
			s.seal(t) // the reserve is for this
		}
		written.check(t, s)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		eventually(t, lowLimit, "writing resumes by itself", func() bool { return written.try(t, s).status == 204 })
	}
	s.seal(t)
	written.check(t, s)
	s.stop(t)
	p.off(t, s)
}

// TestFlushAndCompactionHaveRoomOnADiskThatWritesFilled fills the disk by writing alone. Whatever was acknowledged can
// be flushed and compacted: no flush and no compaction has ever failed.
func TestFlushAndCompactionHaveRoomOnADiskThatWritesFilled(t *testing.T) {
	p, s := onSmallDisk(t)
	s.drain(t, true) // so that the disk fills before the tier does
	written := &knownHistory{}
	refusal := written.writeUntil(t, s, "disk_low")
	t.Logf("%d points, then %s", written.points, refusal.body)
	s.seal(t)
	s.drain(t, false)
	eventually(t, lowLimit, "all is compacted, and writing resumes by itself", func() bool {
		return s.status(t).Tier.Segments == 0 && written.try(t, s).status == 204
	})
	written.check(t, s)
	if got := s.status(t); got.Drain.Failures > 0 || got.flushFailures() > 0 {
		t.Errorf("%d compactions and %d flushes failed on the full disk", got.Drain.Failures, got.flushFailures())
	}
	s.stop(t)
	p.off(t, s)
}

func onSmallDisk(t *testing.T) (*powered, *server) {
	t.Helper()
	outside(t)
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	p := newPowered(t, binary, smallDiskBytes, smallDisk)
	p.on(t, rand.New(rand.NewPCG(powerCutSeed, 3)))
	return p, p.start(t)
}

// fillUp makes a file that leaves so many bytes free, and returns its path.
func (p *powered) fillUp(t *testing.T, leftBytes int64) string {
	t.Helper()
	path := filepath.Join(p.keeper.within(p.mount), "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// The server writes at the same time, so what is free is looked up again after each piece.
	for size := int64(0); ; {
		free := p.freeBytes(t) - leftBytes
		if free <= 0 {
			return path
		}
		piece := min(max(free/2, 4096), 4<<20)
		if err := unix.Fallocate(int(file.Fd()), 0, size, piece); errors.Is(err, unix.ENOSPC) {
			return path
		} else if err != nil {
			t.Fatal(err)
		}
		size += piece
	}
}

func (p *powered) freeBytes(t *testing.T) int64 {
	t.Helper()
	var stat unix.Statfs_t
	if err := unix.Statfs(p.keeper.within(p.mount), &stat); err != nil {
		t.Fatal(err)
	}
	return int64(stat.Bavail) * stat.Bsize
}

// knownHistory is what a server has accepted of knownLines.
type knownHistory struct {
	sent   int
	points int
	text   strings.Builder
}

const knownBody = 500 // points

// try sends the next body.
func (h *knownHistory) try(t *testing.T, s *server) answer {
	t.Helper()
	lines := knownLines(h.sent, knownBody)
	h.sent += knownBody
	got, err := s.send(t.Context(), http.MethodPost, "/write?db=weir", lines)
	if err != nil {
		t.Fatal(err)
	}
	if got.status == http.StatusNoContent {
		h.text.WriteString(lines)
		h.points += knownBody
	}
	return got
}

func (h *knownHistory) write(t *testing.T, s *server) {
	t.Helper()
	if got := h.try(t, s); got.status != http.StatusNoContent {
		t.Fatalf("a write was answered %d: %s", got.status, got.body)
	}
}

// writeUntil sends bodies until one is refused for the cause.
func (h *knownHistory) writeUntil(t *testing.T, s *server, cause string) answer {
	t.Helper()
	for deadline := time.Now().Add(lowLimit); time.Now().Before(deadline); {
		got := h.try(t, s)
		if got.status == http.StatusServiceUnavailable && strings.Contains(got.body, cause) {
			return got
		}
		if got.status != http.StatusNoContent && got.status != http.StatusServiceUnavailable {
			t.Fatalf("a write was answered %d: %s", got.status, got.body)
		}
	}
	t.Fatalf("no write was refused with %s", cause)
	return answer{}
}

func (h *knownHistory) check(t *testing.T, s *server) {
	t.Helper()
	want, err := parsePoints(h.text.String())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "stored", s.scan(t, "weir", "known"), want)
}
