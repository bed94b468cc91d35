package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// footerWriter keeps what has to be said at the end of a file about its row groups, and says it.
type footerWriter struct {
	groups         []format.RowGroup
	checksums      []uint32     // of the page indexes of each group
	columnIndexes  bytes.Buffer // of all groups, as they go into the file
	offsetIndexes  bytes.Buffer
	columnsEncoder *thrift.Encoder
	offsetsEncoder *thrift.Encoder
	columnIndex    format.ColumnIndex // scratch
	offsetIndex    format.OffsetIndex
	numberText     []byte
	written        Written
	time           bounds
}

func newFooterWriter() footerWriter {
	return footerWriter{}
}

func (f *footerWriter) reset(info *FileInfo) {
	f.groups, f.checksums = f.groups[:0], f.checksums[:0]
	f.columnIndexes.Reset()
	f.offsetIndexes.Reset()
	protocol := new(thrift.CompactProtocol)
	f.columnsEncoder = thrift.NewEncoder(protocol.NewWriter(&f.columnIndexes))
	f.offsetsEncoder = thrift.NewEncoder(protocol.NewWriter(&f.offsetIndexes))
	f.time = bounds{}
	f.written = Written{Columns: make([]ColumnStats, 0, len(info.Tags)+len(info.Fields))}
	for _, name := range info.Tags {
		f.written.Columns = append(f.written.Columns, ColumnStats{Name: name, Kind: KindTag})
	}
	for _, field := range info.Fields {
		f.written.Columns = append(f.written.Columns, ColumnStats{Name: field.Name, Kind: field.Kind})
	}
}

func (f *footerWriter) release() {
	clear(f.groups[:cap(f.groups)])
	if f.columnIndexes.Cap() > keptBytesMax {
		f.columnIndexes = bytes.Buffer{}
	}
	if f.offsetIndexes.Cap() > keptBytesMax {
		f.offsetIndexes = bytes.Buffer{}
	}
	f.written = Written{}
}

// addGroup writes the pages of the writer's complete row group, column by column, and keeps their metadata.
func (f *footerWriter) addGroup(w *fileWriter) error {
	group := format.RowGroup{
		Columns:    make([]format.ColumnChunk, 0, 1+len(w.tags)+len(w.fields)),
		NumRows:    w.time.rows,
		FileOffset: w.out.offset,
		Ordinal:    int16(len(f.groups)),
	}
	columnsStart, offsetsStart := f.columnIndexes.Len(), f.offsetIndexes.Len()
	if err := f.addTime(w, &group); err != nil {
		return err
	}
	for i := range w.tags {
		if err := f.addTag(w, &group, i); err != nil {
			return err
		}
	}
	for i := range w.fields {
		if err := f.addField(w, &group, i); err != nil {
			return err
		}
	}
	for i := range group.Columns {
		group.TotalByteSize += group.Columns[i].MetaData.TotalUncompressedSize
		group.TotalCompressedSize += group.Columns[i].MetaData.TotalCompressedSize
	}
	for i := range w.tags {
		group.SortingColumns = append(group.SortingColumns, format.SortingColumn{ColumnIdx: int32(1 + i)})
	}
	group.SortingColumns = append(group.SortingColumns, format.SortingColumn{ColumnIdx: 0})
	f.groups = append(f.groups, group)
	f.written.Rows += group.NumRows
	sum := crc32.Checksum(f.columnIndexes.Bytes()[columnsStart:], castagnoli)
	f.checksums = append(f.checksums, crc32.Update(sum, castagnoli, f.offsetIndexes.Bytes()[offsetsStart:]))
	return nil
}

func (f *footerWriter) addTime(w *fileWriter, group *format.RowGroup) error {
	c := &w.time.chunk
	b := c.numberBounds(KindInt)
	f.time.extend(KindInt, b)
	column := f.startColumn(c, KindInt, timeName, w.pages.compress)
	column.MetaData.Encoding = slices.Clone(c.encodings)
	column.MetaData.Statistics = numberStatistics(KindInt, c, b)
	f.numberIndex(KindInt, c)
	return f.addColumn(w, group, c, column, true)
}

