package segment

// What a scan takes for each column, see TestScansTakeWhatTheySay: a page as it is read, as it is decompressed and as
// it is decoded, with the slack of buffers that double.
const (
	scanFileBytes    = 32 << 10 // of an open file, beside what its footer makes
	scanFooterShare  = 12       // of the bytes of the footer
	scanColumnBytes  = 20 << 10 // of a cursor without a page
	scanPageShare    = 3        // of the decoded bytes of a page of numbers
	scanTextShare    = 3        // of the decoded bytes of a page of strings
	scanTagShare     = 5        // halves, of the decompressed bytes of a tag: its dictionary is held as a whole
	scanNumberBytes  = 9        // of a number in a Block
	scanStringBytes  = 25       // of a string in a Block, beside its text
	scanPageRowBytes = 8
)

// memoryBytes is about what the scan takes until it is closed: that of its largest row group. Strings that are longer
// than a page take more.
func (s *scan) memoryBytes() int64 {
	var largest int64
	for i := range s.file.groups {
		largest = max(largest, s.groupBytes(&s.file.groups[i]))
	}
	return scanFileBytes + scanFooterShare*int64(len(s.file.footer)) + largest
}

// groupBytes is about what the cursors of a row group and the Block take.
func (s *scan) groupBytes(group *groupMeta) int64 {
	columns := 1 + len(s.file.written.Columns)
	pageRows := min(group.rows, int64(pageValues(columns)))
	blockRows := min(group.rows, s.blockRows)
	number := scanColumnBytes + pageRows*scanPageRowBytes*scanPageShare + blockRows*scanNumberBytes
	total := number // the times
	for i := range s.tags {
		total += scanColumnBytes + group.chunks[s.tags[i].column].sizeBytes*scanTagShare/2
	}
	for i := range s.fields {
		if s.fields[i].def.Kind != KindString {
			total += number
			continue
		}
		chunk := &group.chunks[s.fields[i].column]
		average := chunk.sizeBytes / max(1, group.rows-chunk.nulls)
		page := min(chunk.sizeBytes, int64(pageText(columns))+average)
		total += scanColumnBytes + page*scanTextShare + blockRows*scanStringBytes
	}
	return total
}
