package segment

// FileCost counts what the size of a level-0 file depends on, so that an engine knows the worst case of a flush before
// it happens. Bytes of a sum is at most the sum of Bytes, and never less than the file. So costs may be added up as
// rows arrive, and anything may be counted twice, but nothing left out.
type FileCost struct {
	Files       int64 // one per measurement
	NameBytes   int64 // of database and measurement of each file, and of each column
	Tags        int64 // columns of tags
	Fields      int64 // columns of fields
	Rows        int64
	TagRows     int64 // for each row, the number of its tags
	TagIndexes  int64 // the same, but only for the first IndexedRows rows of each series
	SeriesTags  int64 // for each series, the number of its tags
	TagStrings  int64 // distinct values of each tag
	TagBytes    int64 // their bytes
	Numbers     int64 // values that are not strings
	Strings     int64 // values that are
	StringBytes int64 // their bytes
}

// IndexedRows is how many rows of one series may need space for the indexes of their tags. The others continue a run.
const IndexedRows = 16

// What each part of a file needs at most, in bytes. FORMAT.md, "Worst case", says where the numbers come from.
const (
	costFile        = 1120 // all that is there once, with the last page of time
	costNameByte    = 2    // columns are named in the schema and in the row group
	costTag         = 480  // metadata, dictionary header and the last page
	costField       = 560  // metadata and the last page
	costRow2        = 47   // per 2 rows: time, and the shares of its page and of pages that end for their rows
	costTagRow4     = 1    // per 4 tags of rows: the share of their page
	costTagIndex    = 5
	costSeriesTag   = 12 // levels
	costTagString   = 4
	costTagByte     = 3  // the dictionary, and two bounds
	costNumber4     = 59 // per 4 numbers: 8.2 bytes, 6 of levels, and the share of its page
	costString4     = 42 // per 4 strings: length, levels, and the share of its page
	costStringExtra = 64 // a share of the page for this many bytes of strings
	costChecksum    = 700
)

// Add adds another cost.
func (c *FileCost) Add(other FileCost) {
	c.Files += other.Files
	c.NameBytes += other.NameBytes
	c.Tags += other.Tags
	c.Fields += other.Fields
	c.Rows += other.Rows
	c.TagRows += other.TagRows
	c.TagIndexes += other.TagIndexes
	c.SeriesTags += other.SeriesTags
	c.TagStrings += other.TagStrings
	c.TagBytes += other.TagBytes
	c.Numbers += other.Numbers
	c.Strings += other.Strings
	c.StringBytes += other.StringBytes
}

// Subtract takes back what Add brought.
func (c *FileCost) Subtract(other FileCost) {
	c.Files -= other.Files
	c.NameBytes -= other.NameBytes
	c.Tags -= other.Tags
	c.Fields -= other.Fields
	c.Rows -= other.Rows
	c.TagRows -= other.TagRows
	c.TagIndexes -= other.TagIndexes
	c.SeriesTags -= other.SeriesTags
	c.TagStrings -= other.TagStrings
	c.TagBytes -= other.TagBytes
	c.Numbers -= other.Numbers
	c.Strings -= other.Strings
	c.StringBytes -= other.StringBytes
}

// Bytes returns a size that files with this cost can't exceed together.
func (c FileCost) Bytes() int64 {
	bytes := c.Files*costFile + c.NameBytes*costNameByte + c.Tags*costTag + c.Fields*costField +
		shares(c.Rows*costRow2, 2) + shares(c.TagRows*costTagRow4, 4) +
		c.TagIndexes*costTagIndex + c.SeriesTags*costSeriesTag + c.TagStrings*costTagString + c.TagBytes*costTagByte +
		shares(c.Numbers*costNumber4, 4) + shares(c.Strings*costString4, 4) +
		c.StringBytes + shares(c.StringBytes, costStringExtra)
	return bytes + shares(bytes, costChecksum)
}

// shares divides and rounds up.
func shares(n, divisor int64) int64 { return (n + divisor - 1) / divisor }
