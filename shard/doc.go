// Package shard is the engine: it holds acknowledged points in memtables, decides through the seal gate when a memtable
// may become an L0 segment, flushes, recovers, and reads across all tiers.
//
// The way of one write: a Batch (points of one request, partitioned by shard) is admitted against published snapshots
// without locks, committed in one short critical section that does no I/O (fit check, seal where needed and granted,
// schema, sequence, hand-over of the frame to the write-ahead log), made durable by the log's group fsync, and
// applied to the memtables. From commit to the end of apply nothing can refuse or cancel it.
//
// Lock order: Engine.commitMu, then FlushController.mu. Memtable.mu is taken alone, because an insert of a large batch
// holds it for long. None of them is held during I/O. The store's publication lock is taken before the last two, never
// after them.
//
// The package does not know HTTP or line protocol: the text of a request is an opaque payload that Options.Decode
// turns back into a Batch at replay. It does not know Parquet either: segments, the manifest and compaction are
// package segment's.
package shard
