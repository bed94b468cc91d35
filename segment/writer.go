package segment

import (
	"bytes"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// level1Codec compresses the pages of level 1. It keeps its encoders for all writers.
var level1Codec = &zstd.Codec{Level: zstd.SpeedFastest}

// cellsMax is how many tags of runs are looked up before they are handed to their columns.
const cellsMax = 16 << 10

// fileWriter writes one file after the other, all with the same columns. It takes rows in order, makes the values of
// one column after the other of them, and tells the library where pages and row groups end.
type fileWriter struct {
	key      string
	out      output
	file     *parquet.GenericWriter[any]
	info     FileInfo
	columns  []columnWriter  // time, tags, fields
	values   []parquet.Value // scratch of all columns
	cells    []parquet.Value // tags of some runs, run by run
	mapping  []int           // for each column of the block, its field
	series   []byte          // key of the last row
	lastTime int64

	groupRows   int
	groupOffset int64 // where the open row group starts
	times       bounds
	written     Written
}

// newFileWriter returns a writer for files with the columns of info.
func newFileWriter(key string, info *FileInfo) (*fileWriter, error) {
	options := writerOptions(info)
	if _, err := parquet.NewWriterConfig(options...); err != nil {
		return nil, fmt.Errorf("set up the Parquet writer: %w", err)
	}
	w := &fileWriter{key: key, out: newOutput(), values: make([]parquet.Value, valuesAtOnce)}
	w.file = parquet.NewGenericWriter[any](&w.out, options...)
	w.columns = newColumnWriters(info, w.file.ColumnWriters())
	return w, nil
}

func writerOptions(info *FileInfo) []parquet.WriterOption {
	columns := 1 + len(info.Tags) + len(info.Fields)
	// Pages end where a columnWriter ends them, before the library would.
	pageBytes := 2 * (valueMemoryBytes*pageValues(columns) + nullMemoryBytes*pageRows(columns, info.Level) +
		pageText(columns))
	options := []parquet.WriterOption{
		schemaOf(info),
		origin{},
		parquet.WriteBufferSize(0), // output has a buffer of its own
		parquet.PageBufferSize(pageBytes),
		parquet.DataPageStatistics(false),
		parquet.ColumnIndexSizeLimit(func([]string) int { return tagBoundBytes }),
	}
	if info.Level > 0 {
		options = append(options, parquet.Compression(level1Codec))
	}
	var sorting []parquet.SortingColumn
	for _, name := range info.Tags {
		sorting = append(sorting, parquet.Ascending(name))
	}
	sorting = append(sorting, parquet.Ascending(timeName))
	options = append(options, parquet.SortingWriterConfig(parquet.SortingColumns(sorting...)))
	for _, field := range info.Fields {
		if field.Kind == KindString {
			options = append(options, parquet.SkipPageBounds(field.Name))
		}
	}
	return options
}

// origin is an option that says who wrote the file, without the build that parquet.CreatedBy asks for.
type origin struct{}

// ConfigureWriter implements parquet.WriterOption.
func (origin) ConfigureWriter(config *parquet.WriterConfig) { config.CreatedBy = createdBy }

// reset prepares for a file with the writer's columns.
func (w *fileWriter) reset(out io.Writer, info FileInfo) {
	w.out.reset(out)
	w.file.Reset(&w.out)
	for _, pair := range keyValues(&info) {
		w.file.SetKeyValueMetadata(pair.Key, pair.Value)
	}
	w.info = info
	w.series = w.series[:0]
	w.groupRows, w.groupOffset = 0, 0
	w.times = bounds{}
	w.written = newWritten(&info)
	for i := range w.columns {
		w.columns[i].reset()
	}
}

// release lets go of the output, and reports whether the writer may be kept.
func (w *fileWriter) release() bool {
	memory := 0
	for i := range w.columns {
		memory += w.columns[i].memoryBytes()
	}
	w.out.reset(nil)
	w.info, w.written = FileInfo{}, Written{}
	clear(w.values)
	clear(w.cells[:cap(w.cells)])
	return memory <= writerBytesMax+len(w.columns)*columnMemoryBytes
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
	if err := w.addRuns(block); err != nil {
		return err
	}
	if err := w.columns[0].addTimes(w.values, block.Times); err != nil {
		return err
	}
	w.groupRows += len(block.Times)
	w.written.Rows += int64(len(block.Times))
	return w.addFields(block)
}

// groupFull reports whether the row group must end before it takes more rows. Files of level 0 have one row group: they
// are as small as a memtable, and their worst case counts every dictionary once.
func (w *fileWriter) groupFull(rows int) bool {
	return w.groupRows > 0 && w.info.Level > 0 &&
		(w.groupRows+rows > groupRowsMax || w.file.Size()-w.groupOffset >= groupBytesMax)
}

// mapColumns finds the field of each column of the block. Both ascend by name.
func (w *fileWriter) mapColumns(block *Block) error {
	w.mapping = w.mapping[:0]
	fields := w.info.Fields
	field := 0
	for i := range block.Columns {
		column := &block.Columns[i]
		for field < len(fields) && fields[field].Name < column.Name {
			field++
		}
		if field == len(fields) || fields[field] != (ColumnDef{column.Name, column.Kind}) {
			return fmt.Errorf("%w: %v column %q is late or not of the file", ErrSourceOrder, column.Kind, column.Name)
		}
		w.mapping = append(w.mapping, field)
		field++
	}
	return nil
}

// addRuns checks the order of rows and hands their tags to the columns, some runs at a time.
func (w *fileWriter) addRuns(block *Block) error {
	row := 0
	runsMax := max(cellsMax/max(len(w.info.Tags), 1), 1)
	for runs := block.Runs; len(runs) > 0; {
		part := runs[:min(len(runs), runsMax)]
		runs = runs[len(part):]
		w.cells = w.cells[:0]
		for _, run := range part {
			if run.Rows > len(block.Times)-row {
				return fmt.Errorf("%w: runs have more than %d rows", ErrSourceOrder, len(block.Times))
			}
			if err := w.checkRun(run.Key, block.Times[row:row+run.Rows]); err != nil {
				return err
			}
			if err := w.addCells(run.Key); err != nil {
				return err
			}
			row += run.Rows
		}
		for i := range w.info.Tags {
			if err := w.columns[1+i].addTags(w.values, part, w.cells[i:], len(w.info.Tags)); err != nil {
				return err
			}
		}
	}
	if row != len(block.Times) {
		return fmt.Errorf("%w: runs have %d of %d rows", ErrSourceOrder, row, len(block.Times))
	}
	return nil
}

// checkRun checks that rows of one series come after those before them.
func (w *fileWriter) checkRun(key []byte, times []int64) error {
	if len(times) == 0 {
		return nil
	}
	order := bytes.Compare(w.series, key)
	if order > 0 || (order == 0 && times[0] <= w.lastTime) {
		return fmt.Errorf("%w: series %q at %d after %q at %d", ErrSourceOrder, key, times[0], w.series, w.lastTime)
	}
	if order < 0 {
		w.series = append(w.series[:0], key...)
	}
	last := times[0]
	for _, t := range times[1:] {
		if t <= last {
			return fmt.Errorf("%w: time %d after %d of series %q", ErrSourceOrder, t, last, key)
		}
		last = t
	}
	w.lastTime = last
	w.times.extend(KindInt, bounds{true, uint64(times[0]), uint64(last)})
	return nil
}

// addCells appends the value of each tag column. The tags of a key and the columns ascend by name.
func (w *fileWriter) addCells(key []byte) error {
	rest := key
	escaped := bytes.IndexByte(key, keyEscape) >= 0
	var name, value []byte
	for _, tag := range w.info.Tags {
		if name == nil && len(rest) > 1 {
			name, value, rest = nextTag(rest)
			if escaped {
				name, value = keyText(name), keyText(value)
			}
		}
		if name != nil && string(name) == tag {
			cell := parquet.ByteArrayValue(value)
			cell.SetDefinitionLevel(1)
			w.cells = append(w.cells, cell)
			name = nil
			continue
		}
		w.cells = append(w.cells, parquet.NullValue())
	}
	if name != nil || len(rest) > 1 {
		return fmt.Errorf("%w: series %q has a tag that its file lacks", ErrSourceOrder, key)
	}
	return nil
}

func (w *fileWriter) addFields(block *Block) error {
	fields := w.columns[1+len(w.info.Tags):]
	next := 0
	for i, field := range w.mapping {
		for ; next < field; next++ {
			if err := fields[next].addNulls(w.values, len(block.Times)); err != nil {
				return err
			}
		}
		if err := fields[field].addCells(w.values, &block.Columns[i], len(block.Times)); err != nil {
			return err
		}
		next = field + 1
	}
	for ; next < len(fields); next++ {
		if err := fields[next].addNulls(w.values, len(block.Times)); err != nil {
			return err
		}
	}
	return nil
}

// endGroup completes the open row group and writes it out.
func (w *fileWriter) endGroup() error {
	if err := w.file.Flush(); err != nil {
		return err
	}
	w.groupRows, w.groupOffset = 0, w.out.offset
	for i := range w.columns {
		w.columns[i].startGroup()
	}
	return nil
}

// finish writes the end of the file and returns its account: cells as counted here, bounds as the library has them.
func (w *fileWriter) finish() (Written, error) {
	if err := w.endGroup(); err != nil {
		return Written{}, err
	}
	w.file.SetKeyValueMetadata(metaChecksums, w.out.startEnd().String())
	if err := w.file.Close(); err != nil {
		return Written{}, err
	}
	if err := w.out.finish(); err != nil {
		return Written{}, err
	}
	written := w.written
	written.SizeBytes, written.Checksum = w.out.offset, w.out.checksum
	written.MinTime, written.MaxTime = int64(w.times.min), int64(w.times.max)
	metadata := w.file.File().Metadata()
	for i := range metadata.RowGroups {
		group := &metadata.RowGroups[i]
		for j := range written.Columns {
			chunk, err := parseChunk(&group.Columns[1+j], written.Columns[j].Kind, group.NumRows)
			if err != nil {
				return Written{}, fmt.Errorf("BUG: column %d: %w", 1+j, err)
			}
			written.Columns[j].add(0, 0, chunk.bounds)
		}
	}
	// Row groups share paths and sorting columns with the writer, whose Reset would clear both for the next file:
	// https://github.com/parquet-go/parquet-go/issues/602
	clear(metadata.RowGroups)
	for i := range written.Columns {
		written.Columns[i].Values, written.Columns[i].Nulls = w.columns[1+i].cells()
	}
	return written, nil
}
