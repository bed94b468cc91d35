package segment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"lineweir/internal/vfs"
)

// remains are what the whole records of manifests say together, where some of the records can't be read.
type remains struct {
	catalog *catalog // without segments
	known   map[uint64]*Meta
	removed map[uint64]struct{}
}

// rebuild makes a catalog for a manifest that can't be read: every segment whose file is whole is live, unless a record
// says that it was removed. What a record says of a segment counts; the file itself knows all but the rank of level 0.
func (p *RepairPlan) rebuild(found *inventory) error {
	r := remains{catalog: newCatalog(), known: make(map[uint64]*Meta), removed: make(map[uint64]struct{})}
	for _, number := range p.numbers {
		data, err := vfs.ReadFile(p.fs, manifestPath(p.manifestDir(), number))
		if err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		r.read(data)
	}
	p.catalog = r.catalog
	p.doubts(&r)
	var unranked []*Meta
	for _, path := range slices.Sorted(maps.Keys(found.segments)) {
		file := found.segments[path]
		if _, gone := r.removed[file.id]; gone {
			p.unlinked = append(p.unlinked, file.id)
			continue
		}
		m := r.known[file.id]
		if m == nil || segmentPath(*m) != path {
			var err error
			if m, err = readMeta(p.fs, p.dir, path, file); err != nil {
				if !isDamage(err) {
					return err
				}
				p.Lost = append(p.Lost, LostSegment{Meta: Meta{ID: file.id}, Path: path, Exists: true, Reason: err})
				continue
			}
			if m.Level == 0 {
				unranked = append(unranked, m)
			}
		}
		if p.catalog.checkDropped(m) != nil {
			p.unlinked = append(p.unlinked, file.id)
			continue
		}
		p.catalog.add(m)
	}
	p.missing(&r, found)
	slices.Sort(p.unlinked)
	p.rank(unranked)
	return nil
}

// read takes what the whole records of a manifest say, in their order, whatever lies between them.
func (r *remains) read(data []byte) {
	for len(data) > 0 {
		_, payload, whole := parseRecord(data)
		if !whole {
			at, _, found := findRecord(data[1:], 1)
			if !found {
				return
			}
			data = data[1+at:]
			continue
		}
		data = data[recordHeaderBytes+len(payload):]
		decoded, err := decodeRecord(payload)
		if err != nil {
			continue
		}
		if edit, err := decoded.edit(); err == nil {
			r.apply(edit, decoded.Checkpoint)
		}
	}
}

func (r *remains) apply(e Edit, checkpoint *checkpointRecord) {
	c := r.catalog
	if checkpoint != nil {
		c.nextID, c.nextRank = max(c.nextID, checkpoint.NextID), max(c.nextRank, checkpoint.NextRank)
		c.maxSequence = max(c.maxSequence, checkpoint.MaxSequence)
	}
	for i := range e.Add {
		m := &e.Add[i]
		r.known[m.ID] = m
		c.databases[m.Database] = struct{}{}
		c.nextID, c.nextRank = max(c.nextID, m.ID+1), max(c.nextRank, m.Rank+1)
		c.maxSequence = max(c.maxSequence, m.MaxSequence)
	}
	for _, id := range e.Promote {
		if m := r.known[id]; m != nil && m.Level == 0 {
			r.known[id] = promoted(m)
		}
	}
	for _, id := range e.Remove {
		r.removed[id] = struct{}{}
	}
	c.applyDrops(e.Drops)
	for _, name := range e.Databases {
		c.databases[name] = struct{}{}
	}
	for _, kept := range e.Retention {
		c.retention[kept.Database] = kept.Duration
	}
	if e.Log != 0 {
		c.log = e.Log
	}
	if e.Floors != nil && (e.Shards != 0 || len(e.Floors) == c.shards) {
		e.Shards = len(e.Floors)
		c.applyFloors(e)
	}
	if c.checkHolds(Edit{Holds: e.Holds}) == nil {
		c.applyHolds(e)
	}
	c.forgetDrops()
}

// missing reports segments that records name and that have no file.
func (p *RepairPlan) missing(r *remains, found *inventory) {
	for _, id := range slices.Sorted(maps.Keys(r.known)) {
		m := r.known[id]
		_, gone := r.removed[id]
		_, exists := found.segments[segmentPath(*m)]
		if gone || exists {
			continue
		}
		p.Doubts = append(p.Doubts, fmt.Sprintf("segment %d of measurement %q in database %q has no file: either a record "+
			"that can't be read removed it, or %d rows of sequences %d to %d are lost",
			id, m.Measurement, m.Database, m.Rows, m.MinSequence, m.MaxSequence))
	}
}

func (p *RepairPlan) doubts(r *remains) {
	p.Doubts = append(p.Doubts, "the manifest is put together from the records that can be read and from the segments "+
		"themselves: a DROP, a database without points, a retention or a removal of segments may be missing in it")
	if r.catalog.shards == 0 {
		p.Doubts = append(p.Doubts, "no record tells how far the log had been flushed: all of the log is replayed")
	}
}

// rank gives ranks to segments of level 0 of which only the files are left, by their ids: within a shard, flushes get
// ids and ranks in the same order.
func (p *RepairPlan) rank(unranked []*Meta) {
	if len(unranked) == 0 {
		return
	}
	var l0 []*Meta
	for _, m := range p.catalog.metas() {
		if m.Level == 0 {
			l0 = append(l0, m)
		}
	}
	slices.SortFunc(l0, func(a, b *Meta) int { return cmp.Compare(a.ID, b.ID) })
	for _, m := range l0 {
		ranked := *m
		ranked.Rank = p.catalog.nextRank
		p.catalog.add(&ranked)
	}
	for _, m := range unranked {
		p.Doubts = append(p.Doubts, fmt.Sprintf("segment %d of measurement %q in database %q is taken for one that was "+
			"not compacted: if it had been promoted, its points may hide later ones", m.ID, m.Measurement, m.Database))
	}
}

// readMeta makes of a file what the manifest would say of it.
func readMeta(fsys vfs.FS, dir, path string, found foundFile) (m *Meta, err error) {
	name := filepath.Join(dir, path)
	file := &lazyFile{fs: fsys, path: name}
	defer func() { err = errors.Join(err, file.Close()) }()
	opened, err := OpenFile(name, file, found.sizeBytes)
	if err != nil {
		return nil, err
	}
	info, written := opened.Info(), opened.Written()
	columns := make([]ColumnDef, 0, len(info.Tags)+len(info.Fields))
	for _, tag := range info.Tags {
		columns = append(columns, ColumnDef{Name: tag, Kind: KindTag})
	}
	m = &Meta{
		ID: found.id, Level: info.Level, Database: info.Database, Measurement: info.Measurement, Rank: info.Rank,
		SizeBytes: found.sizeBytes, Rows: written.Rows, MinTime: written.MinTime, MaxTime: written.MaxTime,
		MinSequence: info.MinSequence, MaxSequence: info.MaxSequence, Mixed: info.Mixed,
		Columns: append(columns, info.Fields...), Checksum: written.Checksum,
	}
	if m.Level == 1 && !m.Mixed {
		m.Partition = partitionOf(m.MinTime)
	}
	if segmentPath(*m) != path {
		return nil, &CorruptionError{Path: name, Reason: fmt.Sprintf("its place is %s", segmentPath(*m))}
	}
	return m, nil
}
