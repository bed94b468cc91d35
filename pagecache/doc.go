// Package pagecache bounds the L0 tier. It holds three things that share one number, the capacity:
//
//   - Cache keeps the pages of L0 segment files in memory, in a ristretto cache.
//   - Controller keeps the tier's ledger, grants seals from it and predicts when the next grant comes.
//   - Turns keeps the line of writes that need a seal, and tells who may wait and when the others should come back.
//
// # The way of one page
//
// A flush writes a segment file and hands it to WriteThrough, which reads it page by page and sets each page, again
// if ristretto's buffer refused it. Scans read the segment through a Reader: a page in the cache is copied out,
// another is read from the file and set. When compaction has merged the segment, Retire deletes its pages, and after
// that the caller releases the bytes at the Controller. In that order the cost that ristretto sees never passes the
// ledger, so no page of a live segment is ever evicted by cost, as long as the ledger keeps its bound.
//
// # The way of one grant
//
// A memtable that must be sealed asks Reserve for the worst-case size of its flush. Below the soft limit the answer is
// yes. Between the soft and the hard limit grants are spaced, so that granted bytes per second are the measured drain
// rate times a fraction that falls from a little above 1 to a small positive value. At the hard limit the answer is no.
// The flush settles the reservation to the true size, compaction retires the segment, and both call the OnChange
// listeners. NextGrant says when time alone brings the next grant. MaySeal and Ledger read a snapshot and take no lock.
//
// # Ownership
//
// A page is one allocation of its true length. It belongs to the cache from the moment it is set and is never written
// again; ReadAt copies out of it. The garbage collector frees it when it has left the cache and the last copy is done.
// A Reservation belongs to its caller until Settle or Release.
//
// # What it does not do
//
// It opens, closes and deletes no file and knows no format: segments are ids, sizes and io.ReaderAt. The
// Controller keeps no queue: who asks first is decided by the caller, by the places that Turns gives out. Asking for
// the first place first is what keeps a large reservation from being passed by small ones for ever. It does not slow
// anyone down by itself: StallDelay and NextGrant are answers, not sleeps. The ledger never reads ristretto, whose
// counts are late by design.
package pagecache
