package segment

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// pageMeta is what the page index says about one page.
type pageMeta struct {
	offset   int64
	row, end int64 // rows of the group: first, and the one after the last
	nulls    int64 // -1: not read
	min, max parquet.Value
}

// chunkPages reads the pages of one column in a row group. It is for one goroutine.
type chunkPages struct {
	file   *File
	chunk  *chunkMeta
	reader checkedReader
	pages  []pageMeta
	source *parquet.FilePages
	page   parquet.Page // the one that was read last; its memory goes with it
}

// open starts with another chunk. Its pages have bounds and nulls if asked for.
func (c *chunkPages) open(f *File, group *groupMeta, column int, bounded bool) error {
	c.close()
	c.file, c.chunk = f, &group.chunks[column]
	c.reader.file, c.reader.err = f, nil
	if err := c.load(group.rows, bounded); err != nil {
		return c.failed(c.chunk.offset, "page index", err)
	}
	return nil
}

func (c *chunkPages) load(rows int64, bounded bool) (err error) {
	defer recoverAs(&err)
	offsets, err := c.chunk.file.OffsetIndexFrom(&c.reader)
	if err != nil {
		return err
	}
	c.pages = c.pages[:0]
	for i := range offsets.NumPages() {
		first, end := offsets.FirstRowIndex(i), rows
		if i+1 < offsets.NumPages() {
			end = offsets.FirstRowIndex(i + 1)
		}
		if first >= end || end > rows || (i == 0 && first != 0) {
			return fmt.Errorf("page %d has rows %d to %d of %d", i, first, end, rows)
		}
		c.pages = append(c.pages, pageMeta{offset: offsets.Offset(i), row: first, end: end, nulls: -1})
	}
	if len(c.pages) == 0 {
		return errors.New("no pages")
	}
	if bounded {
		if err := c.loadBounds(); err != nil {
			return err
		}
	}
	c.source = c.chunk.file.PagesFrom(&c.reader)
	return nil
}

func (c *chunkPages) loadBounds() error {
	index, err := c.chunk.file.ColumnIndexFrom(&c.reader)
	if err != nil {
		return err
	}
	if index.NumPages() != len(c.pages) {
		return fmt.Errorf("bounds of %d pages, want %d", index.NumPages(), len(c.pages))
	}
	for i := range c.pages {
		p := &c.pages[i]
		p.nulls, p.min, p.max = index.NullCount(i), index.MinValue(i), index.MaxValue(i)
	}
	return nil
}

// failed returns the error of the reader behind an error of the library, or calls it corruption.
func (c *chunkPages) failed(offset int64, what string, err error) error {
	if c.reader.err != nil {
		return c.reader.err
	}
	return c.file.corrupt(offset, "%s: %v", what, err)
}

// read returns a page. Its memory is reused by the next read.
func (c *chunkPages) read(at *pageMeta, decode func(parquet.Page) error) error {
	if err := c.readPage(at, decode); err != nil {
		return c.failed(at.offset, fmt.Sprintf("page of rows %d to %d", at.row, at.end), err)
	}
	return nil
}

func (c *chunkPages) readPage(at *pageMeta, decode func(parquet.Page) error) (err error) {
	defer recoverAs(&err)
	parquet.Release(c.page)
	c.page = nil
	if err := c.source.SeekToRow(at.row); err != nil {
		return err
	}
	if c.page, err = c.source.ReadPage(); err != nil {
		return err
	}
	if rows := at.end - at.row; c.page.NumRows() != rows {
		return fmt.Errorf("%d rows, want %d", c.page.NumRows(), rows)
	}
	return decode(c.page)
}

// dictionary returns the dictionary of the chunk, or nil if there is none.
func (c *chunkPages) dictionary() (dictionary parquet.Dictionary, err error) {
	defer func() {
		if err != nil {
			err = c.failed(c.chunk.offset, "dictionary", err)
		}
	}()
	defer recoverAs(&err)
	return c.source.ReadDictionary()
}

// close lets go of the chunk and the page.
func (c *chunkPages) close() {
	parquet.Release(c.page)
	if c.source != nil {
		c.source.Close()
	}
	c.page, c.source = nil, nil
	c.reader.blocks = nil
}

// appendPresence appends which rows of a page have a value, as runs of 0 and 1.
func appendPresence(presence []run, page parquet.Page) []run {
	levels := page.DefinitionLevels()
	for len(levels) > 0 {
		n := runLength(levels)
		presence = append(presence, run{uint32(levels[0]), uint32(n)})
		levels = levels[n:]
	}
	return presence
}
