// Package wal is the write-ahead log: it makes opaque frames durable in the order they were handed over.
//
// # The way of one frame
//
// Append puts the frame into the open group, a slice under a small lock, and returns the group's Ticket. One writer
// goroutine takes the oldest group, writes it with a header in front and a checksum behind, calls Sync once, and then
// wakes everybody who waits for the ticket. While it syncs, the next group gathers. A group is written only after the
// Sync of the group before has returned, so at most the last group can be incomplete after a crash.
//
// Groups go into files of a fixed size whose space was written with zeros before, so that a full disk is noticed by
// Room, before a frame is accepted, and so that Sync has no metadata to write. A full file is sealed by a trailer that
// names its successor; the successor is made from the spare file, and a second goroutine makes the next spare. Trim
// removes files that nobody needs any more. FORMAT.md describes the bytes and the recovery.
//
// # Ownership
//
// The log owns Frame.Payload from Append until the ticket is done. A payload handed out by Replay or Dump is valid
// during the call only. The directory belongs to one Log at a time; the caller holds the lock that says so.
//
// # Failures
//
// A failed write or Sync is never retried, because a second Sync may succeed without having written anything. The log
// is poisoned: waiting tickets get ErrOutcomeUnknown, later frames ErrPoisoned, and what is on the disk is found out
// by the next Open.
//
// # What it does not do
//
// It knows no points, no shards and no memtables; it does not compress; it does not decide what to do when it is full,
// and it repairs no damage by itself: Open refuses with a CorruptionError, and a RepairPlan is for
// those who accept the loss.
package wal
