package segment

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"sync"
)

// writersKeptMax bounds the idle writers of a WriterPool, and with them its memory: an idle writer keeps up to about
// 4 MiB of page buffers, 8 MiB of columns and what zstd needs.
const writersKeptMax = 4

// WriterPool writes segment files and keeps the memory of a few writers for the next ones. Its zero value is ready, and
// it may be used by several goroutines.
type WriterPool struct {
	mu   sync.Mutex
	idle []*fileWriter
}

// Write encodes all rows of src, which it does not close, as a Parquet file into w. The fields of src must be among
// info.Fields, its tags among info.Tags. After an error, w holds a part of a file that is good for nothing.
func (p *WriterPool) Write(w io.Writer, info FileInfo, src Source) (Written, error) {
	writer := p.get()
	defer p.put(writer)
	written, err := writer.write(w, info, src)
	if err != nil {
		return Written{}, fmt.Errorf("write segment of %q in %q: %w", info.Measurement, info.Database, err)
	}
	return written, nil
}

func (p *WriterPool) get() *fileWriter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		writer := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return writer
	}
	return newFileWriter()
}

func (p *WriterPool) put(writer *fileWriter) {
	writer.release()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < writersKeptMax {
		p.idle = append(p.idle, writer)
	}
}

// fileWriter writes one file after the other. Rows of a block are dealt to their columns at once; each column makes a
// page of them whenever it has enough, and the pages stay in memory until their row group ends.
type fileWriter struct {
	out       output
	pages     *pageWriter
	footer    footerWriter
	info      FileInfo
	time      timeColumn
	tags      []tagColumn
	fields    []fieldColumn
	mapping   []int  // for each column of the block, its field
	series    []byte // key of the last row
	lastTime  int64
	groupRows int
}

func newFileWriter() *fileWriter {
	return &fileWriter{
		out:    output{w: bufio.NewWriterSize(nil, 64<<10)},
		pages:  newPageWriter(),
		footer: newFooterWriter(),
	}
}

func (w *fileWriter) write(out io.Writer, info FileInfo, src Source) (Written, error) {
	if err := w.begin(out, info); err != nil {
		return Written{}, err
	}
	for {
		block, err := src.Next()
		if err == io.EOF { // an error that wraps io.EOF is not the end
			return w.finish()
		}
		if err != nil {
			return Written{}, err
		}
		if err := w.addBlock(block); err != nil {
			return Written{}, err
		}
	}
}

// reset prepares for a file with the columns of info.
func (w *fileWriter) reset(out io.Writer, info FileInfo) error {
	if err := info.checkOrder(); err != nil {
		return err
	}
	w.out.reset(out)
	if err := w.pages.reset(info.Level > 0); err != nil {
		return err
	}
	w.info = info
	w.footer.reset(&w.info)
	w.series = w.series[:0]
	w.tags = resized(w.tags, len(info.Tags))
	w.fields = resized(w.fields, len(info.Fields))
	w.resetColumns()
	return nil
}

// resized returns s with the given length, and with what the elements beyond its old one remember.
func resized[T any](s []T, length int) []T {
	if length > cap(s) {
		s = append(s[:cap(s)], make([]T, length-cap(s))...)
	}
	return s[:length]
}

func (w *fileWriter) resetColumns() {
	columns := 1 + len(w.tags) + len(w.fields)
	w.time.reset(pageValues(columns))
	for i := range w.tags {
		w.tags[i].reset(w.info.Tags[i], columns)
	}
	for i := range w.fields {
		w.fields[i].reset(w.info.Fields[i], columns, w.info.Level > 0)
	}
	w.groupRows = 0
}

// release lets go of the output and of memory that an unusual file has made large.
func (w *fileWriter) release() {
	w.out.reset(nil)
	w.pages.buffer.reset()
	w.pages.trim()
	w.footer.release()
	w.info = FileInfo{}
	for i := range w.tags {
		w.tags[i].dictionary.trim()
	}
	for i := range w.fields {
		w.fields[i].trim()
	}
}

func (w *fileWriter) addBlock(block *Block) error {
	if w.groupFull(len(block.Times)) {
		if err := w.endGroup(); err != nil {
			return err
		}
	}
	if err := w.mapColumns(block); err != nil {
		return err
	}
	row := 0
	for _, run := range block.Runs {
		if run.Rows > len(block.Times)-row {
			return fmt.Errorf("%w: runs have more than %d rows", ErrSourceOrder, len(block.Times))
		}
		if err := w.addRun(run.Key, block.Times[row:row+run.Rows]); err != nil {
			return err
		}
		row += run.Rows
	}
	if row != len(block.Times) {
		return fmt.Errorf("%w: runs have %d of %d rows", ErrSourceOrder, row, len(block.Times))
	}
	w.groupRows += row
	if err := w.time.add(w.pages, block.Times); err != nil {
		return err
	}
	return w.addFields(block)
}