func (f *footerWriter) addTag(w *fileWriter, group *format.RowGroup, i int) error {
	tag := &w.tags[i]
	c := &tag.chunk
	column := f.startColumn(c, KindTag, tag.name, w.pages.compress)
	lo, hi := tag.textBounds()
	column.MetaData.Statistics = format.Statistics{
		NullCount: c.nulls, MinValue: bytes.Clone(lo), MaxValue: bytes.Clone(hi),
	}
	f.written.Columns[i].add(c.rows-c.nulls, c.nulls, bounds{})
	indexed := lo != nil
	if indexed {
		f.startIndex(c)
		for j := range c.pages {
			var pageMin, pageMax []byte
			if p := &c.pages[j]; p.known {
				pageMin, pageMax = tag.dictionary.value(int32(p.min)), tag.dictionary.value(int32(p.max))
			}
			f.columnIndex.MinValues = append(f.columnIndex.MinValues, pageMin)
			f.columnIndex.MaxValues = append(f.columnIndex.MaxValues, pageMax)
		}
	}
	return f.addColumn(w, group, c, column, indexed)
}

func (f *footerWriter) addField(w *fileWriter, group *format.RowGroup, i int) error {
	field := &w.fields[i]
	c := &field.chunk
	kind := field.def.Kind
	column := f.startColumn(c, kind, field.def.Name, w.pages.compress)
	var b bounds
	if field.bounded {
		b = c.numberBounds(kind)
	}
	column.MetaData.Statistics = numberStatistics(kind, c, b)
	f.written.Columns[len(w.tags)+i].add(c.rows-c.nulls, c.nulls, b)
	if b.known {
		f.numberIndex(kind, c)
	}
	return f.addColumn(w, group, c, column, b.known)
}

// add adds the cells of a row group.
func (s *ColumnStats) add(values, nulls int64, b bounds) {
	s.Values += values
	s.Nulls += nulls
	total := bounds{s.Bounded, s.Min, s.Max}
	total.extend(s.Kind, b)
	s.Bounded, s.Min, s.Max = total.known, total.min, total.max
}

func numberStatistics(kind Kind, c *chunk, b bounds) format.Statistics {
	statistics := format.Statistics{NullCount: c.nulls}
	if b.known {
		statistics.MinValue = appendNumber(nil, kind, b.min)
		statistics.MaxValue = appendNumber(nil, kind, b.max)
	}
	return statistics
}

func (f *footerWriter) startColumn(c *chunk, kind Kind, name string, compressed bool) format.ColumnChunk {
	codec := format.Uncompressed
	if compressed {
		codec = format.Zstd
	}
	encodings := append([]format.Encoding{format.RLE}, c.encodings...) // RLE: of the levels
	return format.ColumnChunk{MetaData: format.ColumnMetaData{
		Type:                  physicalType(kind),
		Encoding:              encodings,
		PathInSchema:          []string{name},
		Codec:                 codec,
		NumValues:             c.rows,
		TotalUncompressedSize: c.rawBytes,
		TotalCompressedSize:   c.sizeBytes,
	}}
}

// startIndex fills in what the column index says of every page but its bounds.
func (f *footerWriter) startIndex(c *chunk) {
	x := &f.columnIndex
	x.NullPages, x.NullCounts = x.NullPages[:0], x.NullCounts[:0]
	x.MinValues, x.MaxValues = x.MinValues[:0], x.MaxValues[:0]
	for i := range c.pages {
		p := &c.pages[i]
		x.NullPages = append(x.NullPages, p.nulls == p.rows)
		x.NullCounts = append(x.NullCounts, int64(p.nulls))
	}
}

func (f *footerWriter) numberIndex(kind Kind, c *chunk) {
	f.startIndex(c)
	x := &f.columnIndex
	f.numberText = slices.Grow(f.numberText[:0], 16*len(c.pages)) // values below alias it
	for i := range c.pages {
		p := &c.pages[i]
		var pageMin, pageMax []byte
		if p.known {
			start := len(f.numberText)
			f.numberText = appendNumber(f.numberText, kind, p.min)
			middle := len(f.numberText)
			f.numberText = appendNumber(f.numberText, kind, p.max)
			pageMin, pageMax = f.numberText[start:middle], f.numberText[middle:]
		}
		x.MinValues = append(x.MinValues, pageMin)
		x.MaxValues = append(x.MaxValues, pageMax)
	}
}

