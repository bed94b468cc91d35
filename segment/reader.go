package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// tailBytes is read from the end of a file at once, in the hope that it holds the footer. It stays in memory, because
// it often holds the page indexes too, and all of a small file.
const tailBytes = 16 << 10

// File is an open segment file. Its methods may be called by several goroutines.
type File struct {
	path      string
	reader    io.ReaderAt
	sizeBytes int64
	tail      []byte // the last bytes of the file
	info      FileInfo
	written   Written
	groups    []groupMeta
}

// section is a part of a file.
type section struct {
	offset, length int64
}

func (s section) end() int64 { return s.offset + s.length }

// groupMeta is what the footer says about one row group.
type groupMeta struct {
	rows                     int64
	chunks                   []chunkMeta // time, tags, fields
	columnIndex, offsetIndex section     // of all chunks
	checksum                 uint32      // of both
}

// chunkMeta is what the footer says about one column in a row group.
type chunkMeta struct {
	dictionary, pages        section // length 0: none
	columnIndex, offsetIndex section
	compressed               bool
	nulls                    int64
	bounds                          // of numbers
	textMin, textMax         string // of tags; empty: unknown
}

// OpenFile reads the footer of the segment file of the given size behind r. The path is for errors only. The error is
// a *CorruptionError unless reading itself failed.
func OpenFile(path string, r io.ReaderAt, sizeBytes int64) (*File, error) {
	f := &File{path: path, reader: r, sizeBytes: sizeBytes}
	footer, at, err := f.readFooter()
	if err != nil {
		return nil, err
	}
	metadata, err := decodeFooter(footer)
	if err != nil {
		return nil, f.corrupt(at, "footer: %v", err)
	}
	var checksums []uint32
	if f.info, checksums, err = parseInfo(metadata); err != nil {
		return nil, f.corrupt(at, "footer: %v", err)
	}
	if err := f.addGroups(metadata, checksums, at); err != nil {
		return nil, f.corrupt(at, "footer: %v", err)
	}
	return f, nil
}

// Info returns what the file says about itself.
func (f *File) Info() FileInfo { return f.info }

// Written returns what the file's footer says it holds.
func (f *File) Written() Written { return f.written }

func (f *File) corrupt(offset int64, reason string, args ...any) error {
	return &CorruptionError{Path: f.path, Offset: offset, Reason: fmt.Sprintf(reason, args...)}
}

// readAt fills buf from the file.
func (f *File) readAt(buf []byte, offset int64) error {
	if at := offset - (f.sizeBytes - int64(len(f.tail))); at >= 0 && at+int64(len(buf)) <= int64(len(f.tail)) {
		copy(buf, f.tail[at:])
		return nil
	}
	n, err := f.reader.ReadAt(buf, offset)
	switch {
	case n == len(buf):
		return nil
	case errors.Is(err, io.EOF):
		return f.corrupt(offset, "the file ends after %d of %d bytes", n, len(buf))
	default:
		return fmt.Errorf("read %d bytes at %d of %s: %w", len(buf), offset, f.path, err)
	}
}

// readFooter returns the encoded footer, whose checksum is right, and its place.
func (f *File) readFooter() (footer []byte, at int64, err error) {
	const magic = int64(len(parquetMagic))
	const trailer = 4 + magic
	if f.sizeBytes < magic+trailer {
		return nil, 0, f.corrupt(0, "%d bytes are too few", f.sizeBytes)
	}
	tail := make([]byte, min(f.sizeBytes, tailBytes))
	if err := f.readAt(tail, f.sizeBytes-int64(len(tail))); err != nil {
		return nil, 0, err
	}
	f.tail = tail
	end := f.sizeBytes - trailer
	if string(tail[len(tail)-len(parquetMagic):]) != parquetMagic {
		return nil, 0, f.corrupt(end, "no Parquet file ends here")
	}
	length := int64(binary.LittleEndian.Uint32(tail[int64(len(tail))-trailer:]))
	if length > end-magic {
		return nil, 0, f.corrupt(end, "a footer of %d bytes is too long", length)
	}
	footer = make([]byte, length)
	at = end - length
	if err := f.readAt(footer, at); err != nil {
		return nil, 0, err
	}
	digits, sum, err := footerChecksum(footer)
	if err != nil {
		return nil, 0, f.corrupt(at, "%v", err)
	}
	stated, err := strconv.ParseUint(string(footer[digits:digits+checksumDigits]), 16, 32)
	if err != nil || uint32(stated) != sum {
		return nil, 0, f.corrupt(at, "checksum of the footer: got %08x", sum)
	}
	return footer, at, nil
}

// decodeFooter returns an error also where the decoder panics: nothing but a file made for it gets here undetected.
func decodeFooter(footer []byte) (metadata *format.FileMetaData, err error) {
	defer recoverAs(&err)
	metadata = new(format.FileMetaData)
	return metadata, thrift.Unmarshal(new(thrift.CompactProtocol), footer, metadata)
}