// groupFull reports whether the row group must end before it takes more rows. Files of level 0 have one row group: they
// are as small as a memtable, and their worst case counts every dictionary once.
func (w *fileWriter) groupFull(rows int) bool {
	if w.groupRows == 0 || w.groupRows+rows > math.MaxInt32 {
		return w.groupRows > 0
	}
	if w.info.Level == 0 {
		return false
	}
	dictionaries := 0
	for i := range w.tags {
		dictionaries += len(w.tags[i].dictionary.plain)
	}
	return w.groupRows+rows > groupRowsMax || w.pages.buffer.sizeBytes >= groupBytesMax ||
		dictionaries >= groupDictionaryBytes
}

// mapColumns finds the field of each column of the block. Both ascend by name.
func (w *fileWriter) mapColumns(block *Block) error {
	w.mapping = w.mapping[:0]
	field := 0
	for i := range block.Columns {
		column := &block.Columns[i]
		for field < len(w.fields) && w.fields[field].def.Name < column.Name {
			field++
		}
		if field == len(w.fields) || w.fields[field].def != (ColumnDef{column.Name, column.Kind}) {
			return fmt.Errorf("%w: %v column %q is late or not of the file", ErrSourceOrder, column.Kind, column.Name)
		}
		w.mapping = append(w.mapping, field)
		field++
	}
	return nil
}

// addRun deals the rows of one series to the tags and checks their order.
func (w *fileWriter) addRun(key []byte, times []int64) error {
	if len(times) == 0 {
		return nil
	}
	order := bytes.Compare(w.series, key)
	if order > 0 || (order == 0 && times[0] <= w.lastTime) {
		return fmt.Errorf("%w: series %q at %d after %q at %d", ErrSourceOrder, key, times[0], w.series, w.lastTime)
	}
	if order < 0 || w.groupRows == 0 {
		if err := w.startSeries(key); err != nil {
			return err
		}
	}
	last := times[0]
	for _, t := range times[1:] {
		if t <= last {
			return fmt.Errorf("%w: time %d after %d of series %q", ErrSourceOrder, t, last, key)
		}
		last = t
	}
	w.lastTime = last
	for i := range w.tags {
		if err := w.tags[i].add(w.pages, len(times)); err != nil {
			return err
		}
	}
	return nil
}

// startSeries gives each tag column its value for the rows to come. The tags of a key and the columns ascend by name.
func (w *fileWriter) startSeries(key []byte) error {
	w.series = append(w.series[:0], key...)
	rest := key
	var name, value []byte
	for i := range w.tags {
		if name == nil && len(rest) > 1 {
			name, value, rest = nextTag(rest)
		}
		if name != nil && string(name) == w.tags[i].name {
			w.tags[i].startSeries(value)
			name = nil
			continue
		}
		w.tags[i].startSeries(nil)
	}
	if name != nil || len(rest) > 1 {
		return fmt.Errorf("%w: series %q has a tag that its file lacks", ErrSourceOrder, key)
	}
	return nil
}

func (w *fileWriter) addFields(block *Block) error {
	rows := len(block.Times)
	next := 0
	for i, field := range w.mapping {
		for ; next < field; next++ {
			w.fields[next].addNulls(rows)
		}
		if err := w.fields[field].add(w.pages, &block.Columns[i], 0, rows); err != nil {
			return err
		}
		next = field + 1
	}
	for ; next < len(w.fields); next++ {
		w.fields[next].addNulls(rows)
	}
	return nil
}

// endGroup completes the open row group, if it has rows, and writes it out.
func (w *fileWriter) endGroup() error {
	if w.groupRows == 0 {
		return nil
	}
	if err := w.time.flush(w.pages); err != nil {
		return err
	}
	for i := range w.tags {
		if err := w.tags[i].finish(w.pages); err != nil {
			return err
		}
	}
	for i := range w.fields {
		if err := w.fields[i].flush(w.pages); err != nil {
			return err
		}
	}
	if err := w.footer.addGroup(w); err != nil {
		return err
	}
	w.pages.buffer.reset()
	w.resetColumns()
	return nil
}

// output counts what it writes.
type output struct {
	w      *bufio.Writer
	offset int64
}

func (o *output) reset(w io.Writer) {
	o.w.Reset(w)
	o.offset = 0
}

func (o *output) write(p []byte) error {
	n, err := o.w.Write(p)
	o.offset += int64(n)
	return err
}
