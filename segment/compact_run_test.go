package segment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

// bubble runs a test with fake time. The library keeps zstd coders in a sync.Pool, and a channel that a coder made in
// a bubble can't be used outside of it. Two collections empty all pools.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	emptyPools := func() {
		runtime.GC()
		runtime.GC()
	}
	emptyPools()
	defer emptyPools()
	synctest.Test(t, test)
}

// inBubble runs a test of a running compactor with fake time. Run ends before the test does.
func inBubble(t *testing.T, o CompactorOptions, test func(t *testing.T, s *Store, c *Compactor)) {
	inBubbleOn(t, memory.New(), o, test)
}

func inBubbleOn(t *testing.T, fsys vfs.FS, o CompactorOptions, test func(t *testing.T, s *Store, c *Compactor)) {
	bubble(t, func(t *testing.T) {
		s := openTestStore(t, StoreOptions{FS: fsys, Dir: "/data"})
		o.Store = s
		c := newTestCompactor(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		var group errgroup.Group
		group.Go(func() error { return c.Run(ctx) })
		defer func() {
			cancel()
			if err := group.Wait(); err != nil {
				t.Errorf("Run returned %v", err)
			}
		}()
		test(t, s, c)
	})
}

func addOne(t *testing.T, s *Store) { addL0(t, s, map[string][]row{"m": series("a", noon, 10, 1)}) }

func TestRunFollowsItsTriggers(t *testing.T) {
	inBubble(t, CompactorOptions{}, func(t *testing.T, s *Store, c *Compactor) {
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := s.Level(0).Segments; got != want {
				t.Errorf("%s, level 0 has %d segments, want %d", when, got, want)
			}
		}
		addOne(t, s)
		c.Wake()
		time.Sleep(29 * time.Second)
		expect("before its age", 1)
		time.Sleep(time.Second)
		expect("at its age", 0)
		for range 3 {
			addOne(t, s)
			c.Wake()
		}
		expect("with three files", 3)
		addOne(t, s)
		c.Wake()
		expect("with four files", 0)
		addOne(t, s)
		c.Poke()
		expect("after a poke", 0)
	})
	inBubble(t, CompactorOptions{TriggerBytes: 1}, func(t *testing.T, s *Store, c *Compactor) {
		addOne(t, s)
		c.Wake()
		synctest.Wait()
		if got := s.Level(0).Segments; got != 0 {
			t.Errorf("with enough bytes, level 0 has %d segments", got)
		}
	})
}

func TestAPauseIsNotEndedByAPoke(t *testing.T) {
	inBubble(t, CompactorOptions{}, func(t *testing.T, s *Store, c *Compactor) {
		c.SetLimit(0, true)
		addOne(t, s)
		c.Poke()
		time.Sleep(time.Hour)
		if got := s.Level(0).Segments; got != 1 {
			t.Errorf("while paused, level 0 went to %d segments", got)
		}
		if status := c.Status(); !status.Paused || status.Running {
			t.Errorf("status is %+v", status)
		}
		c.SetLimit(0, false)
		synctest.Wait()
		if got := s.Level(0).Segments; got != 0 {
			t.Errorf("after the pause, level 0 has %d segments: the poke was forgotten", got)
		}
	})
}

func TestTheLimitSpacesTheDrain(t *testing.T) {
	var reports int
	var reported, largest int64
	var busy time.Duration
	o := CompactorOptions{Progress: func(n int64, d time.Duration) {
		reports++
		reported += n
		largest = max(largest, n)
		busy += d
	}}
	inBubble(t, o, func(t *testing.T, s *Store, c *Compactor) {
		for range 4 {
			addL0(t, s, map[string][]row{"m": series("a", noon, 10_000, 1)})
		}
		total := s.L0Bytes()
		c.SetLimit(total/10, false)
		start := time.Now()
		c.Wake()
		for s.L0Bytes() > 0 {
			time.Sleep(time.Second / 10)
		}
		took := time.Since(start)
		synctest.Wait() // for the last report
		if took < 9*time.Second || took > 11*time.Second {
			t.Errorf("a tenth of it per second took %v", took)
		}
		if reported != total || busy < took-time.Second || busy > took {
			t.Errorf("reported were %d bytes in %v, want %d in %v", reported, busy, total, took)
		}
		if reports < 20 || largest > total/20 {
			t.Errorf("%d reports of up to %d bytes, want them several times a second", reports, largest)
		}
	})
}

