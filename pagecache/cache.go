package pagecache

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"
)

const (
	// setAttemptsMax bounds how often a page that ristretto's full buffer refused is set again. Each attempt first
	// waits until the buffer has been worked off, so the second one nearly always succeeds.
	setAttemptsMax = 8

	// slackDivisor gives ristretto a sixteenth more than the capacity, for pages of a segment that were set by a late
	// reader just before they are deleted.
	slackDivisor = 16

	// countersPerPage and countersMin size ristretto's estimate of how often a page is read, which matters only when
	// it must evict. Short files have short pages, hence the minimum.
	countersPerPage = 10
	countersMin     = 1 << 14

	// getBufferItems is ristretto's recommended batch of remembered reads.
	getBufferItems = 64
)

// page is the value that ristretto holds. data is never written after the page was set.
type page struct {
	segment *segment
	data    []byte
}

// Cache holds pages of L0 segment files. It is safe for concurrent use, Close included.
type Cache struct {
	pageBytes int
	pages     *ristretto.Cache[uint64, page]
	gate      *gate
	segments  *segmentSet
	closeOnce sync.Once

	hits       atomic.Uint64
	misses     atomic.Uint64
	evictions  atomic.Uint64
	rejections atomic.Uint64
	refusals   atomic.Uint64
}

// Stats are the cache's counts since the start, and what it holds now.
type Stats struct {
	Hits, Misses uint64 // pages asked for by readers of live segments
	Evictions    uint64 // pages of live segments that ristretto put out for lack of room: the claim is 0
	Rejections   uint64 // pages of live segments that ristretto did not take in for lack of room: the claim is 0
	Refusals     uint64 // pages dropped because ristretto's buffer stayed full; they are read through later
	Pages        int    // in the cache
	Bytes        int64  // in the cache
}

// NewCache returns an empty cache, which runs two goroutines until Close.
func NewCache(o Options) (*Cache, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c := newCache(o.PageBytes)
	pages, err := ristretto.NewCache(c.config(o.CapacityBytes))
	if err != nil {
		return nil, fmt.Errorf("open page cache: %w", err)
	}
	c.pages = pages
	return c, nil
}

func newCache(pageBytes int) *Cache {
	return &Cache{pageBytes: pageBytes, gate: newGate(), segments: newSegmentSet()}
}

// config leaves ristretto's own metrics off: they cost a map entry per page, and its KeysEvicted counts Del too.
func (c *Cache) config(capacityBytes int64) *ristretto.Config[uint64, page] {
	return &ristretto.Config[uint64, page]{
		NumCounters:        max(countersMin, countersPerPage*pageCount(capacityBytes, c.pageBytes)),
		MaxCost:            capacityBytes + capacityBytes/slackDivisor,
		BufferItems:        getBufferItems,
		IgnoreInternalCost: true,
		OnEvict:            c.onEvict,
		OnReject:           c.onReject,
	}
}

// onEvict runs in ristretto's goroutine, and once for each page in Close, then under ristretto's locks.
func (c *Cache) onEvict(item *ristretto.Item[page]) {
	// The segment is nil when a Del took the value before the policy chose the key.
	if held := item.Value.segment; held != nil && !held.retired.Load() && !c.gate.isShut() {
		c.evictions.Add(1)
	}
}

// onReject runs in ristretto's goroutine, also for the second of two Sets of one page that were queued together.
func (c *Cache) onReject(item *ristretto.Item[page]) {
	if item.Value.segment.retired.Load() {
		return
	}
	if _, duplicate := c.pages.Get(item.Key); !duplicate {
		c.rejections.Add(1)
	}
}

// WriteThrough reads a new segment's file and puts all its pages into the cache. When it returns nil they are there,
// except those counted in Stats. On an error none is. A flush that fails afterwards must Retire the id.
func (c *Cache) WriteThrough(id uint64, r io.ReaderAt, sizeBytes int64) error {
	if err := checkKeyRange(id, sizeBytes, c.pageBytes); err != nil {
		return err
	}
	if !c.gate.enter() {
		return fmt.Errorf("write segment %d through: %w", id, ErrClosed)
	}
	defer c.gate.leave()
	held := c.segments.create(id)
	err := c.setAll(held, r, sizeBytes)
	c.pages.Wait()
	if err != nil || held.retired.Load() {
		c.deletePages(id, sizeBytes)
	}
	return err
}

func (c *Cache) setAll(held *segment, r io.ReaderAt, sizeBytes int64) error {
	for number := range int(pageCount(sizeBytes, c.pageBytes)) {
		data, err := readPage(r, held.id, number, sizeBytes, c.pageBytes)
		if err != nil {
			return err
		}
		if !c.setPatiently(pageKey(held.id, number), page{held, data}) {
			c.refusals.Add(1)
		}
	}
	return nil
}

// setPatiently reports whether ristretto's buffer took the page within setAttemptsMax attempts.
func (c *Cache) setPatiently(key uint64, value page) bool {
	for range setAttemptsMax {
		if c.pages.Set(key, value, int64(len(value.data))) {
			return true
		}
		c.pages.Wait()
	}
	return false
}

// readPage reads one whole page into memory of its own.
func readPage(r io.ReaderAt, id uint64, number int, sizeBytes int64, pageBytes int) ([]byte, error) {
	data := make([]byte, pageLength(number, sizeBytes, pageBytes))
	n, err := r.ReadAt(data, int64(number)*int64(pageBytes))
	if n == len(data) {
		return data, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, fmt.Errorf("read page %d of segment %d: %d of %d bytes: %w", number, id, n, len(data), err)
}

// Retire deletes a segment's pages and keeps any more from being inserted. sizeBytes is the size that the segment was
// written through or opened with. Release the bytes at the Controller afterwards, not before. Retiring an id that was
// never cached, or twice, is fine.
func (c *Cache) Retire(id uint64, sizeBytes int64) {
	mayHavePages := c.segments.retire(id)
	if !mayHavePages || !c.gate.enter() {
		return
	}
	defer c.gate.leave()
	c.deletePages(id, sizeBytes)
}

// deletePages needs no Wait: ristretto works off Dels and Sets in the order they were queued, so whoever is granted the
// released bytes sets its pages behind these deletions.
func (c *Cache) deletePages(id uint64, sizeBytes int64) {
	for number := range int(pageCount(sizeBytes, c.pageBytes)) {
		c.pages.Del(pageKey(id, number))
	}
}

// Stats walks the pages to count them: it is meant for a status page, not for a hot path.
func (c *Cache) Stats() Stats {
	stats := Stats{
		Hits:       c.hits.Load(),
		Misses:     c.misses.Load(),
		Evictions:  c.evictions.Load(),
		Rejections: c.rejections.Load(),
		Refusals:   c.refusals.Load(),
	}
	if !c.gate.enter() {
		return stats
	}
	defer c.gate.leave()
	c.pages.IterValues(func(value page) (stop bool) {
		stats.Pages++
		stats.Bytes += int64(len(value.data))
		return false
	})
	return stats
}

// Close drops all pages and ends the cache's goroutines. Readers go on, reading from their files.
func (c *Cache) Close() {
	c.closeOnce.Do(func() {
		c.gate.shut()
		c.pages.Close()
	})
}
