package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// pageBytesMax bounds what a page may decompress to: a page of strings holds pageTextMax bytes and one more string.
const pageBytesMax = 1 << 30

// zstdDecoder is shared by all readers; it serves as many at once as there are CPUs.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(pageBytesMax))
	if err != nil {
		panic("BUG: options of zstd: " + err.Error())
	}
	return decoder
})

// pageReader reads the pages of a file, checks and decompresses them.
type pageReader struct {
	file    *File
	header  format.PageHeader
	bytes   thrift.BytesReader
	decoder *thrift.Decoder
	again   bytes.Buffer // the decoded header, encoded once more
	encoder *thrift.Encoder
}

func newPageReader(f *File) *pageReader {
	protocol := new(thrift.CompactProtocol)
	r := &pageReader{file: f, bytes: protocol.NewReaderFromBytes(nil)}
	r.decoder = thrift.NewDecoder(r.bytes)
	r.encoder = thrift.NewEncoder(protocol.NewWriter(&r.again))
	return r
}

// pageMemory is the memory of one column's page. It is reused for the next one.
type pageMemory struct {
	raw, plain []byte
}

// encodedPage is a page whose checksum is right. Its bytes are in a pageMemory.
type encodedPage struct {
	rows, nulls    int
	encoding       format.Encoding
	levels, values []byte
}

// readData reads the data page at a place.
func (r *pageReader) readData(memory *pageMemory, chunk *chunkMeta, at *pageMeta) (encodedPage, error) {
	body, err := r.read(memory, at.section)
	if err != nil {
		return encodedPage{}, err
	}
	page, err := r.checkData(at, body)
	if err == nil {
		err = r.expand(&page, memory, chunk)
	}
	if err != nil {
		return encodedPage{}, r.file.corrupt(at.offset, "page of rows %d to %d: %v", at.row, at.end, err)
	}
	return page, nil
}

var errHeader = errors.New("header does not fit the page")

// checkData compares a page header with the index and splits the page into levels and values.
func (r *pageReader) checkData(at *pageMeta, body []byte) (page encodedPage, err error) {
	header := &r.header.DataPageHeaderV2.V
	levels, rows := int(header.DefinitionLevelsByteLength), int(header.NumRows)
	switch {
	case r.header.Type != format.DataPageV2 || !r.header.DataPageHeaderV2.Valid:
		return page, errHeader
	case int64(rows) != at.end-at.row || int(header.NumValues) != rows:
		return page, fmt.Errorf("%w: %d values in %d rows", errHeader, header.NumValues, rows)
	case header.NumNulls < 0 || int(header.NumNulls) > rows || (at.nulls >= 0 && int64(header.NumNulls) != at.nulls):
		return page, fmt.Errorf("%w: %d nulls, %d stated", errHeader, header.NumNulls, at.nulls)
	case header.Statistics.NullCount != int64(header.NumNulls):
		return page, errHeader
	case header.RepetitionLevelsByteLength != 0 || levels < 0 || levels > len(body):
		return page, fmt.Errorf("%w: levels of %d bytes", errHeader, levels)
	}
	page = encodedPage{rows: rows, nulls: int(header.NumNulls), encoding: header.Encoding}
	page.levels, page.values = body[:levels], body[levels:]
	return page, nil
}

// expand decompresses the values of a page, if they are compressed.
func (r *pageReader) expand(page *encodedPage, memory *pageMemory, chunk *chunkMeta) (err error) {
	raw := int(r.header.UncompressedPageSize) - len(page.levels)
	if compressed, stated := r.header.DataPageHeaderV2.V.IsCompressed.Get(); stated && compressed {
		if !chunk.compressed {
			return errHeader
		}
		if page.values, err = decompress(memory, page.values, raw); err != nil {
			return err
		}
	}
	if len(page.values) != raw {
		return fmt.Errorf("%w: values of %d bytes, %d stated", errHeader, len(page.values), raw)
	}
	return nil
}

// readDictionary reads a dictionary page and returns its values in PLAIN encoding, and their number.
func (r *pageReader) readDictionary(memory *pageMemory, chunk *chunkMeta) (plain []byte, count int, err error) {
	body, err := r.read(memory, chunk.dictionary)
	if err != nil {
		return nil, 0, err
	}
	header, ok := r.header.DictionaryPageHeader.Get()
	if !ok || r.header.Type != format.DictionaryPage || header.Encoding != format.Plain || header.NumValues < 0 {
		return nil, 0, r.file.corrupt(chunk.dictionary.offset, "dictionary: %v", errHeader)
	}
	if chunk.compressed {
		if body, err = decompress(memory, body, int(r.header.UncompressedPageSize)); err != nil {
			return nil, 0, r.file.corrupt(chunk.dictionary.offset, "dictionary: %v", err)
		}
	}
	if len(body) != int(r.header.UncompressedPageSize) {
		return nil, 0, r.file.corrupt(chunk.dictionary.offset, "dictionary: %v", errHeader)
	}
	return body, int(header.NumValues), nil
}

