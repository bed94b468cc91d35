package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	powerCuts          = 12 // of each of the two tests
	powerCutWriters    = 4
	powerCutRequests   = 250 // of the server to its disk, at most, before the power goes
	powerCutDiskBytes  = 256 << 20
	powerCutSeed       = 5
	powerCutRound      = 3 * time.Minute // for what takes a second or two
	powerCutLieBatches = 30
)

var smallMemtables = []string{
	"shards=2", "memtable.max_bytes=256KiB", "memtable.max_rows=500", "wal.file_bytes=128KiB", "disk.reserve_bytes=8MB",
}

var (
	compacting    = append(slices.Clone(smallMemtables), "page_cache.capacity=1MiB", "admission.max_wait=20ms")
	belowTheMerge = append(slices.Clone(smallMemtables), "page_cache.capacity=256MiB",
		"compaction.max_bytes_per_second=1")
)

// powered is a server on an ext4 on a disk whose power can be cut.
type powered struct {
	binary   string
	settings []string
	disk     *helper
	keeper   *helper
	image    string // directory of the disk's files, as the keeper reaches it
	mount    string // of the ext4, as the keeper sees it
	sent     history
}

func newPowered(t *testing.T, binary string, sizeBytes int64, settings []string) *powered {
	t.Helper()
	outside(t)
	require(t, "fuse", canMountDisks())
	p := &powered{
		binary: binary, settings: settings, mount: filepath.Join(t.TempDir(), "mounts", "ext4"),
	}
	fuse := filepath.Join(t.TempDir(), "fuse")
	for _, directory := range []string{fuse, p.mount} {
		if err := os.MkdirAll(directory, mountPointMode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { awaitNoLoops(t, fuse) })
	p.disk, p.keeper = startHelper(t, "disk"), startHelper(t, "keeper")
	_, err := p.disk.try(t, diskCommand{Operation: "mount", Mount: fuse, SizeBytes: sizeBytes})
	require(t, "fuse", err)
	p.image = p.disk.within(fuse)
	format(t, filepath.Join(p.image, "0"))
	_, err = p.keeper.try(t, keeperCommand{Operation: "mount", Image: filepath.Join(p.image, "0"), Mount: p.mount})
	require(t, "fuse", err)
	p.keeper.do(t, keeperCommand{Operation: "unmount", Mount: p.mount})
	return p
}

// format makes an ext4 of a file.
func format(t *testing.T, path string) {
	t.Helper()
	mkfs, err := makeExt4()
	if err != nil {
		t.Fatal(err)
	}
	// Nothing may be left for the kernel to do after the mount.
	const later = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
	if err := command(mkfs, "-q", "-F", "-b", "4096", "-m", "0", "-E", later, path); err != nil {
		t.Fatal(err)
	}
}

// awaitNoLoops requires that no loop device is left that had a file of the directory. The kernel detaches them on its
// own time.
func awaitNoLoops(t *testing.T, directory string) {
	t.Helper()
	eventually(t, powerCutRound, "the loop devices are detached", func() bool {
		paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(paths, func(path string) bool {
			name, err := os.ReadFile(path)
			return err == nil && strings.HasPrefix(string(name), directory)
		})
	})
}

// on mounts what the disk has kept: the kernel replays the journal of the ext4. The mount options take away what ext4
// does for programs that forget an fsync, and let a file have its new size before its content where they say writeback.
func (p *powered) on(t *testing.T, random *rand.Rand) {
	t.Helper()
	options := []string{"noauto_da_alloc", "noauto_da_alloc,data=writeback", "noauto_da_alloc,commit=1"}
	p.keeper.do(t, keeperCommand{
		Operation: "mount", Image: fmt.Sprintf("%s/%d", p.image, p.state(t).Epoch), Mount: p.mount,
		Options: options[random.IntN(len(options))],
	})
}

func (p *powered) state(t *testing.T) diskState {
	t.Helper()
	return p.disk.do(t, diskCommand{Operation: "look"}).State
}

// dataDir is where the test and the server find the data.
func (p *powered) dataDir() string { return filepath.Join(p.keeper.within(p.mount), "data") }

func (p *powered) launch(t *testing.T) *server {
	t.Helper()
	return launchBinary(t, p.binary, anyPort, p.dataDir(), p.settings...)
}

func (p *powered) start(t *testing.T) *server {
	t.Helper()
	s := p.launch(t)
	s.awaitReady(t)
	return s
}

// off ends the server that has lost its disk, and lets go of the file system.
func (p *powered) off(t *testing.T, s *server) {
	t.Helper()
	s.kill()
	p.keeper.do(t, keeperCommand{Operation: "unmount", Mount: p.mount})
}

// cutUnderWrites cuts the power while the server works for many writers, or recovers.
func (p *powered) cutUnderWrites(t *testing.T, s *server, epoch int) {
	t.Helper()
	var writers sync.WaitGroup
	for range powerCutWriters {
		writers.Go(func() { p.sent.writeUntilGone(t, s) })
	}
	defer writers.Wait()
	defer s.kill()
	eventually(t, powerCutRound, "the power is cut", func() bool { return p.state(t).Epoch > epoch })
}

// writeUntilGone sends new batches until the server is gone, whatever it answers.
func (h *history) writeUntilGone(t *testing.T, s *server) {
	for s.running() {
		batch := h.begin()
		got, err := s.send(t.Context(), http.MethodPost, "/write?db=kill", batchLines(batch))
		switch {
		case err == nil && got.status == http.StatusNoContent:
			h.end(batch, acknowledged)
		case err == nil && got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "outcome_unknown"):
		case err == nil && got.status == http.StatusServiceUnavailable:
			h.end(batch, refused)
			time.Sleep(time.Millisecond) // there is nothing to gain by asking faster
		case err == nil:
			t.Errorf("a write was answered %d: %s", got.status, got.body)
			return
		case strings.Contains(err.Error(), "connection refused"): // it doesn't listen yet
			h.end(batch, refused)
			time.Sleep(time.Millisecond)
		}
	}
}