func TestAPauseDoesNotCountAsBusy(t *testing.T) {
	var busy time.Duration
	o := CompactorOptions{Progress: func(_ int64, d time.Duration) { busy += d }}
	inBubble(t, o, func(t *testing.T, s *Store, c *Compactor) {
		addL0(t, s, map[string][]row{"m": series("a", noon, 10_000, 1)})
		c.SetLimit(s.L0Bytes()/4, false)
		c.Poke()
		time.Sleep(time.Second)
		c.SetLimit(s.L0Bytes()/4, true)
		time.Sleep(time.Hour)
		c.SetLimit(0, false)
		synctest.Wait()
		if s.L0Bytes() != 0 {
			t.Error("the job did not end")
		}
		if busy < time.Second/2 || busy > 2*time.Second {
			t.Errorf("busy for %v, want about a second", busy)
		}
	})
}

func TestCancellingEndsAJobAtOnce(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused=%t", paused), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				fsys := memory.New()
				s := openTestStore(t, StoreOptions{FS: fsys, Dir: "/data"})
				c := newTestCompactor(t, CompactorOptions{Store: s, MaxBytesPerSecond: 1})
				addL0(t, s, map[string][]row{"m": series("a", noon, 10_000, 1)})
				want := takeSnapshot(s)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- c.Run(ctx) }()
				c.Poke()
				time.Sleep(time.Minute) // within the job
				c.SetLimit(1, paused)
				synctest.Wait()
				start := time.Now()
				cancel()
				if err := <-ended; err != nil || time.Since(start) != 0 {
					t.Errorf("Run returned %v after %v", err, time.Since(start))
				}
				if got := takeSnapshot(s); len(got.Segments) != len(want.Segments) {
					t.Errorf("the cancelled job changed the live set to %v", got.Order)
				}
				entries, err := fsys.ReadDir("/data/l0")
				if err != nil || len(entries) != 1 {
					t.Errorf("l0 has %v, %v", entries, err)
				}
				if entries, _ := fsys.ReadDir("/data/l1/db/m/2026-03-14"); len(entries) != 0 {
					t.Errorf("the cancelled job left %v", entries)
				}
			})
		})
	}
}

func TestLevel1StopsForLevel0(t *testing.T) {
	inBubble(t, CompactorOptions{}, func(t *testing.T, s *Store, c *Compactor) {
		for range mergeFanIn - 1 {
			addOne(t, s)
			c.Poke()
			synctest.Wait()
		}
		c.SetLimit(s.Level(1).SizeBytes/100, false) // merging level 1 takes 100 seconds
		addOne(t, s)
		c.Poke()
		for s.Level(0).Segments > 0 {
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		if got := s.Level(1).Segments; got != mergeFanIn {
			t.Fatalf("level 1 has %d segments, want %d that are being merged", got, mergeFanIn)
		}
		addOne(t, s)
		c.Poke()
		for s.Level(0).Segments > 0 {
			time.Sleep(time.Second)
		}
		if got := s.Level(1).Segments; got != mergeFanIn+1 {
			t.Errorf("when level 0 was empty, level 1 had %d segments, want %d: the new one did not wait", got, mergeFanIn+1)
		}
		time.Sleep(time.Hour)
		if got := s.Level(1).Segments; got != 2 {
			t.Errorf("in the end level 1 has %d segments, want 2", got)
		}
	})
}

func TestOneBadSegmentDoesNotStopTheDrain(t *testing.T) {
	const bad = 4
	unreadable := vfs.Inject(memory.New(), func(op vfs.Op) error {
		if op.Name == "readat" && strings.HasSuffix(op.Path, numberedName(bad, segmentSuffix)) {
			return errInjected
		}
		return nil
	})
	tests := []struct {
		name   string
		fs     vfs.FS
		damage bool // the error then names the segment
	}{
		{"damaged", memory.New(), true},
		{"unreadable", unreadable, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubbleOn(t, tt.fs, CompactorOptions{}, func(t *testing.T, s *Store, c *Compactor) {
				c.SetLimit(0, true)
				for range 2 * mergeFilesMax {
					m := addL0(t, s, map[string][]row{"m": series("a", noon, 10, 1)})[0]
					if tt.damage && m.ID == bad {
						overwrite(t, s, m)
					}
				}
				c.SetLimit(0, false)
				c.Wake()
				time.Sleep(5 * time.Second)
				status := c.Status()
				if s.Level(0).Segments != 0 || status.Promoted != 1 || status.Failures < promoteAfterFailures {
					t.Errorf("after 5 s level 0 has %d segments, status is %+v", s.Level(0).Segments, status)
				}
			})
		})
	}
}

