package segment

// FileCost counts what the size of a level-0 file depends on. Bytes of a sum is at most the sum of Bytes, so an
// engine may add up costs as rows arrive, and count anything twice, but must leave nothing out.
type FileCost struct {
	Files       int64 // one per measurement
	NameBytes   int64 // database and measurement of each file, names of columns
	Columns     int64 // tags and fields, without time
	Rows        int64
	TagIndexes  int64 // for each series, its tags times the lesser of its rows and IndexedRows
	Numbers     int64 // values that are not strings
	Strings     int64 // values that are
	StringBytes int64
	TagStrings  int64 // distinct values of each tag
	TagBytes    int64 // their bytes
}

// IndexedRows is the number of rows of one series for which the tags' indexes may need space. More rows of it are free.
const IndexedRows = 16

// Bytes returns a size that a file with this cost can't exceed.
func (c FileCost) Bytes() int64 { return 0 }

const tagIndexBytes = 5
