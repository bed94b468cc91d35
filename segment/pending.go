package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"lineweir/internal/vfs"
)

// PendingFile is a segment file on its way into the live set: Write, then Seal of all files of an edit, then Apply. One
// goroutine at a time uses it. Whatever goes wrong before Apply, Abort removes the file.
type PendingFile struct {
	store   *Store
	info    FileInfo
	meta    Meta
	file    vfs.File    // while it is written
	writer  *fileWriter // likewise
	written Written
	synced  chan error // gets the result of the sync that finish began; nil before
	sealed  bool
}

// NewFile gives out the id of a new segment file; nothing is on disk yet. Level and info say what it will hold. The
// partition counts for a file of level 1 that is not mixed. The rank of a file of level 0 comes with Apply.
func (s *Store) NewFile(level int, info FileInfo, partition int64) *PendingFile {
	info.Level = level
	columns := make([]ColumnDef, 0, len(info.Tags)+len(info.Fields))
	for _, tag := range info.Tags {
		columns = append(columns, ColumnDef{Name: tag, Kind: KindTag})
	}
	columns = append(columns, info.Fields...)
	id := s.nextID.Add(1) - 1
	s.pending.Store(id, struct{}{})
	return &PendingFile{store: s, info: info, meta: Meta{
		ID: id, Level: level, Database: info.Database, Measurement: info.Measurement,
		Rank: info.Rank, MinSequence: info.MinSequence, MaxSequence: info.MaxSequence,
		Partition: partition, Mixed: info.Mixed, Columns: columns,
	}}
}

// Path is where the file is after Seal.
func (p *PendingFile) Path() string { return p.store.path(&p.meta) }

// ID is the id of the segment.
func (p *PendingFile) ID() uint64 { return p.meta.ID }

// Write encodes all rows of src, which it does not close, into the file and begins to write it back to the disk: up to
// 16 files at a time, while the caller prepares the next ones. Seal waits for that.
func (p *PendingFile) Write(src Source) (Meta, error) {
	if err := p.begin(); err != nil {
		return Meta{}, err
	}
	for {
		block, err := src.Next()
		if err == io.EOF { // an error that wraps io.EOF is not the end
			err = p.finish()
			return p.meta, err
		}
		if err != nil {
			return Meta{}, fmt.Errorf("read rows for segment %s: %w", p.path(), err)
		}
		if err := p.add(block); err != nil {
			return Meta{}, err
		}
	}
}

// begin creates the file under its temporary name. It ends with finish or Abort.
func (p *PendingFile) begin() error {
	dir := filepath.Dir(p.Path())
	if err := p.store.makeDir(dir); err != nil {
		return err
	}
	file, err := p.store.options.FS.OpenFile(p.path(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		p.store.madeDirs.Delete(dir) // it may be gone; the next file of it looks again
		return fmt.Errorf("create segment: %w", err)
	}
	p.file = file
	if p.writer, err = p.store.writers.begin(file, p.info); err != nil {
		return fmt.Errorf("begin segment %s: %w", p.path(), err)
	}
	return nil
}

// add appends the rows of a block.
func (p *PendingFile) add(block *Block) error {
	if err := p.writer.addBlock(block); err != nil {
		return fmt.Errorf("write segment %s: %w", p.path(), err)
	}
	return nil
}

// finish completes the file and begins to sync it.
func (p *PendingFile) finish() error {
	written, err := p.writer.finish()
	if err != nil {
		return fmt.Errorf("complete segment %s: %w", p.path(), err)
	}
	p.written = written
	p.meta.SizeBytes, p.meta.Rows = written.SizeBytes, written.Rows
	p.meta.MinTime, p.meta.MaxTime = written.MinTime, written.MaxTime
	p.meta.Checksum = written.Checksum
	p.store.writers.put(p.writer)
	p.writer = nil
	p.beginSync()
	return nil
}

// beginSync syncs and closes the file on a goroutine that Seal or Abort waits for. It blocks while too many run.
func (p *PendingFile) beginSync() {
	file, synced := p.file, make(chan error, 1)
	p.file, p.synced = nil, synced
	p.store.syncSlots <- struct{}{}
	go func() {
		defer func() { <-p.store.syncSlots }()
		synced <- errors.Join(file.Sync(), file.Close())
	}()
}

// waitSynced returns the result of the sync, as often as it is asked.
func (p *PendingFile) waitSynced() error {
	if p.synced == nil {
		panic("BUG: a segment file that was not written is sealed")
	}
	err := <-p.synced
	p.synced <- err
	return err
}

// Open opens the file for reading, before or after Seal. The caller closes it.
func (p *PendingFile) Open() (vfs.File, error) {
	return p.store.options.FS.OpenFile(p.path(), os.O_RDONLY, 0)
}

func (p *PendingFile) path() string {
	if p.sealed {
		return p.Path()
	}
	return p.Path() + temporarySuffix
}

// Seal makes written files durable under their names: it waits for their syncs, renames them and syncs each directory
// once. After an error some have their names and some don't; Abort all of them.
func (s *Store) Seal(pending []*PendingFile) error {
	dirs := make(map[string]struct{})
	for _, p := range pending {
		if err := p.waitSynced(); err != nil {
			return fmt.Errorf("sync segment %s: %w", p.path(), err)
		}
		dirs[filepath.Dir(p.Path())] = struct{}{}
	}
	for _, p := range pending {
		if err := s.options.FS.Rename(p.path(), p.Path()); err != nil {
			return fmt.Errorf("rename segment %s: %w", p.path(), err)
		}
		p.sealed = true
	}
	var group errgroup.Group
	group.SetLimit(segmentSyncs)
	for dir := range dirs {
		group.Go(func() error { return s.options.FS.SyncDir(dir) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("sync directory of segments: %w", err)
	}
	return nil
}

// Abort removes the file, unless an edit has taken it over: one that made it live, or one with an unknown outcome,
// which may name it. What can't be removed now goes at the next start. Calling it again does nothing.
func (p *PendingFile) Abort() {
	if _, mine := p.store.pending.LoadAndDelete(p.meta.ID); !mine {
		return
	}
	p.writer = nil // not for the next file: who knows what state it is in
	if p.file != nil {
		_ = p.file.Close() // the file goes
	}
	if p.synced != nil {
		_ = p.waitSynced() // likewise
	}
	if err := removeIfPresent(p.store.options.FS, p.path()); err != nil {
		p.store.options.Logger.Warn("an unfinished segment file can't be removed; the next start does",
			zap.String("path", p.path()), zap.Error(err))
	}
}