// addColumn writes the pages of one column and completes its metadata and indexes. The places of the indexes are
// relative until the end of the file.
func (f *footerWriter) addColumn(
	w *fileWriter, group *format.RowGroup, c *chunk, column format.ColumnChunk, indexed bool,
) error {
	if c.dictionary.length > 0 {
		column.MetaData.DictionaryPageOffset = w.out.offset
		if err := w.out.write(w.pages.buffer.bytes(c.dictionary)); err != nil {
			return err
		}
	}
	column.MetaData.DataPageOffset = w.out.offset
	locations := f.offsetIndex.PageLocations[:0]
	row := int64(0)
	for i := range c.pages {
		p := &c.pages[i]
		locations = append(locations, format.PageLocation{
			Offset: w.out.offset, CompressedPageSize: int32(p.length), FirstRowIndex: row,
		})
		row += int64(p.rows)
		if err := w.out.write(w.pages.buffer.bytes(p.span)); err != nil {
			return err
		}
	}
	f.offsetIndex.PageLocations = locations
	column.OffsetIndexOffset = int64(f.offsetIndexes.Len())
	if err := f.offsetsEncoder.Encode(&f.offsetIndex); err != nil {
		return fmt.Errorf("encode offset index: %w", err)
	}
	column.OffsetIndexLength = int32(int64(f.offsetIndexes.Len()) - column.OffsetIndexOffset)
	if indexed {
		column.ColumnIndexOffset = int64(f.columnIndexes.Len())
		if err := f.columnsEncoder.Encode(&f.columnIndex); err != nil {
			return fmt.Errorf("encode column index: %w", err)
		}
		column.ColumnIndexLength = int32(int64(f.columnIndexes.Len()) - column.ColumnIndexOffset)
	}
	group.Columns = append(group.Columns, column)
	return nil
}

// finish writes the indexes and the footer, and returns the account of the file.
func (f *footerWriter) finish(out *output, info *FileInfo) (Written, error) {
	columnsAt := out.offset
	if err := out.write(f.columnIndexes.Bytes()); err != nil {
		return Written{}, err
	}
	offsetsAt := out.offset
	if err := out.write(f.offsetIndexes.Bytes()); err != nil {
		return Written{}, err
	}
	for i := range f.groups {
		for j := range f.groups[i].Columns {
			column := &f.groups[i].Columns[j]
			column.OffsetIndexOffset += offsetsAt
			if column.ColumnIndexLength > 0 {
				column.ColumnIndexOffset += columnsAt
			}
		}
	}
	footer, err := f.encodeFooter(info)
	if err != nil {
		return Written{}, err
	}
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	footer = append(footer, parquetMagic...)
	if err := out.write(footer); err != nil {
		return Written{}, err
	}
	if err := out.w.Flush(); err != nil {
		return Written{}, err
	}
	written := f.written
	written.SizeBytes = out.offset
	written.MinTime, written.MaxTime = int64(f.time.min), int64(f.time.max)
	return written, nil
}

func (f *footerWriter) encodeFooter(info *FileInfo) ([]byte, error) {
	metadata := format.FileMetaData{
		Version:          2,
		Schema:           schemaElements(info),
		NumRows:          f.written.Rows,
		RowGroups:        f.groups,
		KeyValueMetadata: keyValues(info, f.checksums),
		CreatedBy:        createdBy,
	}
	order := format.ColumnOrder{Value: new(format.TypeDefinedOrder)}
	for range 1 + len(info.Tags) + len(info.Fields) {
		metadata.ColumnOrders = append(metadata.ColumnOrders, order)
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &metadata)
	if err != nil {
		return nil, fmt.Errorf("encode footer: %w", err)
	}
	at, sum, err := footerChecksum(footer)
	if err != nil {
		return nil, fmt.Errorf("BUG: %w", err)
	}
	copy(footer[at:], fmt.Sprintf("%08x", sum))
	return footer, nil
}

// footerChecksum finds the digits of the checksum in an encoded footer, and computes it with zeros in their place.
func footerChecksum(footer []byte) (at int, sum uint32, err error) {
	// Behind the key come the header of the value's field and its length.
	at = bytes.LastIndex(footer, []byte(metaChecksums))
	if at < 0 {
		return 0, 0, fmt.Errorf("the footer has no %s", metaChecksums)
	}
	at += len(metaChecksums) + 1
	_, n := binary.Uvarint(footer[min(at, len(footer)):])
	at += n
	if n <= 0 || at+checksumDigits > len(footer) {
		return 0, 0, fmt.Errorf("the footer ends in %s", metaChecksums)
	}
	sum = crc32.Checksum(footer[:at], castagnoli)
	sum = crc32.Update(sum, castagnoli, []byte("00000000"))
	sum = crc32.Update(sum, castagnoli, footer[at+checksumDigits:])
	return at, sum, nil
}
