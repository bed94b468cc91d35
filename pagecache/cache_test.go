package pagecache

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/google/go-cmp/cmp"
)

const testPage = PageBytesMin

func openCache(t testing.TB, capacityBytes int64) *Cache {
	t.Helper()
	c, err := NewCache(Options{CapacityBytes: capacityBytes, PageBytes: testPage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// content is a file that differs by its id, at each of its bytes.
func content(id uint64, sizeBytes int) []byte {
	random := rand.NewChaCha8([32]byte{byte(id), byte(id >> 8)})
	data := make([]byte, sizeBytes)
	_, _ = random.Read(data)
	return data
}

// brokenFile can be read until it breaks.
type brokenFile struct {
	io.ReaderAt
	broken atomic.Bool
}

var errBroken = errors.New("input/output error")

func (f *brokenFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.broken.Load() {
		return 0, errBroken
	}
	return f.ReaderAt.ReadAt(p, offset)
}

func writeThrough(t testing.TB, c *Cache, id uint64, data []byte) {
	t.Helper()
	if err := c.WriteThrough(id, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
}

func TestWrittenThroughIsReadWhileTheFileFails(t *testing.T) {
	for _, size := range []int{0, 1, testPage - 1, testPage, testPage + 1, 5*testPage + 17} {
		c := openCache(t, 1<<20)
		data := content(7, size)
		writeThrough(t, c, 7, data)
		file := &brokenFile{}
		file.broken.Store(true)
		got, err := io.ReadAll(io.NewSectionReader(c.Reader(7, file, int64(size)), 0, int64(size)))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("size %d: got %d bytes and error %v, want all of it", size, len(got), err)
		}
		want := Stats{Pages: (size + testPage - 1) / testPage, Bytes: int64(size)}
		stats := c.Stats()
		stats.Hits = 0
		if diff := cmp.Diff(want, stats); diff != "" {
			t.Errorf("size %d (-want +got):\n%s", size, diff)
		}
	}
}

func TestWriteThroughOfAFailingFileLeavesNothing(t *testing.T) {
	c := openCache(t, 1<<20)
	data := content(1, 3*testPage)
	err := c.WriteThrough(1, bytes.NewReader(data), 4*testPage)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want an unexpected end", err)
	}
	c.pages.Wait()
	if got := c.Stats(); got.Pages != 0 {
		t.Errorf("%d pages are left", got.Pages)
	}
}

func TestPageKeysHaveBounds(t *testing.T) {
	c := openCache(t, 1<<20)
	tests := []struct {
		name string
		id   uint64
		size int64
		want error
	}{
		{"largest id", idMax, testPage, nil},
		{"id beyond", idMax + 1, testPage, ErrKeyRange},
		{"pages beyond", 1, pagesMax*testPage + 1, ErrKeyRange},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data := content(1, testPage)
			err := c.WriteThrough(test.id, bytes.NewReader(data), test.size)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			got := make([]byte, 10)
			if _, err := c.Reader(test.id, bytes.NewReader(data), test.size).ReadAt(got, 5); err != nil {
				t.Errorf("reading it: %v", err)
			}
			if !bytes.Equal(got, data[5:15]) {
				t.Error("got other bytes than the file's")
			}
			c.Retire(test.id, testPage)
		})
	}
	if checkKeyRange(1, pagesMax*testPage, testPage) != nil {
		t.Error("the largest number of pages is refused")
	}
}

func TestPageKeysDifferAndSpread(t *testing.T) {
	keys, shards := map[uint64]bool{}, map[uint64]int{}
	for id := range uint64(2000) {
		for _, number := range []int{0, 1, pagesMax - 1} {
			key := pageKey(id, number)
			if keys[key] {
				t.Fatalf("page %d of segment %d has the key of another", number, id)
			}
			keys[key] = true
		}
		shards[pageKey(id, 0)%256]++ // of ristretto's map
	}
	for shard, n := range shards {
		if n > 30 {
			t.Errorf("%d of 2000 first pages fall on shard %d of 256", n, shard)
		}
	}
}

