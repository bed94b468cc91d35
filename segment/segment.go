package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lineweir/internal/vfs"
)

// partitionLength is the range of time that one partition of level 1 covers. Partitions are counted from the epoch, so
// each is a day of UTC.
const partitionLength = 24 * time.Hour

// partitionOf is the partition that a time in nanoseconds falls in, before 1970 too.
func partitionOf(t int64) int64 {
	partition := t / int64(partitionLength)
	if t%int64(partitionLength) < 0 {
		partition--
	}
	return partition
}

// Segment is a live file as seen by a View. It may be used until that View is released.
type Segment struct {
	meta       *Meta
	store      *Store
	birth      uint64    // first version that holds its file
	registered time.Time // when this process learned of its file
}

// Meta returns what the manifest says about the segment. The columns are shared and must not be changed.
func (sg *Segment) Meta() Meta { return *sg.meta }

// Scan yields the selected rows in order. The file is opened at the first read that the page cache can't answer. Close
// the Source before the View of the Segment is released. A damaged file is a *CorruptionError that names it.
func (sg *Segment) Scan(sel Selection) (Source, error) { return sg.scan(sel, false) }

// ScanKeys is Scan without the fields: its blocks have no columns, and of the file only tags and times are read.
func (sg *Segment) ScanKeys(sel Selection) (Source, error) { return sg.scan(sel, true) }

func (sg *Segment) scan(sel Selection, keysOnly bool) (Source, error) {
	if !sel.OverlapsTime(sg.meta.MinTime, sg.meta.MaxTime) {
		return emptySource{}, nil
	}
	path := sg.store.path(sg.meta)
	file := &lazyFile{fs: sg.store.options.FS, path: path}
	opened, err := OpenFile(path, sg.store.reader(sg.meta, file), sg.meta.SizeBytes)
	if err == nil {
		err = sg.meta.checkIdentity(path, opened.sums.footer)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open segment %d: %w", sg.meta.ID, err), file.Close())
	}
	if keysOnly {
		opened.info.Fields = nil
	}
	source := opened.scan(sel)
	return &fileSource{Source: source, file: file, memoryBytes: source.memoryBytes()}, nil
}

// MemoryBytes returns about what a Source of a Segment takes until it is closed. It is 0 for other Sources.
func MemoryBytes(source Source) int64 {
	if file, ok := source.(*fileSource); ok {
		return file.memoryBytes
	}
	return 0
}

// checkIdentity refuses a whole file that is not the one that the manifest names.
func (m *Meta) checkIdentity(path string, checksum uint32) error {
	if m.Checksum == 0 || m.Checksum == checksum {
		return nil
	}
	return &CorruptionError{Path: path, Reason: fmt.Sprintf(
		"it is another file: its footer has the checksum %08x, that of segment %d was written with %08x",
		checksum, m.ID, m.Checksum)}
}

// reader puts the page cache, if there is one, in front of a file of level 0.
func (s *Store) reader(m *Meta, file io.ReaderAt) io.ReaderAt {
	if m.Level != 0 || s.options.OpenL0 == nil {
		return file
	}
	return s.options.OpenL0(m.ID, file, m.SizeBytes)
}

func (s *Store) path(m *Meta) string { return filepath.Join(s.options.Dir, segmentPath(*m)) }

// fileSource closes the file behind a scan with it.
type fileSource struct {
	Source
	file        io.Closer
	memoryBytes int64
}

func (s *fileSource) Close() error { return errors.Join(s.Source.Close(), s.file.Close()) }

type emptySource struct{}

func (emptySource) Next() (*Block, error) { return nil, io.EOF }
func (emptySource) Close() error          { return nil }

// lazyFile opens its file at the first read, so that a scan whose pages are all cached makes no system call. After
// Close it opens the file again if it is read again.
type lazyFile struct {
	fs   vfs.FS
	path string

	mu   sync.Mutex
	file vfs.File
}

func (l *lazyFile) ReadAt(p []byte, offset int64) (int, error) {
	file, err := l.open()
	if err != nil {
		return 0, err
	}
	return file.ReadAt(p, offset)
}

func (l *lazyFile) open() (vfs.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		file, err := l.fs.OpenFile(l.path, os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		l.file = file
	}
	return l.file, nil
}

func (l *lazyFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
