package pagecache

import "errors"

// Errors of opening.
var (
	// ErrInvalidOptions is wrapped by each problem that Options.Validate finds.
	ErrInvalidOptions = errors.New("invalid page cache options")
)

// Errors of caching pages.
var (
	// ErrClosed is returned when pages are written through after Close.
	ErrClosed = errors.New("the page cache is closed")

	// ErrKeyRange is returned for a segment whose id or number of pages doesn't fit the 64 bits of a page's key.
	ErrKeyRange = errors.New("segment id or page number does not fit a page key")
)

// Errors of admission. Both are over when bytes have drained, so a caller may try again.
var (
	// ErrTierFull says that registered and reserved bytes have reached the capacity of the L0 tier.
	ErrTierFull = errors.New("the L0 tier is full")

	// ErrMemoryFull says that the memtables hold all the memory they may.
	ErrMemoryFull = errors.New("the memtables are full")
)