// TestPowerIsCutUnderLoad cuts the power of the disk below a real file system again and again, at a random request of
// the server, with writers, flushes and compactions at work. Nothing, half or all of what was not flushed survives.
func TestPowerIsCutUnderLoad(t *testing.T) {
	outside(t)
	t.Run("compacting", func(t *testing.T) {
		p, s := cutAgainAndAgain(t, compacting, 0)
		eventually(t, powerCutRound, "compaction made a segment", func() bool { return len(s.files(t, "l1")) > 0 })
		p.finish(t, s)
	})
	// With next to no compaction the tier keeps every flushed row, so that none can be stored twice and merged away.
	t.Run("below the merge", func(t *testing.T) {
		p, s := cutAgainAndAgain(t, belowTheMerge, 1)
		if flushed := len(s.files(t, "l0")); flushed < powerCuts {
			t.Errorf("there are %d L0 segments after %d cuts, too few to have hit flushes", flushed, powerCuts)
		}
		p.finish(t, s)
	})
}

// cutAgainAndAgain returns the last server, with all that was written in segments.
func cutAgainAndAgain(t *testing.T, settings []string, stream uint64) (*powered, *server) {
	t.Helper()
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	p := newPowered(t, binary, powerCutDiskBytes, settings)
	random := rand.New(rand.NewPCG(powerCutSeed, stream))
	counts := map[float64]*cutCount{0: {}, 0.5: {}, 1: {}}
	for cut := range powerCuts {
		plan := cutPlan{
			Requests: random.IntN(powerCutRequests), Unflushed: []int{1, 4, 16}[random.IntN(3)],
			Keep: []float64{0, 0.5, 1}[cut%3], Seed: random.Uint64(),
		}
		state := p.cutOnce(t, random, plan, cut%4 == 3)
		counts[plan.Keep].add(state)
		t.Logf("cut %d: %+v: %d of %d unflushed sectors lost, %d flushes so far", cut, plan, state.Lost, state.Unflushed,
			state.Flushes)
	}
	p.on(t, random)
	p.check(t)
	s := p.start(t)
	p.sent.check(t, s)
	s.seal(t)
	p.report(t, counts)
	return p, s
}

// finish stops the last server and looks below the merge.
func (p *powered) finish(t *testing.T, s *server) {
	t.Helper()
	stored := p.sent.check(t, s)
	s.stop(t)
	p.check(t)
	checkStoredOnce(t, s, stored)
	p.off(t, s)
}

