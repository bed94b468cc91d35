// Package segment keeps rows in immutable Parquet files, knows which of them exist, and merges them.
//
// # The way of one row
//
// A flush hands its rows as a Source, sorted by series key and time, to a pending file of level 0. A WriterPool
// makes values of the rows of each Block, column by column, and hands them to the library, which makes pages of
// them and gathers those of a row group. What the library writes passes through checksums, and the footer gets them
// last. The file becomes part of the data by an edit of the manifest, and no other way.
//
// A scan opens the footer, rules out row groups and pages by time and tags, reads the rest page by page, and
// yields Blocks again: first time and tags, which decide what is selected, then the fields of the selected rows.
// The library sees no byte whose checksum has not been checked.
// Merge makes one Source of several. It hands blocks on as they are, or copies whole runs, wherever sources don't
// overlap; where they do, each field of a row has its newest value. Compaction is such a merge of level 0, written
// to files of level 1.
//
// FORMAT.md describes the bytes of segments and manifest, their checksums and what to do about damage.
//
// # Ownership
//
// A Block, and all that it refers to, belongs to the Source that yielded it, until the next call of its Next or
// Close. Merge owns its sources and closes them; WriterPool.Write does not close its source. A file is unlinked
// when the last View that holds it is released.
//
// # What is ours in a file
//
// Pages, encodings, compression, indexes and footer are parquet-go's, in both directions. Ours are the schema, the
// places where pages and row groups end, on which the worst case of a file of level 0 rests, and the checksums.
//
// # What it does not do
//
// It knows no log, no memtable and no admission. It does not decide when to flush, and it keeps no schema: the
// fields of a measurement are whatever its sources hold, and two kinds of one field are an error. It repairs
// nothing: damage is a CorruptionError, and what the manifest doesn't name is set aside.
package segment
