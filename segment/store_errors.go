package segment

import "errors"

// ErrManifestVersion means that another version of lineweir wrote the manifest. Nothing is damaged.
var ErrManifestVersion = errors.New("the manifest is of another version")

// ErrNoManifest means that a directory holds no data, or not all of it.
var ErrNoManifest = errors.New("there is no manifest in the data directory")

// Errors of a change to the live set.
var (
	// ErrOutcomeUnknown says that writing or syncing the manifest failed: the edit may or may not be durable. The store
	// takes no further edit, deletes nothing that the edit touches, and the next OpenStore finds out.
	ErrOutcomeUnknown = errors.New("the manifest edit has an unknown outcome")
	// ErrReadOnly answers every edit after one with an unknown outcome.
	ErrReadOnly = errors.New("the segment store is read-only until it is opened again")
	// ErrNotLive refuses an edit that removes or promotes a segment which is not live. Nothing has changed.
	ErrNotLive = errors.New("a segment that the edit needs is not live")
	// ErrDropped refuses an edit that adds a segment of rows that were dropped after they had been written. Nothing has
	// changed.
	ErrDropped = errors.New("the rows were dropped")
	// ErrDiskLow refuses an edit before its first byte is written. Nothing has changed.
	ErrDiskLow = errors.New("the disk has no room for a manifest edit")
	// ErrClosed answers calls after Close.
	ErrClosed = errors.New("the segment store is closed")
)
