package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	smallDiskBytes = 72 << 20 // so that it is low before the tier holds writes back
	reserveBytes   = 16 << 20 // as in the settings below
	lowLimit       = 3 * time.Minute
)

// smallDisk has memtables that are large beside the reserve: what was acknowledged and is not flushed needs room too.
var smallDisk = []string{
	"shards=1", "memtable.max_bytes=16MiB", "memtable.max_age=1s", "memtable.frozen_max=1", "wal.file_bytes=1MiB",
	"page_cache.capacity=64MiB", "disk.reserve_bytes=16MiB",
}

// TestALowDiskIsReadOnlyUntilThereIsRoom takes the free space of a real ext4 away, in part and all of it, and gives it
// back.
func TestALowDiskIsReadOnlyUntilThereIsRoom(t *testing.T) {
	p, s := onSmallDisk(t, honestBinary(t))
	written := &fatHistory{}
	for _, left := range []int64{reserveBytes - 1<<20, 0} {
		written.write(t, s)
		ballast := p.fillUp(t, left)
		eventually(t, lowLimit, "/ready says that the disk is low", func() bool {
			got, err := s.send(t.Context(), http.MethodGet, "/ready", "")
			return err == nil && got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "disk_low")
		})
		if refusal := written.try(t, s); !refusal.isDiskLow() {
			t.Errorf("a write on a low disk was answered %+v", refusal)
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

// isDiskLow tells a write that was refused because the disk is low.
func (a answer) isDiskLow() bool {
	return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "disk_low") &&
		a.header.Get("Retry-After") != ""
}

// TestADiskThatIsLowIsNoticed takes the protection away: without a reserve a server takes writes on a disk as low as in
// the test above, for which that test would fail.
func TestADiskThatIsLowIsNoticed(t *testing.T) {
	p, s := onSmallDisk(t, honestBinary(t), "disk.reserve_bytes=0")
	written := &fatHistory{}
	written.write(t, s)
	ballast := p.fillUp(t, reserveBytes-1<<20)
	for range 50 { // for a second: it would look at the disk four times
		if got := written.send(t, s, 1); got.isDiskLow() || got.status != http.StatusNoContent {
			t.Fatalf("without a reserve a write was answered %d: %s", got.status, got.body)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	p.off(t, s)
}

// TestFlushAndCompactionHaveRoomOnADiskThatWritesFilled fills the disk by writing alone. Whatever was acknowledged can
// be flushed and compacted: no flush and no compaction has failed.
func TestFlushAndCompactionHaveRoomOnADiskThatWritesFilled(t *testing.T) {
	p, s := onSmallDisk(t, honestBinary(t))
	s.drain(t, true) // so that the disk fills before the tier is merged
	written := &fatHistory{}
	refusal := written.writeUntil(t, s, "disk_low")
	s.seal(t)
	t.Logf("%d bytes were accepted, then %s; %d of the disk are free", written.text.Len(), refusal.body, p.freeBytes(t))
	s.drain(t, false)
	eventually(t, lowLimit, "compaction makes room, and writing resumes by itself", func() bool {
		return len(s.files(t, "l1")) > 0 && written.try(t, s).status == 204
	})
	written.check(t, s)
	if got := s.status(t); got.Drain.Failures > 0 || got.flushFailures() > 0 {
		t.Errorf("%d compactions and %d flushes failed on the full disk", got.Drain.Failures, got.flushFailures())
	}
	s.stop(t)
	p.off(t, s)
}

// TestWhatIsInMemoryCountsAgainstTheDisk requires that a write is refused when the flush of what is in memory would
// leave less than the reserve; a server that looks at the free space alone takes it.
func TestWhatIsInMemoryCountsAgainstTheDisk(t *testing.T) {
	writeBesideFullMemory(t, honestBinary(t), func(written *fatHistory, s *server) {
		eventually(t, lowLimit, "a write is refused with disk_low", func() bool {
			got := written.send(t, s, 1)
			return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "disk_low")
		})
	})
	careless := variant(t, "shard/lifecycle.go", "free -= s.Fill().unflushedBytes()", "_ = s.Fill()")
	writeBesideFullMemory(t, careless, func(written *fatHistory, s *server) {
		for range 50 { // for a second: it looks at the disk four times
			if got := written.send(t, s, 1); got.status != http.StatusNoContent {
				t.Fatalf("without the protection a write was answered %d: %s", got.status, got.body)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// writeBesideFullMemory fills a memtable to more than half, leaves half as much more than the reserve free on the
// disk, and writes.
func writeBesideFullMemory(t *testing.T, binary string, write func(*fatHistory, *server)) {
	t.Helper()
	p, s := onSmallDisk(t, binary, "memtable.max_age=1h")
	written := &fatHistory{}
	for written.text.Len() < 10<<20 {
		written.write(t, s)
	}
	ballast := p.fillUp(t, reserveBytes+5<<20)
	write(written, s)
	s.seal(t)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, lowLimit, "writing resumes by itself", func() bool { return written.try(t, s).status == 204 })
	written.check(t, s)
	s.stop(t)
	p.off(t, s)
}

func honestBinary(t *testing.T) string {
	t.Helper()
	outside(t)
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func onSmallDisk(t *testing.T, binary string, settings ...string) (*powered, *server) {
	t.Helper()
	p := newPowered(t, binary, smallDiskBytes, slices.Concat(smallDisk, settings))
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

// fatHistory is what a server has accepted of fatLines.
type fatHistory struct {
	sent int // points
	text strings.Builder
}

const (
	fatBody      = 100 // points
	fatTextBytes = 1000
)

// fatLines makes points of one string that hardly compresses. Points of different numbers differ in time.
func fatLines(from, n int) string {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(from))
	random := rand.NewChaCha8(seed)
	var text strings.Builder
	noise := make([]byte, fatTextBytes/2)
	for i := from; i < from+n; i++ {
		_, _ = random.Read(noise)
		fmt.Fprintf(&text, "fat i=%di,text=\"%x\" %d\n", i, noise, 1_700_000_000_000_000_000+int64(i))
	}
	return text.String()
}

// try sends the next body.
func (h *fatHistory) try(t *testing.T, s *server) answer { return h.send(t, s, fatBody) }

// send sends the next points.
func (h *fatHistory) send(t *testing.T, s *server, points int) answer {
	t.Helper()
	lines := fatLines(h.sent, points)
	h.sent += points
	got, err := s.send(t.Context(), http.MethodPost, "/write?db=weir", lines)
	if err != nil {
		t.Fatal(err)
	}
	if got.status == http.StatusNoContent {
		h.text.WriteString(lines)
	}
	return got
}

func (h *fatHistory) write(t *testing.T, s *server) {
	t.Helper()
	if got := h.try(t, s); got.status != http.StatusNoContent {
		t.Fatalf("a write was answered %d: %s", got.status, got.body)
	}
}

// writeUntil sends bodies until one is refused for the cause.
func (h *fatHistory) writeUntil(t *testing.T, s *server, cause string) answer {
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

func (h *fatHistory) check(t *testing.T, s *server) {
	t.Helper()
	want, err := parsePoints(h.text.String())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "stored", s.scan(t, "weir", "fat"), want)
}