// TestARefusedSetIsSetAgain holds up ristretto until its buffer is full, which makes it refuse.
func TestARefusedSetIsSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(testPage)
		config := c.config(1 << 30)
		pulled := make(chan struct{})
		config.Cost = func(page) int64 { <-pulled; return 1 } // only asked for a cost of 0
		pages, err := ristretto.NewCache(config)
		if err != nil {
			t.Fatal(err)
		}
		c.pages = pages
		defer c.Close()

		filler := c.segments.create(1)
		pages.Set(pageKey(1, 0), page{filler, nil}, 0)
		for number := 1; pages.Set(pageKey(1, number), page{filler, nil}, 1); number++ {
		}
		data := content(2, 10*testPage)
		if _, err := c.Reader(3, bytes.NewReader(data), testPage).ReadAt(make([]byte, 1), 0); err != nil {
			t.Errorf("a read through fails while the buffer is full: %v", err)
		}
		if got := c.refusals.Load(); got != 1 {
			t.Errorf("%d refusals counted, want the one that isn't tried again", got)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			writeThrough(t, c, 2, data)
		}()
		synctest.Wait() // the first page was refused, and waits
		close(pulled)
		<-done
		for number := range 10 {
			if _, ok := pages.Get(pageKey(2, number)); !ok {
				t.Errorf("page %d is missing", number)
			}
		}
		if got := c.refusals.Load(); got != 1 {
			t.Errorf("%d refusals counted after the write through, want still 1", got)
		}
	})
}

// TestNeverEvictedByCost runs segments through a full tier, with the controller as the only bound.
func TestNeverEvictedByCost(t *testing.T) {
	const capacity = 100 * testPage
	c := openCache(t, capacity)
	clock := newHandClock()
	controller := NewController(Options{CapacityBytes: capacity, Now: clock.Now})
	controller.Drained(1<<40, 1)
	random := rand.New(rand.NewPCG(3, 4))
	live := map[uint64][]byte{}
	retire := func() {
		for id, data := range live {
			c.Retire(id, int64(len(data)))
			controller.Retire(int64(len(data)))
			delete(live, id)
			return
		}
	}
	for id := uint64(1); id < 2000; id++ {
		clock.Advance(1e9)
		size := 1 + random.IntN(20*testPage)
		r, ok := controller.Reserve(int64(size))
		for ; !ok; r, ok = controller.Reserve(int64(size)) {
			retire()
			clock.Advance(1e9)
		}
		live[id] = content(id, size)
		writeThrough(t, c, id, live[id])
		r.Settle(int64(size))
	}
	for id, data := range live {
		file := &brokenFile{}
		file.broken.Store(true)
		got := make([]byte, len(data))
		if _, err := c.Reader(id, file, int64(len(data))).ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("segment %d isn't all in the cache: %v", id, err)
		}
	}
	stats, ledger := c.Stats(), controller.Ledger()
	if stats.Evictions != 0 || stats.Rejections != 0 || stats.Refusals != 0 || stats.Misses != 0 {
		t.Errorf("got %+v, want no page lost", stats)
	}
	if stats.Bytes != ledger.RegisteredBytes {
		t.Errorf("the cache holds %d bytes, the ledger %d", stats.Bytes, ledger.RegisteredBytes)
	}
	if ledger.HighestBytes <= capacity*9/10 || ledger.HighestBytes > capacity {
		t.Errorf("highest level is %d of %d, want nearly full", ledger.HighestBytes, capacity)
	}
}

func TestEvictionsOfLiveSegmentsAreCounted(t *testing.T) {
	c := openCache(t, 16*testPage) // and a sixteenth: 17 pages
	for id := range uint64(2) {
		writeThrough(t, c, id, content(id, 10*testPage))
	}
	stats := c.Stats()
	if stats.Pages != 17 || stats.Evictions+stats.Rejections != 3 {
		t.Errorf("got %+v, want 17 pages of 20 and 3 counted", stats)
	}
	c.Close()
	if got := c.Stats().Evictions; got != stats.Evictions {
		t.Errorf("Close counted %d evictions", got-stats.Evictions)
	}
}

