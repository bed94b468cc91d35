package segment

import (
	"bytes"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// span is a place in a pageBuffer.
type span struct {
	block, offset, length uint32
}

const (
	pageBlockBytes    = 256 << 10
	pageBlocksKeptMax = 16
)

// pageBuffer holds the pages of a row group until it is complete: Parquet wants the pages of one column together, while
// they come up column by column in turn. Blocks are reused; nothing moves when the buffer grows.
type pageBuffer struct {
	blocks    [][]byte
	spare     [][]byte
	sizeBytes int64
}

func (b *pageBuffer) add(parts ...[]byte) span {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	last := len(b.blocks) - 1
	if last < 0 || len(b.blocks[last])+length > cap(b.blocks[last]) {
		b.blocks = append(b.blocks, b.newBlock(length))
		last++
	}
	at := span{block: uint32(last), offset: uint32(len(b.blocks[last])), length: uint32(length)}
	for _, part := range parts {
		b.blocks[last] = append(b.blocks[last], part...)
	}
	b.sizeBytes += int64(length)
	return at
}

func (b *pageBuffer) newBlock(length int) []byte {
	if length > pageBlockBytes {
		return make([]byte, 0, length)
	}
	if n := len(b.spare); n > 0 {
		block := b.spare[n-1]
		b.spare = b.spare[:n-1]
		return block
	}
	return make([]byte, 0, pageBlockBytes)
}

func (b *pageBuffer) bytes(at span) []byte {
	return b.blocks[at.block][at.offset : at.offset+at.length]
}

// reset empties the buffer and keeps a few of its blocks.
func (b *pageBuffer) reset() {
	for i, block := range b.blocks {
		if cap(block) == pageBlockBytes && len(b.spare) < pageBlocksKeptMax {
			b.spare = append(b.spare, block[:0])
		}
		b.blocks[i] = nil
	}
	b.blocks = b.blocks[:0]
	b.sizeBytes = 0
}

// pageBody is the content of a data page before compression. Values of nulls are left out.
type pageBody struct {
	rows, nulls    int
	encoding       format.Encoding
	levels, values []byte
}

// pageWriter turns bodies into pages: it compresses, adds checksum and header, and puts them into the buffer.
type pageWriter struct {
	buffer   pageBuffer
	compress bool
	zstd     *zstd.Encoder // made when first needed

	header     format.PageHeader
	headerText bytes.Buffer
	encoder    *thrift.Encoder
	compressed []byte
	levels     []byte // scratch for callers
	values     []byte // scratch for callers
}

func newPageWriter() *pageWriter {
	p := new(pageWriter)
	p.encoder = thrift.NewEncoder(new(thrift.CompactProtocol).NewWriter(&p.headerText))
	return p
}

// reset prepares for a file, compressed or not.
func (p *pageWriter) reset(compress bool) error {
	p.compress = compress
	p.buffer.reset()
	if compress && p.zstd == nil {
		// Pages carry their own checksum. The window covers any page but those of long strings.
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return fmt.Errorf("set up zstd: %w", err)
		}
		p.zstd = encoder
	}
	return nil
}

// trim lets go of scratch memory that long strings have made large.
func (p *pageWriter) trim() {
	p.compressed, p.levels, p.values = trimmed(p.compressed), trimmed(p.levels), trimmed(p.values)
}

// keptBytesMax bounds each of the buffers that an idle writer keeps.
const keptBytesMax = 256 << 10

func trimmed(buf []byte) []byte {
	if cap(buf) > keptBytesMax {
		return nil
	}
	return buf[:0]
}

// addData writes a data page of version 2 and accounts for it in c.
func (p *pageWriter) addData(c *chunk, body pageBody, b bounds) error {
	raw := len(body.levels) + len(body.values)
	payload, isCompressed := body.values, false
	if p.compress && len(payload) >= compressBytesMin {
		p.compressed = p.zstd.EncodeAll(payload, p.compressed[:0])
		if len(p.compressed) < len(payload) {
			payload, isCompressed = p.compressed, true
		}
	}
	p.header = format.PageHeader{
		Type:                 format.DataPageV2,
		UncompressedPageSize: int32(raw),
		CompressedPageSize:   int32(len(body.levels) + len(payload)),
		CRC:                  int32(crc32.Update(crc32.ChecksumIEEE(body.levels), crc32.IEEETable, payload)),
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{
			NumValues:                  int32(body.rows),
			NumNulls:                   int32(body.nulls),
			NumRows:                    int32(body.rows),
			Encoding:                   body.encoding,
			DefinitionLevelsByteLength: int32(len(body.levels)),
			IsCompressed:               thrift.New(isCompressed),
			Statistics:                 format.Statistics{NullCount: int64(body.nulls)},
		}),
	}
	if err := p.encodeHeader(); err != nil {
		return err
	}
	at := p.buffer.add(p.headerText.Bytes(), body.levels, payload)
	c.pages = append(c.pages, page{span: at, rows: uint32(body.rows), nulls: uint32(body.nulls), bounds: b})
	c.rows += int64(body.rows)
	c.nulls += int64(body.nulls)
	c.sizeBytes += int64(at.length)
	c.rawBytes += int64(p.headerText.Len() + raw)
	c.usesEncoding(body.encoding)
	return nil
}

// addDictionary writes a dictionary page of count values in PLAIN encoding and accounts for it in c.
func (p *pageWriter) addDictionary(c *chunk, plain []byte, count int) error {
	payload := plain
	if p.compress {
		p.compressed = p.zstd.EncodeAll(plain, p.compressed[:0])
		payload = p.compressed
	}
	p.header = format.PageHeader{
		Type:                 format.DictionaryPage,
		UncompressedPageSize: int32(len(plain)),
		CompressedPageSize:   int32(len(payload)),
		CRC:                  int32(crc32.ChecksumIEEE(payload)),
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(count), Encoding: format.Plain}),
	}
	if err := p.encodeHeader(); err != nil {
		return err
	}
	c.dictionary = p.buffer.add(p.headerText.Bytes(), payload)
	c.sizeBytes += int64(c.dictionary.length)
	c.rawBytes += int64(p.headerText.Len() + len(plain))
	c.usesEncoding(format.Plain)
	return nil
}

func (p *pageWriter) encodeHeader() error {
	p.headerText.Reset()
	if err := p.encoder.Encode(&p.header); err != nil {
		return fmt.Errorf("encode page header: %w", err)
	}
	return nil
}
