package segment

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// tailBytes is read from the end of a file at once, in the hope that it holds the footer. It stays in memory, because
// it often holds the page index too, and all of a small file.
const tailBytes = 16 << 10

// pageBufferBytes is what the library reads of a column to find the header of a page.
const pageBufferBytes = 256

// File is an open segment file. Its methods may be called by several goroutines.
type File struct {
	path      string
	reader    io.ReaderAt
	sizeBytes int64
	tail      []byte // the last bytes of the file
	footer    []byte // with what is behind it
	footerAt  int64
	sums      checksums
	parquet   *parquet.File
	info      FileInfo
	written   Written
	groups    []groupMeta

	mu    sync.Mutex
	index []byte // page indexes of all row groups; nil: not read
}

// groupMeta is what the footer says about one row group.
type groupMeta struct {
	rows   int64
	chunks []chunkMeta // time, tags, fields
}

// chunkMeta is what the footer says about one column in a row group.
type chunkMeta struct {
	file             *parquet.FileColumnChunk
	offset           int64 // of the first page
	sizeBytes        int64 // of all pages, decompressed
	nulls            int64
	bounds                  // of numbers
	textMin, textMax []byte // of tags; nil: unknown
}

// OpenFile reads the footer of the segment file of the given size behind r. The path is for errors only. The error is
// a *CorruptionError unless reading itself failed.
func OpenFile(path string, r io.ReaderAt, sizeBytes int64) (*File, error) {
	f := &File{path: path, reader: r, sizeBytes: sizeBytes}
	if err := f.readFooter(); err != nil {
		return nil, err
	}
	if err := f.parseFooter(); err != nil {
		return nil, f.corrupt(f.footerAt, "footer: %v", err)
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

// readFooter reads the end of the file and checks it.
func (f *File) readFooter() error {
	const trailer = int64(trailerBytes)
	if f.sizeBytes < trailer {
		return f.corrupt(0, "%d bytes are too few", f.sizeBytes)
	}
	tail := make([]byte, min(f.sizeBytes, tailBytes))
	if err := f.readAt(tail, f.sizeBytes-int64(len(tail))); err != nil {
		return err
	}
	f.tail = tail
	end := f.sizeBytes - trailer
	if string(tail[len(tail)-len(parquetMagic):]) != parquetMagic {
		return f.corrupt(end, "no Parquet file ends here")
	}
	length := int64(binary.LittleEndian.Uint32(tail[int64(len(tail))-trailer:]))
	if length > end {
		return f.corrupt(end, "a footer of %d bytes is too long", length)
	}
	f.footerAt = end - length
	f.footer = make([]byte, length+trailer)
	if err := f.readAt(f.footer, f.footerAt); err != nil {
		return err
	}
	footer := f.footer[:length]
	at, size, err := findChecksums(footer)
	if err != nil {
		return f.corrupt(f.footerAt, "%v", err)
	}
	if f.sums, err = parseChecksums(string(footer[at : at+size])); err != nil {
		return f.corrupt(f.footerAt, "%v", err)
	}
	if got := footerChecksum(footer, at); got != f.sums.footer {
		return f.corrupt(f.footerAt, "checksum of the footer: got %08x, stated %08x", got, f.sums.footer)
	}
	if f.sums.dataBytes > f.footerAt {
		return f.corrupt(f.footerAt, "%d bytes of data before it", f.sums.dataBytes)
	}
	return nil
}

// recoverAs makes an error of a panic. It is deferred where the library works on bytes that may be damaged.
func recoverAs(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("decoder failed: %v", r)
	}
}

// parseFooter has the library open the file, and takes over what the rest of the reader needs of the footer.
func (f *File) parseFooter() (err error) {
	defer recoverAs(&err)
	f.parquet, err = parquet.OpenFile(&checkedReader{file: f}, f.sizeBytes, parquet.SkipMagicBytes(true),
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(pageBufferBytes))
	if err != nil {
		return err
	}
	metadata := f.parquet.Metadata()
	if f.info, err = parseInfo(metadata); err != nil {
		return err
	}
	f.written = newWritten(&f.info)
	f.written.SizeBytes, f.written.Checksum = f.sizeBytes, f.sums.footer
	var times bounds
	for i, open := range f.parquet.RowGroups() {
		group, err := f.parseGroup(&metadata.RowGroups[i], open)
		if err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
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

func (f *File) parseGroup(from *format.RowGroup, open parquet.RowGroup) (groupMeta, error) {
	group := groupMeta{rows: from.NumRows, chunks: make([]chunkMeta, len(from.Columns))}
	if len(from.Columns) != 1+len(f.written.Columns) || group.rows <= 0 {
		return group, fmt.Errorf("%d columns of %d rows", len(from.Columns), group.rows)
	}
	for i, column := range open.ColumnChunks() {
		kind := KindInt
		if i > 0 {
			kind = f.written.Columns[i-1].Kind
		}
		chunk, err := parseChunk(&from.Columns[i], kind, group.rows)
		if err != nil {
			return group, fmt.Errorf("column %d: %w", i, err)
		}
		file, isFile := column.(*parquet.FileColumnChunk)
		if !isFile {
			return group, fmt.Errorf("column %d is a %T", i, column)
		}
		chunk.file = file
		group.chunks[i] = chunk
	}
	return group, nil
}

func parseChunk(from *format.ColumnChunk, kind Kind, rows int64) (chunkMeta, error) {
	meta := &from.MetaData
	chunk := chunkMeta{
		offset: meta.DataPageOffset, sizeBytes: meta.TotalUncompressedSize, nulls: meta.Statistics.NullCount,
	}
	if meta.Type != physicalType(kind) || meta.NumValues != rows || chunk.nulls < 0 || chunk.nulls > rows {
		return chunk, fmt.Errorf("%d values of type %v, %d nulls", meta.NumValues, meta.Type, chunk.nulls)
	}
	switch kind {
	case KindString:
		return chunk, nil
	case KindTag:
		chunk.textMin, chunk.textMax = meta.Statistics.MinValue, meta.Statistics.MaxValue
		return chunk, nil
	}
	var err error
	chunk.bounds, err = parseBounds(kind, meta.Statistics.MinValue, meta.Statistics.MaxValue)
	return chunk, err
}

func physicalType(kind Kind) format.Type {
	switch kind {
	case KindTag, KindString:
		return format.ByteArray
	case KindFloat:
		return format.Double
	case KindBool:
		return format.Boolean
	default:
		return format.Int64
	}
}
