package shard

import "lineweir/segment"

// usage is what rows take: counted, in memory, and at worst in the files of their flush. Usages add up.
type usage struct {
	rows        int64
	tables      int64
	memoryBytes int64
	cost        segment.FileCost
}

// Memory that a memtable takes, with room for the growth of slices.
const (
	tableMemoryBytes  = 1024
	columnMemoryBytes = 256
	rowMemoryBytes    = 16 // time and series
	seriesMemoryBytes = 72 // entry of the series index
	valueMemoryBytes  = 14 // number and row
	stringMemoryBytes = 32 // slice header and row, beside the text
	runMemoryBytes    = 32 // of each commit in a table: its sequence, and what small allocations add
)

func (u *usage) add(v usage) {
	u.rows += v.rows
	u.tables += v.tables
	u.memoryBytes += v.memoryBytes
	u.cost.Add(v.cost)
}

// subtract takes back what add brought.
func (u *usage) subtract(v usage) {
	u.rows -= v.rows
	u.tables -= v.tables
	u.memoryBytes -= v.memoryBytes
	u.cost.Subtract(v.cost)
}

// bytes is the one number that the cap, the predicate and the reservation share: the larger of the memory and the
// worst-case size of the flush.
func (u usage) bytes() int64 { return max(u.memoryBytes, u.cost.Bytes()) }

// addTable counts a measurement that is new to the memtable.
func (u *usage) addTable(database, measurement string) {
	names := int64(len(database) + len(measurement))
	u.tables++
	u.memoryBytes += tableMemoryBytes + names
	u.cost.Files++
	u.cost.NameBytes += names
}

// addRun counts a commit in a table. Of a write of one row it is a third.
func (u *usage) addRun() { u.memoryBytes += runMemoryBytes }

// addTag counts a tag column that is new to its table.
func (u *usage) addTag(nameBytes int) {
	u.memoryBytes += columnMemoryBytes + int64(nameBytes)
	u.cost.Tags++
	u.cost.NameBytes += int64(nameBytes)
}

// addField counts a field column that is new to its table.
func (u *usage) addField(nameBytes int) {
	u.memoryBytes += columnMemoryBytes + int64(nameBytes)
	u.cost.Fields++
	u.cost.NameBytes += int64(nameBytes)
}

// addRow counts a row with that many tags; indexed is for how many of them it may need an index, see
// segment.IndexedRows.
func (u *usage) addRow(tags, indexed int64) {
	u.rows++
	u.memoryBytes += rowMemoryBytes
	u.cost.Rows++
	u.cost.TagRows += tags
	u.cost.TagIndexes += indexed
}

// addSeries counts a series that is new to its table; keyBytes is the length of its key.
func (u *usage) addSeries(keyBytes, tags int) {
	u.memoryBytes += seriesMemoryBytes + int64(keyBytes)
	u.cost.SeriesTags += int64(tags)
	u.cost.TagStrings += int64(tags)
	u.cost.TagBytes += int64(keyBytes)
}

// addValues counts values of a field; textBytes is the length of strings together.
func (u *usage) addValues(kind segment.Kind, count, textBytes int) {
	if kind == segment.KindString {
		u.memoryBytes += int64(count)*stringMemoryBytes + int64(textBytes)
		u.cost.Strings += int64(count)
		u.cost.StringBytes += int64(textBytes)
		return
	}
	u.memoryBytes += int64(count) * valueMemoryBytes
	u.cost.Numbers += int64(count)
}

// unflushedBytes is what the shard's memtables take on disk at worst when they are flushed.
func (f *Fill) unflushedBytes() int64 { return f.active.cost.Bytes() + f.waiting }

// flushBytes is what must be flushed before the shard can be sealed: all that is frozen, if the queue is full.
func (f *Fill) flushBytes() int64 {
	if f.frozen < f.frozenMax {
		return 0
	}
	return f.frozenBytes
}

// caps bound one memtable.
type caps struct {
	bytes  int64
	rows   int64
	tables int64
}

// Fill is an immutable snapshot of how full a shard is. It is derived from the shard's state under its lock and
// published for readers without locks.
type Fill struct {
	active      usage // applied, and reserved by commits that are not applied yet
	frozen      int   // memtables waiting for their flush
	frozenBytes int64 // of those
	waiting     int64 // bytes that those, and held ones, take on disk at worst
	caps        caps  // of this generation, fixed at its rotation; see pagecache.Controller.Grain
	frozenMax   int
	Generation  uint64
}

// SealRequired is the one predicate: it reports whether rows that need so much can land in the active memtable only
// after a seal. Admission asks it of the published snapshot, commit of the live state, rotation after an insert of
// both.
func SealRequired(fill *Fill, need usage) bool {
	if fill.active.rows == 0 {
		// An empty memtable can't be sealed. It takes more than its own cap, up to that of the largest memtable, beyond
		// which a batch is too large.
		return false
	}
	after := fill.active
	after.add(need)
	return exceeds(after, fill.caps)
}

func exceeds(u usage, c caps) bool {
	return u.bytes() > c.bytes || u.rows > c.rows || u.tables > c.tables
}