// TestRejectionsOfLiveSegmentsAreCounted fills the cache with pages that are read so often that others aren't let in.
func TestRejectionsOfLiveSegmentsAreCounted(t *testing.T) {
	if raceDetector {
		t.Skip("ristretto learns of few reads under the race detector, through sync.Pool")
	}
	c := openCache(t, 16*testPage)
	data := content(1, 17*testPage)
	writeThrough(t, c, 1, data)
	opened := c.Reader(1, bytes.NewReader(data), int64(len(data)))
	// Ristretto learns of reads in a goroutine of its own, which others keep from the only processor if they never yield.
	for id, start := uint64(2), time.Now(); time.Since(start) < time.Minute; id++ {
		for range 10 {
			if _, err := opened.ReadAt(make([]byte, len(data)), 0); err != nil {
				t.Fatal(err)
			}
		}
		runtime.Gosched()
		writeThrough(t, c, id, data[:testPage])
		if c.Stats().Rejections > 0 {
			return
		}
		c.Retire(id, testPage)
	}
	t.Error("a page that found no room was never counted")
}

// TestSettingAPageEndsWhenRistrettoNeverTakesIt closes ristretto behind the cache's back: then it refuses for ever.
func TestSettingAPageEndsWhenRistrettoNeverTakesIt(t *testing.T) {
	c := openCache(t, 16*testPage)
	c.pages.Close()
	writeThrough(t, c, 1, content(1, 3*testPage))
	if got := c.Stats().Refusals; got != 3 {
		t.Errorf("%d refusals counted, want 3", got)
	}
}

func TestRetiringIsNoEviction(t *testing.T) {
	c := openCache(t, 16*testPage)
	for id := range uint64(20) {
		data := content(id, 10*testPage)
		writeThrough(t, c, id, data)
		c.Retire(id, int64(len(data)))
		c.Retire(id, int64(len(data)))
	}
	c.Retire(99, testPage) // never seen
	c.pages.Wait()
	if diff := cmp.Diff(Stats{}, c.Stats()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if used := c.pages.MaxCost() - c.pages.RemainingCost(); used != 0 {
		t.Errorf("ristretto still counts %d bytes", used)
	}
}

// TestNoPageOfARetiredSegmentStays lets readers and a write through race with the retirement.
func TestNoPageOfARetiredSegmentStays(t *testing.T) {
	const size = 8 * testPage
	c := openCache(t, 1<<20)
	for id := uint64(1); id <= 300; id++ {
		data := content(id, size)
		file := bytes.NewReader(data)
		start := make(chan struct{})
		var racers sync.WaitGroup
		for range 3 {
			racers.Go(func() {
				opened := c.Reader(id, file, size)
				got := make([]byte, size)
				<-start
				if _, err := opened.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
					t.Errorf("segment %d reads wrong: %v", id, err)
				}
			})
		}
		racers.Go(func() {
			<-start
			if id%2 == 0 {
				writeThrough(t, c, id, data)
			}
		})
		racers.Go(func() {
			<-start
			c.Retire(id, size)
		})
		close(start)
		racers.Wait()
		late := make([]byte, 10) // a view that still holds the segment may open it now
		if _, err := c.Reader(id, file, size).ReadAt(late, 5); err != nil || !bytes.Equal(late, data[5:15]) {
			t.Errorf("retired segment %d reads wrong: %v", id, err)
		}
	}
	c.pages.Wait()
	if got := c.Stats(); got.Pages != 0 {
		t.Errorf("%d pages of retired segments are left", got.Pages)
	}
	if used := c.pages.MaxCost() - c.pages.RemainingCost(); used != 0 {
		t.Errorf("ristretto still counts %d bytes", used)
	}
	if got := len(c.segments.live); got != 0 {
		t.Errorf("%d segments are still known", got)
	}
}

func TestCloseBesideEverything(t *testing.T) {
	for range 50 {
		c := openCache(t, 1<<20)
		data := content(1, 3*testPage)
		var racers sync.WaitGroup
		for id := range uint64(3) {
			racers.Go(func() {
				err := c.WriteThrough(id, bytes.NewReader(data), int64(len(data)))
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("write through beside Close: %v", err)
				}
				got := make([]byte, len(data))
				_, err = c.Reader(id, bytes.NewReader(data), int64(len(data))).ReadAt(got, 0)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("reading beside Close: %v", err)
				}
				c.Stats()
				c.Retire(id, int64(len(data)))
			})
		}
		racers.Go(c.Close)
		racers.Go(c.Close)
		racers.Wait()
		if err := c.WriteThrough(1, bytes.NewReader(data), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("write through after Close: %v", err)
		}
		if got := c.Stats().Pages; got != 0 {
			t.Errorf("%d pages after Close", got)
		}
	}
}