// read returns the bytes after the header of a page and checks them. The header is in r until the next page.
func (r *pageReader) read(memory *pageMemory, at section) ([]byte, error) {
	if int64(cap(memory.raw)) < at.length {
		memory.raw = make([]byte, at.length)
	}
	memory.raw = memory.raw[:at.length]
	if err := r.file.readAt(memory.raw, at.offset); err != nil {
		return nil, err
	}
	if err := r.decodeHeader(memory.raw); err != nil {
		return nil, r.file.corrupt(at.offset, "page header: %v", err)
	}
	body := memory.raw[r.bytes.BytesRead():]
	if len(body) != int(r.header.CompressedPageSize) {
		return nil, r.file.corrupt(at.offset, "page of %d bytes, %d stated", len(body), r.header.CompressedPageSize)
	}
	if got, stated := crc32.ChecksumIEEE(body), uint32(r.header.CRC); got != stated {
		return nil, r.file.corrupt(at.offset, "checksum of the page: got %08x, stated %08x", got, stated)
	}
	return body, nil
}

// decodeHeader decodes the header that text starts with. No checksum covers it, and the decoder passes over what it
// doesn't know. So it must be, byte for byte, what encoding it gives; its values are checked one by one later.
func (r *pageReader) decodeHeader(text []byte) (err error) {
	defer recoverAs(&err)
	r.header = format.PageHeader{}
	r.bytes.ResetBytes(text)
	if err := r.decoder.Decode(&r.header); err != nil {
		return err
	}
	r.again.Reset()
	if err := r.encoder.Encode(&r.header); err != nil {
		return err
	}
	if !bytes.Equal(r.again.Bytes(), text[:r.bytes.BytesRead()]) {
		return errHeader
	}
	return nil
}

// decompress returns the content of a zstd frame. All but the smallest state their size, which must be the given one.
func decompress(memory *pageMemory, packed []byte, size int) (plain []byte, err error) {
	var frame zstd.Header
	if err := frame.Decode(packed); err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if frame.HasFCS && frame.FrameContentSize != uint64(size) {
		return nil, fmt.Errorf("zstd: %d bytes, want %d", frame.FrameContentSize, size)
	}
	memory.plain, err = zstdDecoder().DecodeAll(packed, memory.plain[:0])
	return memory.plain, err
}

var errValues = errors.New("values end early or are too many")

// decodeLevels returns the presence of each row as runs of 0 and 1.
func decodeLevels(presence []run, page *encodedPage) ([]run, error) {
	presence, err := decodeHybrid(presence[:0], page.levels, 1, page.rows)
	if err != nil {
		return presence, err
	}
	values := 0
	for _, r := range presence {
		values += int(r.count * r.value)
	}
	if values != page.rows-page.nulls {
		return presence, fmt.Errorf("levels have %d values, want %d", values, page.rows-page.nulls)
	}
	return presence, nil
}

// decodeNumbers returns the values of a page of numbers, without nulls.
func decodeNumbers(numbers []uint64, kind Kind, page *encodedPage) (_ []uint64, err error) {
	defer recoverAs(&err)
	numbers = numbers[:0]
	count := page.rows - page.nulls
	switch {
	case count == 0 && len(page.values) == 0:
		return numbers, nil
	case page.encoding == format.DeltaBinaryPacked && (kind == KindInt || kind == KindUint):
		return decodeDeltas(numbers, page.values, count)
	case page.encoding != format.Plain:
		return numbers, fmt.Errorf("encoding %v of %v", page.encoding, kind)
	case kind == KindBool:
		return decodeBits(numbers, page.values, count)
	case len(page.values) != 8*count:
		return numbers, errValues
	}
	for values := page.values; len(values) > 0; values = values[8:] {
		numbers = append(numbers, binary.LittleEndian.Uint64(values))
	}
	return numbers, nil
}

func decodeDeltas(numbers []uint64, values []byte, count int) ([]uint64, error) {
	// The decoder believes the number of values that the page states.
	rest := values
	var stated uint64
	for range 3 { // block size, miniblocks, values
		var n int
		if stated, n = binary.Uvarint(rest); n <= 0 {
			return numbers, errValues
		}
		rest = rest[n:]
	}
	if stated != uint64(count) {
		return numbers, fmt.Errorf("%d values, want %d", stated, count)
	}
	decoded, err := deltaCodec.DecodeInt64(signed(numbers), values)
	return unsigned64(decoded), err
}

func decodeBits(numbers []uint64, values []byte, count int) ([]uint64, error) {
	if len(values) != (count+7)/8 {
		return numbers, errValues
	}
	for i := range count {
		numbers = append(numbers, uint64(values[i/8]>>(i%8)&1))
	}
	return numbers, nil
}

// nextText splits the first string off strings in PLAIN encoding.
func nextText(plain []byte) (text, rest []byte, ok bool) {
	if len(plain) < 4 {
		return nil, nil, false
	}
	length := uint64(binary.LittleEndian.Uint32(plain))
	if length > uint64(len(plain)-4) {
		return nil, nil, false
	}
	end := 4 + int(length)
	return plain[4:end:end], plain[end:], true
}