// recoverAs makes an error of a panic. It is deferred where decoders work on bytes that may be damaged.
func recoverAs(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("decoder failed: %v", r)
	}
}

// addGroups takes over what the rest of the reader needs of the footer, and checks that all of it lies before the
// footer.
func (f *File) addGroups(metadata *format.FileMetaData, checksums []uint32, footerAt int64) error {
	if len(checksums) != len(metadata.RowGroups) {
		return fmt.Errorf("%d checksums for %d row groups", len(checksums), len(metadata.RowGroups))
	}
	f.written = Written{SizeBytes: f.sizeBytes}
	for _, name := range f.info.Tags {
		f.written.Columns = append(f.written.Columns, ColumnStats{Name: name, Kind: KindTag})
	}
	for _, field := range f.info.Fields {
		f.written.Columns = append(f.written.Columns, ColumnStats{Name: field.Name, Kind: field.Kind})
	}
	var times bounds
	for i := range metadata.RowGroups {
		group, err := f.parseGroup(&metadata.RowGroups[i], footerAt)
		if err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
		group.checksum = checksums[i]
		f.groups = append(f.groups, group)
		f.written.Rows += group.rows
		times.extend(KindInt, group.chunks[0].bounds)
		for j := range f.written.Columns {
			chunk := &group.chunks[1+j]
			f.written.Columns[j].add(group.rows-chunk.nulls, chunk.nulls, chunk.bounds)
		}
	}
	f.written.MinTime, f.written.MaxTime = int64(times.min), int64(times.max)
	if f.written.Rows != metadata.NumRows {
		return fmt.Errorf("row groups have %d of %d rows", f.written.Rows, metadata.NumRows)
	}
	return nil
}

func (f *File) parseGroup(from *format.RowGroup, footerAt int64) (groupMeta, error) {
	group := groupMeta{rows: from.NumRows, chunks: make([]chunkMeta, len(from.Columns))}
	if len(from.Columns) != 1+len(f.written.Columns) || group.rows <= 0 {
		return group, fmt.Errorf("%d columns of %d rows", len(from.Columns), group.rows)
	}
	for i := range from.Columns {
		kind := KindInt
		if i > 0 {
			kind = f.written.Columns[i-1].Kind
		}
		chunk, err := parseChunk(&from.Columns[i], kind, group.rows)
		if err != nil {
			return group, fmt.Errorf("column %d: %w", i, err)
		}
		for _, part := range []section{chunk.dictionary, chunk.pages, chunk.columnIndex, chunk.offsetIndex} {
			if part.length < 0 || part.offset < 0 || part.offset > footerAt || part.length > footerAt-part.offset {
				return group, fmt.Errorf("column %d: %d bytes at %d are not in the file", i, part.length, part.offset)
			}
		}
		if group.columnIndex, err = joined(group.columnIndex, chunk.columnIndex); err != nil {
			return group, err
		}
		if group.offsetIndex, err = joined(group.offsetIndex, chunk.offsetIndex); err != nil {
			return group, err
		}
		group.chunks[i] = chunk
	}
	return group, nil
}

// joined returns the section made of two that follow each other.
func joined(a, b section) (section, error) {
	switch {
	case b.length == 0:
		return a, nil
	case a.length == 0:
		return b, nil
	case a.end() != b.offset:
		return a, fmt.Errorf("index at %d does not follow the one that ends at %d", b.offset, a.end())
	default:
		return section{a.offset, a.length + b.length}, nil
	}
}

func parseChunk(from *format.ColumnChunk, kind Kind, rows int64) (chunkMeta, error) {
	meta := &from.MetaData
	chunk := chunkMeta{
		pages:       section{meta.DataPageOffset, meta.TotalCompressedSize},
		columnIndex: section{from.ColumnIndexOffset, int64(from.ColumnIndexLength)},
		offsetIndex: section{from.OffsetIndexOffset, int64(from.OffsetIndexLength)},
		nulls:       meta.Statistics.NullCount,
	}
	if meta.DictionaryPageOffset > 0 {
		chunk.dictionary = section{meta.DictionaryPageOffset, meta.DataPageOffset - meta.DictionaryPageOffset}
		chunk.pages.length -= chunk.dictionary.length
	}
	switch meta.Codec {
	case format.Uncompressed:
	case format.Zstd:
		chunk.compressed = true
	default:
		return chunk, fmt.Errorf("compressed with %v", meta.Codec)
	}
	if meta.Type != physicalType(kind) || meta.NumValues != rows || chunk.nulls < 0 || chunk.nulls > rows {
		return chunk, fmt.Errorf("%d values of type %v, %d nulls", meta.NumValues, meta.Type, chunk.nulls)
	}
	if kind == KindTag {
		chunk.textMin, chunk.textMax = string(meta.Statistics.MinValue), string(meta.Statistics.MaxValue)
		return chunk, nil
	}
	var err error
	chunk.bounds, err = parseBounds(kind, meta.Statistics.MinValue, meta.Statistics.MaxValue)
	return chunk, err
}

