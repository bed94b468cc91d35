package segment

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// Parquet has a checksum for the bodies of pages and none for their headers, the page index and the footer, and the
// library doesn't check that of a dictionary which it reads on its own. So every byte of a file is under a checksum
// of ours, and nothing that the library reads has not been checked before it sees it:
//
//	| data: row groups        | index: column and offset indexes | footer, its length, magic  |
//	| a checksum per block    | one checksum                     | one checksum of the footer |
//
// All are in the last value of the footer's metadata. See FORMAT.md, "Checksums".

const (
	parquetMagic = "PAR1"
	trailerBytes = 4 + len(parquetMagic) // behind the footer: its length and the magic

	// blocksMax bounds the table of checksums, which every reader of the file reads: blocks are as small as this number
	// of them allows, because a page is read with the blocks that it lies in.
	blocksMax = 8192

	// checksumDigits is the length of a checksum in hexadecimal. The footer's counts its own digits as zeros.
	checksumDigits = 8
	checksumZeros  = "00000000"
)

// blockSizes are what a checksum may cover.
var blockSizes = [...]int{4 << 10, 16 << 10, 64 << 10}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksums is what a file says of its bytes.
type checksums struct {
	footer, index uint32
	dataBytes     int64
	blockBytes    int64
	blocks        []uint32
}

// String returns the checksums as the value of their key.
func (c *checksums) String() string {
	table := make([]byte, 0, 4*len(c.blocks))
	for _, sum := range c.blocks {
		table = binary.LittleEndian.AppendUint32(table, sum)
	}
	text := base64.StdEncoding.EncodeToString(table)
	return fmt.Sprintf("%08x %08x %d %d %s", c.footer, c.index, c.dataBytes, c.blockBytes, text)
}

// parseChecksums is the inverse of String.
func parseChecksums(text string) (c checksums, err error) {
	parts := strings.Split(text, " ")
	if len(parts) != 5 || len(parts[0]) != checksumDigits || len(parts[1]) != checksumDigits {
		return c, fmt.Errorf("checksums of %d parts", len(parts))
	}
	for i, sum := range []*uint32{&c.footer, &c.index} {
		n, err := strconv.ParseUint(parts[i], 16, 32)
		if err != nil {
			return c, fmt.Errorf("checksums: %w", err)
		}
		*sum = uint32(n)
	}
	for i, size := range []*int64{&c.dataBytes, &c.blockBytes} {
		if *size, err = strconv.ParseInt(parts[2+i], 10, 64); err != nil || *size < 0 {
			return c, fmt.Errorf("checksums of %q bytes: %w", parts[2+i], err)
		}
	}
	if !slices.Contains(blockSizes[:], int(c.blockBytes)) {
		return c, fmt.Errorf("checksums of blocks of %d bytes", c.blockBytes)
	}
	table, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil {
		return c, fmt.Errorf("checksums: %w", err)
	}
	if blocks := c.dataBytes/c.blockBytes + min(c.dataBytes%c.blockBytes, 1); int64(len(table)) != 4*blocks {
		return c, fmt.Errorf("checksums of %d bytes for %d bytes of data", len(table), c.dataBytes)
	}
	c.blocks = make([]uint32, 0, len(table)/4)
	for ; len(table) > 0; table = table[4:] {
		c.blocks = append(c.blocks, binary.LittleEndian.Uint32(table))
	}
	return c, nil
}

// findChecksums finds the value of the checksums in an encoded footer. It is behind the last occurrence of their key,
// with the header of its field and its length before it.
func findChecksums(footer []byte) (at, length int, err error) {
	at = bytes.LastIndex(footer, []byte(metaChecksums))
	if at < 0 {
		return 0, 0, fmt.Errorf("the footer has no %s", metaChecksums)
	}
	at += len(metaChecksums) + 1
	size, n := binary.Uvarint(footer[min(at, len(footer)):])
	if n <= 0 || size < checksumDigits || size > uint64(len(footer)-at-n) {
		return 0, 0, fmt.Errorf("the footer ends in %s", metaChecksums)
	}
	return at + n, int(size), nil
}

// footerChecksum computes the checksum of an encoded footer, with zeros for the digits at a place.
func footerChecksum(footer []byte, at int) uint32 {
	sum := crc32.Checksum(footer[:at], castagnoli)
	sum = crc32.Update(sum, castagnoli, []byte(checksumZeros))
	return crc32.Update(sum, castagnoli, footer[at+checksumDigits:])
}

// blockSums computes the checksums of data while it is written.
type blockSums struct {
	size   int // of a block
	blocks []uint32
	sum    uint32 // of the open block
	filled int    // bytes in it
}

func (b *blockSums) add(p []byte) {
	for len(p) > 0 {
		n := min(len(p), b.size-b.filled)
		b.sum = crc32.Update(b.sum, castagnoli, p[:n])
		b.filled += n
		p = p[n:]
		if b.filled == b.size {
			b.end()
		}
	}
}

// end ends the open block, if there is one.
func (b *blockSums) end() {
	if b.filled > 0 {
		b.blocks = append(b.blocks, b.sum)
		b.sum, b.filled = 0, 0
	}
}

// dataSums computes checksums for every size of blocks, because only the end tells which is right.
type dataSums [len(blockSizes)]blockSums

func (d *dataSums) reset() {
	for i, size := range blockSizes {
		d[i] = blockSums{size: size, blocks: d[i].blocks[:0]}
	}
}

// add adds bytes to the blocks of each size, but for those of which there are already too many.
func (d *dataSums) add(p []byte) {
	for i := range d {
		if len(d[i].blocks) <= blocksMax || i == len(d)-1 {
			d[i].add(p)
		}
	}
}

// end returns the checksums of the data.
func (d *dataSums) end(dataBytes int64) *checksums {
	for i := range d {
		d[i].end()
		if len(d[i].blocks) <= blocksMax || i == len(d)-1 {
			return &checksums{dataBytes: dataBytes, blockBytes: int64(d[i].size), blocks: d[i].blocks}
		}
	}
	return nil
}
