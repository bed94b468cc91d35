package segment

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"lineweir/internal/vfs"
)

// errRotationUnknown marks a checkpoint that may or may not have become the manifest.
var errRotationUnknown = errors.New("which manifest file is the newest is unknown")

// createManifest writes a checkpoint of c as the manifest of that number: temporary file, sync, rename, sync of the
// directory. Not before all of that is done may an edit go into it.
func createManifest(fsys vfs.FS, dir string, number uint64, c *catalog, unlinked []uint64) (*manifest, error) {
	path := manifestPath(dir, number)
	temporary := path + temporarySuffix
	m := &manifest{fs: fsys, dir: dir, number: number}
	if err := m.writeCheckpoint(temporary, c, unlinked); err != nil {
		return nil, errors.Join(fmt.Errorf("write checkpoint %s: %w", temporary, err), removeIfPresent(fsys, temporary))
	}
	if err := fsys.Rename(temporary, path); err != nil {
		err = fmt.Errorf("rename checkpoint to %s: %w", path, err)
		if _, statErr := fsys.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
			return nil, errors.Join(err, removeIfPresent(fsys, temporary))
		}
		return nil, fmt.Errorf("%w: %w", errRotationUnknown, err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("%w: sync %s: %w", errRotationUnknown, dir, err)
	}
	file, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", errRotationUnknown, path, err)
	}
	m.file = file
	m.planRotation()
	return m, nil
}

// writeCheckpoint fills the file and sets what the manifest knows about its size.
func (m *manifest) writeCheckpoint(name string, c *catalog, unlinked []uint64) (err error) {
	file, err := m.fs.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffered := bufio.NewWriterSize(file, 1<<18)
	if err := m.encodeCheckpoint(buffered, c, unlinked); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return file.Sync()
}

// encodeCheckpoint writes the header and the records that add up to c from nothing.
func (m *manifest) encodeCheckpoint(w io.Writer, c *catalog, unlinked []uint64) error {
	if err := m.encode(w, appendManifestHeader(nil, m.number)); err != nil {
		return err
	}
	for r := range checkpointRecords(c, unlinked) {
		payload, err := encodeRecord(r)
		if err != nil {
			return err
		}
		m.records++
		if err := m.encode(w, appendRecord(nil, m.records, payload)); err != nil {
			return err
		}
	}
	m.checkpointBytes = m.sizeBytes
	return nil
}

func (m *manifest) encode(w io.Writer, data []byte) error {
	n, err := w.Write(data)
	m.sizeBytes += int64(n)
	return err
}

// checkpointRecords yields the records of a checkpoint: one with everything but the segments, then these in portions.
func checkpointRecords(c *catalog, unlinked []uint64) func(yield func(record) bool) {
	portions := portionsOf(c.metas())
	first := record{
		Checkpoint: &checkpointRecord{
			Records: uint64(1 + len(portions)), NextID: c.nextID, NextRank: c.nextRank, MaxSequence: c.maxSequence,
			Unlinked: unlinked,
		},
		Shards: c.shards, Floors: c.floors, Databases: slices.Sorted(maps.Keys(c.databases)),
		Drops: c.drops.list(), Retention: c.retentions(), Holds: c.holdList(), Log: c.log,
	}
	return func(yield func(record) bool) {
		if !yield(first) {
			return
		}
		for _, portion := range portions {
			var r record
			r.addSegments(portion)
			if !yield(r) {
				return
			}
		}
	}
}

// portionsOf cuts segments into portions that fit into a record: not too many, and not with too many columns.
func portionsOf(metas []*Meta) [][]*Meta {
	var portions [][]*Meta
	start, columns := 0, 0
	for i, m := range metas {
		columns += len(m.Columns)
		if i+1 == len(metas) || i+1-start == recordSegmentsMax || columns >= recordColumnsMax {
			portions = append(portions, metas[start:i+1])
			start, columns = i+1, 0
		}
	}
	return portions
}

func removeIfPresent(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
