package pagecache

import (
	"fmt"
	"io"
)

// reader reads one segment's file through the cache.
type reader struct {
	cache     *Cache
	segment   *segment
	source    io.ReaderAt
	sizeBytes int64
}

// Reader returns a read-through view of the first sizeBytes of r, the file of segment id. It is safe for concurrent use
// if r is, and reads what is cached even while r fails. Like the cache it never closes r. A segment whose pages can
// have no keys, and one that is retired, is read from r alone.
func (c *Cache) Reader(id uint64, r io.ReaderAt, sizeBytes int64) io.ReaderAt {
	if checkKeyRange(id, sizeBytes, c.pageBytes) != nil {
		return io.NewSectionReader(r, 0, sizeBytes)
	}
	return &reader{cache: c, segment: c.segments.open(id), source: r, sizeBytes: sizeBytes}
}

// ReadAt implements io.ReaderAt: fewer bytes than asked for come with an error, which is io.EOF at the file's end.
func (r *reader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read segment %d: negative offset %d", r.segment.id, offset)
	}
	if offset >= r.sizeBytes {
		return 0, io.EOF
	}
	if room := r.sizeBytes - offset; int64(len(p)) > room {
		n, err := r.readWithin(p[:room], offset)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return r.readWithin(p, offset)
}

// readWithin fills p, which lies inside the file.
func (r *reader) readWithin(p []byte, offset int64) (int, error) {
	if r.segment.retired.Load() {
		return r.readSource(p, offset)
	}
	pageBytes := int64(r.cache.pageBytes)
	done := 0
	for done < len(p) {
		at := offset + int64(done)
		data, err := r.page(int(at / pageBytes))
		if err != nil {
			return done, err
		}
		done += copy(p[done:], data[at%pageBytes:])
	}
	return done, nil
}

func (r *reader) readSource(p []byte, offset int64) (int, error) {
	n, err := r.source.ReadAt(p, offset)
	if n == len(p) {
		return n, nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, fmt.Errorf("read retired segment %d at %d: %d of %d bytes: %w", r.segment.id, offset, n, len(p), err)
}

// page returns a page that the caller must not write to.
func (r *reader) page(number int) ([]byte, error) {
	key := pageKey(r.segment.id, number)
	if data, ok := r.cache.get(key); ok {
		return data, nil
	}
	data, err := readPage(r.source, r.segment.id, number, r.sizeBytes, r.cache.pageBytes)
	if err != nil {
		return nil, err
	}
	r.cache.fill(key, page{r.segment, data})
	return data, nil
}

func (c *Cache) get(key uint64) ([]byte, bool) {
	if !c.gate.enter() {
		return nil, false
	}
	defer c.gate.leave()
	found, ok := c.pages.Get(key)
	if !ok {
		c.misses.Add(1)
		return nil, false
	}
	c.hits.Add(1)
	return found.data, true
}

// fill sets a page that was read through, once: if the buffer is full, the next reader tries again. The segment may
// have been retired before the Set. Retire marks first and deletes afterwards, so looking at the mark after the Set
// leaves two cases: either it isn't set yet, and the deletion is still to come, or it is, and the page is deleted here.
func (c *Cache) fill(key uint64, value page) {
	if value.segment.retired.Load() || !c.gate.enter() {
		return
	}
	defer c.gate.leave()
	if !c.pages.Set(key, value, int64(len(value.data))) {
		c.refusals.Add(1)
		return
	}
	if value.segment.retired.Load() {
		c.pages.Del(key)
	}
}