// parseBounds is the inverse of appendNumber. Empty bounds are unknown.
func parseBounds(kind Kind, lo, hi []byte) (bounds, error) {
	if len(lo) == 0 && len(hi) == 0 {
		return bounds{}, nil
	}
	size := 8
	if kind == KindBool {
		size = 1
	}
	if len(lo) != size || len(hi) != size {
		return bounds{}, fmt.Errorf("bounds of %d and %d bytes", len(lo), len(hi))
	}
	if kind == KindBool {
		return bounds{true, uint64(lo[0]), uint64(hi[0])}, nil
	}
	return bounds{true, binary.LittleEndian.Uint64(lo), binary.LittleEndian.Uint64(hi)}, nil
}

// pageMeta is what the indexes say about one page.
type pageMeta struct {
	section
	row, end int64 // rows of the group: first, and the one after the last
	nulls    int64 // -1: not stated
	min, max []byte
}

// groupIndex gives access to the page indexes of a row group.
type groupIndex struct {
	file    *File
	group   *groupMeta
	columns []byte // encoded column indexes of all chunks
	offsets []byte // encoded offset indexes of all chunks
}

// readIndex reads the indexes of a row group and checks them.
func (f *File) readIndex(group *groupMeta) (*groupIndex, error) {
	text := make([]byte, group.columnIndex.length+group.offsetIndex.length)
	x := &groupIndex{file: f, group: group}
	x.columns, x.offsets = text[:group.columnIndex.length], text[group.columnIndex.length:]
	if err := f.readAt(x.columns, group.columnIndex.offset); err != nil {
		return nil, err
	}
	if err := f.readAt(x.offsets, group.offsetIndex.offset); err != nil {
		return nil, err
	}
	if got := crc32.Checksum(text, castagnoli); got != group.checksum {
		return nil, f.corrupt(group.columnIndex.offset, "checksum of page indexes: got %08x", got)
	}
	return x, nil
}

// pages returns the pages of a chunk, with bounds and nulls where the file has them.
func (x *groupIndex) pages(chunk *chunkMeta) ([]pageMeta, error) {
	pages, err := x.decode(chunk)
	if err != nil {
		return nil, x.file.corrupt(chunk.offsetIndex.offset, "page index: %v", err)
	}
	return pages, nil
}

func (x *groupIndex) decode(chunk *chunkMeta) (pages []pageMeta, err error) {
	defer recoverAs(&err)
	var offsets format.OffsetIndex
	start := chunk.offsetIndex.offset - x.group.offsetIndex.offset
	text := x.offsets[start : start+chunk.offsetIndex.length]
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), text, &offsets); err != nil {
		return nil, err
	}
	at, row := chunk.pages.offset, int64(0)
	pages = make([]pageMeta, len(offsets.PageLocations))
	for i, location := range offsets.PageLocations {
		if location.Offset != at || location.FirstRowIndex != row || location.CompressedPageSize <= 0 {
			return nil, fmt.Errorf("page %d at %d from row %d", i, location.Offset, location.FirstRowIndex)
		}
		row = x.group.rows
		if i+1 < len(pages) {
			row = offsets.PageLocations[i+1].FirstRowIndex
		}
		length := int64(location.CompressedPageSize)
		pages[i] = pageMeta{section: section{at, length}, row: location.FirstRowIndex, end: row, nulls: -1}
		at += length
		if row <= location.FirstRowIndex || row > x.group.rows {
			return nil, fmt.Errorf("page %d has rows %d to %d", i, location.FirstRowIndex, row)
		}
	}
	if len(pages) == 0 || at != chunk.pages.end() {
		return nil, fmt.Errorf("%d pages end at %d, want %d", len(pages), at, chunk.pages.end())
	}
	return pages, x.addBounds(chunk, pages)
}

func (x *groupIndex) addBounds(chunk *chunkMeta, pages []pageMeta) error {
	if chunk.columnIndex.length == 0 {
		return nil
	}
	var columns format.ColumnIndex
	start := chunk.columnIndex.offset - x.group.columnIndex.offset
	text := x.columns[start : start+chunk.columnIndex.length]
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), text, &columns); err != nil {
		return err
	}
	if !slices.Equal([]int{len(columns.MinValues), len(columns.MaxValues), len(columns.NullCounts)},
		[]int{len(pages), len(pages), len(pages)}) {
		return fmt.Errorf("bounds of %d pages, want %d", len(columns.MinValues), len(pages))
	}
	for i := range pages {
		pages[i].nulls = columns.NullCounts[i]
		pages[i].min, pages[i].max = columns.MinValues[i], columns.MaxValues[i]
	}
	return nil
}