func TestAPokeOutlastsAFailure(t *testing.T) {
	failing := true
	var mu sync.Mutex
	fsys := vfs.Inject(memory.New(), func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if failing && op.Name == "open" && strings.HasPrefix(op.Path, "/data/l1") {
			failing = false
			return errInjected
		}
		return nil
	})
	inBubbleOn(t, fsys, CompactorOptions{}, func(t *testing.T, s *Store, c *Compactor) {
		addOne(t, s)
		c.Poke()
		time.Sleep(time.Second)
		if status := c.Status(); s.Level(0).Segments != 0 || status.Failures != 1 || status.Promoted != 0 {
			t.Errorf("after the second try level 0 has %d segments, status is %+v", s.Level(0).Segments, status)
		}
	})
}

func overwrite(t *testing.T, s *Store, m Meta) {
	t.Helper()
	file, err := s.options.FS.OpenFile(s.path(&m), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte("damage"), 100)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestRunGivesUpWhenTheStoreIsReadOnly(t *testing.T) {
	fsys := memory.New()
	s := openTestStore(t, StoreOptions{FS: fsys, Dir: "/data"})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	addL0(t, s, map[string][]row{"m": series("a", noon, 10, 1)})
	fsys.FailNextSync()
	if _, err := s.Apply(Edit{Databases: []string{"db"}}, nil); err == nil {
		t.Fatal("the edit succeeded")
	}
	c.Poke()
	if err := c.Run(t.Context()); err == nil {
		t.Error("Run ended without an error")
	}
	if s.Level(0).Segments != 1 {
		t.Error("level 0 has changed")
	}
}

// Each write overwrites one point. A reader that begins after a write was acknowledged must see it or a newer one,
// whatever compaction does meanwhile.
func TestReadersSeeTheNewestWriteBesideCompaction(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s, TriggerFiles: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var acknowledged atomic.Int64
	var group errgroup.Group
	group.Go(func() error { return c.Run(ctx) })
	group.Go(func() error {
		defer cancel()
		for i := range int64(200) {
			rows := []row{{Key: key("host", "a"), Time: noon.UnixNano(), Fields: map[string]cell{"value": integer(i)}}}
			if err := flushRows(s, map[string][]row{"m": rows}); err != nil {
				return err
			}
			acknowledged.Store(i)
			c.Wake()
		}
		return nil
	})
	for ctx.Err() == nil {
		atLeast := acknowledged.Load()
		rows := readRows(t, s, "m")
		if atLeast == 0 && len(rows) == 0 {
			continue
		}
		if len(rows) != 1 || int64(rows[0].Fields["value"].Number) < atLeast {
			t.Fatalf("after write %d a reader sees %v", atLeast, rows)
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := c.Status().Merges; got == 0 {
		t.Error("nothing was merged meanwhile")
	}
}