// cutOnce turns the power on, checks and reads what is there, and cuts the power under load, or in a recovery.
func (p *powered) cutOnce(t *testing.T, random *rand.Rand, plan cutPlan, early bool) diskState {
	t.Helper()
	p.on(t, random)
	p.check(t)
	arm := func() { p.disk.do(t, diskCommand{Operation: "arm", Cut: plan}) }
	epoch := p.state(t).Epoch
	var s *server
	if early {
		arm()
		s = p.launch(t)
	} else {
		s = p.start(t)
		p.sent.check(t, s)
		arm()
	}
	p.cutUnderWrites(t, s, epoch)
	p.off(t, s)
	return p.state(t)
}

// check runs lineweir check on what the cut has left, before a start repairs anything.
func (p *powered) check(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(p.dataDir(), "manifest")); os.IsNotExist(err) {
		return // the first start was cut
	}
	if output, err := exec.Command(p.binary, "check", p.dataDir()).CombinedOutput(); err != nil {
		t.Errorf("lineweir check: %v\n%s", err, output)
	}
}

// cutCount sums up the cuts of one kind.
type cutCount struct{ cuts, unflushed, lost int }

func (c *cutCount) add(state diskState) {
	c.cuts++
	c.unflushed += state.Unflushed
	c.lost += state.Lost
}

func (p *powered) report(t *testing.T, counts map[float64]*cutCount) {
	t.Helper()
	for keep, c := range counts {
		t.Logf("%d cuts at which %.0f %% of unflushed sectors survive: %d were unflushed, %d lost",
			c.cuts, keep*100, c.unflushed, c.lost)
		if c.unflushed < c.cuts { // which of them survive by half is up to chance
			t.Errorf("the cuts at which %.0f %% survive hit nothing: %+v", keep*100, *c)
		}
	}
	t.Logf("%d batches of %d points were acknowledged, %d cut off, %d refused", p.sent.count(acknowledged),
		batchPoints, p.sent.count(unanswered), p.sent.count(refused))
}

// TestAPowerCutIsNoticedWhereFsyncsAreMissing is the proof that the test above can fail: with a disk that answers
// flushes and does nothing, and with a server whose fsyncs do nothing, the same comparison finds what was lost.
func TestAPowerCutIsNoticedWhereFsyncsAreMissing(t *testing.T) {
	outside(t)
	honest, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a disk that lies", func(t *testing.T) { noticesTheCut(t, honest, "lie") })
	t.Run("a server without fsync", func(t *testing.T) {
		noticesTheCut(t, variant(t, "internal/vfs/os_linux.go", "unix.Fdatasync(int(fd))",
			"func() error { _ = unix.Fdatasync; return nil }()"), "look")
	})
}

// noticesTheCut cuts the power after a number of acknowledged batches, and requires that they are missed.
func noticesTheCut(t *testing.T, binary, operation string) {
	t.Helper()
	p := newPowered(t, binary, powerCutDiskBytes, belowTheMerge)
	random := rand.New(rand.NewPCG(powerCutSeed, 2))
	p.on(t, random)
	s := p.start(t)
	p.sync(t) // so that only what is acknowledged from now on can be missing
	p.disk.do(t, diskCommand{Operation: operation})
	for range powerCutLieBatches {
		batch := p.sent.begin()
		s.write(t, "kill", batchLines(batch))
		p.sent.end(batch, acknowledged)
	}
	p.disk.do(t, diskCommand{Operation: "cut"})
	p.off(t, s)
	p.on(t, random)
	s = p.launch(t)
	problems := p.problems(t, s)
	p.off(t, s)
	if len(problems) == 0 {
		t.Fatal("nothing was lost, or the loss was not noticed")
	}
	t.Logf("noticed: %s, and %d more", problems[0], len(problems)-1)
}

// sync makes durable what the file system holds.
func (p *powered) sync(t *testing.T) {
	t.Helper()
	directory, err := os.Open(p.dataDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	if err := unix.Syncfs(int(directory.Fd())); err != nil {
		t.Fatal(err)
	}
}

// problems tells what is wrong with a server that may not start, or without its data.
func (p *powered) problems(t *testing.T, s *server) []string {
	t.Helper()
	ready := false
	eventually(t, powerCutRound, "lineweir is ready or gone", func() bool {
		got, err := s.send(t.Context(), http.MethodGet, "/ready", "")
		ready = err == nil && got.status == http.StatusOK
		return ready || !s.running()
	})
	if !ready {
		return []string{"the server does not start: " + tail(s.printed(t), printedMax)}
	}
	return p.sent.problems(t, s.batches(t, "kill"))
}
