package segment

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// What the idle writers of a WriterPool keep in memory: an open page of each column and its dictionary. A writer that
// has become larger than writerBytesMax by one unusual file is not kept.
const (
	writersKeptMax     = 16
	writersColumnsMax  = 2048 // of all idle writers
	writerBytesMax     = 4 << 20
	columnMemoryBytes  = 8 << 10 // of a column with little in it
	keptBytesMax       = 256 << 10
	valueMemoryBytes   = 13 // of a number in an open page: itself, its row, its level
	nullMemoryBytes    = 5  // of a null
	dictionaryOverhead = 3  // the library keeps a value in a map, in a string and in the page
)

// WriterPool writes segment files and keeps the memory of a few writers for the next ones of the same columns and
// level. Its zero value is ready, and it may be used by several goroutines.
type WriterPool struct {
	mu      sync.Mutex
	idle    []*fileWriter // least recently used first
	columns int           // of idle
}

// Write encodes all rows of src, which it does not close, as a Parquet file into w. The fields of src must be among
// info.Fields, its tags among info.Tags. After an error, w holds a part of a file that is good for nothing.
func (p *WriterPool) Write(w io.Writer, info FileInfo, src Source) (Written, error) {
	written, err := p.write(w, info, src)
	if err != nil {
		return Written{}, fmt.Errorf("write segment of %q in %q: %w", info.Measurement, info.Database, err)
	}
	return written, nil
}

// write hands the writer back only after a good file: what another one left in the library is not worth knowing.
func (p *WriterPool) write(w io.Writer, info FileInfo, src Source) (Written, error) {
	writer, err := p.begin(w, info)
	if err != nil {
		return Written{}, err
	}
	for {
		block, err := src.Next()
		if err == io.EOF { // an error that wraps io.EOF is not the end
			break
		}
		if err != nil {
			return Written{}, err
		}
		if err := writer.addBlock(block); err != nil {
			return Written{}, err
		}
	}
	written, err := writer.finish()
	if err == nil {
		p.put(writer)
	}
	return written, err
}

// begin starts a file: addBlock of the writer follows for its rows, in order, then its finish, and then put.
func (p *WriterPool) begin(w io.Writer, info FileInfo) (*fileWriter, error) {
	if err := info.checkOrder(); err != nil {
		return nil, err
	}
	key := writerKey(&info)
	writer := p.get(key)
	if writer == nil {
		var err error
		if writer, err = newFileWriter(key, &info); err != nil {
			return nil, err
		}
	}
	writer.reset(w, info)
	return writer, nil
}

// writerKey identifies what a writer of the library is made for.
func writerKey(info *FileInfo) string {
	var key strings.Builder
	fmt.Fprintf(&key, "%t %t %d", info.Level > 0, info.Plain, len(info.Tags))
	for _, name := range info.Tags {
		fmt.Fprintf(&key, " %d:%s", len(name), name)
	}
	for _, field := range info.Fields {
		fmt.Fprintf(&key, " %d %d:%s", field.Kind, len(field.Name), field.Name)
	}
	return key.String()
}

// get takes the writer for a key out of the pool, or returns nil.
func (p *WriterPool) get(key string) *fileWriter {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if p.idle[i].key == key {
			return p.remove(i)
		}
	}
	return nil
}

// put makes a writer the most recently used one and lets go of others as needed.
func (p *WriterPool) put(writer *fileWriter) {
	if !writer.release() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, writer)
	p.columns += len(writer.columns)
	for len(p.idle) > writersKeptMax || (p.columns > writersColumnsMax && len(p.idle) > 1) {
		p.remove(0)
	}
}

func (p *WriterPool) remove(i int) *fileWriter {
	writer := p.idle[i]
	copy(p.idle[i:], p.idle[i+1:])
	p.idle[len(p.idle)-1] = nil
	p.idle = p.idle[:len(p.idle)-1]
	p.columns -= len(writer.columns)
	return writer
}
