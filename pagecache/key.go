package pagecache

import "fmt"

// A page's key is the segment's id and the page's number in one word, id << pageBits | page, then mixed. Ristretto uses
// a uint64 as it is, without a conflict word: so that two pages never meet under one key, mixing must be one to one. It
// also takes the shard of its map and the counters of its estimate from the low bits alone: unmixed, the first pages of
// all segments would share one lock of 256, and one count of reads.
const (
	pageBits = 24
	pagesMax = 1 << pageBits
	idMax    = 1<<(64-pageBits) - 1
)

func pageKey(id uint64, number int) uint64 { return mix(id<<pageBits | uint64(number)) }

// mix is the finalizer of MurmurHash3 (Austin Appleby, public domain): shifts and odd factors, each of which can be
// undone.
func mix(key uint64) uint64 {
	key ^= key >> 33
	key *= 0xff51afd7ed558ccd
	key ^= key >> 33
	key *= 0xc4ceb9fe1a85ec53
	key ^= key >> 33
	return key
}

// pageCount is how many pages a file has; the last one may be short.
func pageCount(sizeBytes int64, pageBytes int) int64 {
	return (sizeBytes + int64(pageBytes) - 1) / int64(pageBytes)
}

// pageLength is the true length of one page of a file.
func pageLength(number int, sizeBytes int64, pageBytes int) int {
	return int(min(int64(pageBytes), sizeBytes-int64(number)*int64(pageBytes)))
}

// checkKeyRange refuses a segment whose pages would share keys with those of another.
func checkKeyRange(id uint64, sizeBytes int64, pageBytes int) error {
	if pages := pageCount(sizeBytes, pageBytes); id > idMax || pages > pagesMax {
		return fmt.Errorf("segment %d of %d pages: %w", id, pages, ErrKeyRange)
	}
	return nil
}
