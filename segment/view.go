package segment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// measurementKey names the measurement that segments belong to.
type measurementKey struct{ database, measurement string }

func keyOf(m *Meta) measurementKey { return measurementKey{m.Database, m.Measurement} }

// version is one state of the live set with what the manifest records beside it. It never changes; an edit makes the
// next one, which shares the lists of all measurements that the edit does not touch.
type version struct {
	number      uint64
	refs        atomic.Int64 // views
	lists       map[measurementKey]*segmentList
	levels      [2]LevelStats
	shards      int
	floors      []uint64
	databases   []string
	drops       []Drop
	retention   []Retention
	maxSequence uint64
	unwritten   []ShardHolds
	horizon     uint64
	log         uint64
}

// LevelStats counts the live segments of one level.
type LevelStats struct {
	Segments        int
	SizeBytes, Rows int64
}

func (l *LevelStats) add(m *Meta, sign int) {
	l.Segments += sign
	l.SizeBytes += int64(sign) * m.SizeBytes
	l.Rows += int64(sign) * m.Rows
}

// segmentList holds the live segments of one measurement, newest first: level 0 by rank, then level 1 by rank.
type segmentList struct {
	segments []*Segment
	l0       int // how many of them are of level 0
}

func (l *segmentList) level0() []*Segment { return l.segments[:l.l0] }
func (l *segmentList) level1() []*Segment { return l.segments[l.l0:] }

// change is what an edit does to the list of one measurement.
type change struct {
	gone  map[uint64]struct{}
	added []*Segment
}

// next is the version after an edit: gone segments leave, added ones come, and c is the catalog after the edit.
func (v *version) next(c *catalog, gone []*Meta, added []*Segment) *version {
	n := newVersion(v.number+1, c)
	n.lists = maps.Clone(v.lists)
	n.levels = v.levels
	for _, m := range gone {
		n.levels[m.Level].add(m, -1)
	}
	for _, sg := range added {
		n.levels[sg.meta.Level].add(sg.meta, 1)
	}
	for key, ch := range groupChanges(gone, added) {
		list := v.lists[key].with(ch)
		if len(list.segments) == 0 {
			delete(n.lists, key)
			continue
		}
		n.lists[key] = list
	}
	return n
}

// checkRanks refuses an edit after which a segment of level 1 would be no older than one that stays in level 0: readers
// would take the older of two writes.
func (v *version) checkRanks(c *catalog, e Edit) error {
	incoming := make(map[measurementKey]uint64) // highest rank that comes to level 1
	leaving := make(map[uint64]struct{}, len(e.Remove)+len(e.Promote))
	for _, id := range e.Remove {
		leaving[id] = struct{}{}
	}
	for _, id := range e.Promote {
		leaving[id] = struct{}{}
		m := c.segments[id]
		incoming[keyOf(m)] = max(incoming[keyOf(m)], m.Rank)
	}
	for i := range e.Add {
		if m := &e.Add[i]; m.Level == 1 {
			incoming[keyOf(m)] = max(incoming[keyOf(m)], m.Rank)
		}
	}
	for key, rank := range incoming {
		if err := v.lists[key].checkRank(rank, leaving); err != nil {
			return err
		}
	}
	return nil
}

// checkRank requires that every segment that stays in level 0 has a higher rank. A nil list has none.
func (l *segmentList) checkRank(rank uint64, leaving map[uint64]struct{}) error {
	if l == nil {
		return nil
	}
	for _, sg := range l.level0() {
		if _, leaves := leaving[sg.meta.ID]; !leaves && sg.meta.Rank <= rank {
			return fmt.Errorf("a segment of rank %d would come to level 1 while segment %d of rank %d stays in level 0",
				rank, sg.meta.ID, sg.meta.Rank)
		}
	}
	return nil
}

func newVersion(number uint64, c *catalog) *version {
	return &version{
		number: number, lists: make(map[measurementKey]*segmentList),
		shards: c.shards, floors: slices.Clone(c.floors), databases: slices.Sorted(maps.Keys(c.databases)),
		drops: c.drops.list(), retention: c.retentions(), maxSequence: c.maxSequence,
		unwritten: c.holdList(), horizon: c.horizon(), log: c.log,
	}
}

func groupChanges(gone []*Meta, added []*Segment) map[measurementKey]*change {
	changes := make(map[measurementKey]*change)
	of := func(m *Meta) *change {
		ch := changes[keyOf(m)]
		if ch == nil {
			ch = &change{gone: make(map[uint64]struct{})}
			changes[keyOf(m)] = ch
		}
		return ch
	}
	for _, m := range gone {
		of(m).gone[m.ID] = struct{}{}
	}
	for _, sg := range added {
		ch := of(sg.meta)
		ch.added = append(ch.added, sg)
	}
	return changes
}

// with returns the list after a change. A nil list is an empty one.
func (l *segmentList) with(ch *change) *segmentList {
	var old []*Segment
	if l != nil {
		old = l.segments
	}
	n := &segmentList{segments: make([]*Segment, 0, len(old)+len(ch.added))}
	for _, sg := range old {
		if _, gone := ch.gone[sg.meta.ID]; !gone {
			n.segments = append(n.segments, sg)
		}
	}
	for _, sg := range ch.added {
		sg.shareColumns(old)
		n.segments = append(n.segments, sg)
	}
	slices.SortFunc(n.segments, newestFirst)
	for _, sg := range n.segments {
		if sg.meta.Level == 0 {
			n.l0++
		}
	}
	return n
}

// shareColumns lets a new segment use the columns of an older one where they are equal, as they nearly always are.
func (sg *Segment) shareColumns(older []*Segment) {
	if len(older) > 0 && slices.Equal(sg.meta.Columns, older[0].meta.Columns) {
		sg.meta.Columns = older[0].meta.Columns
	}
}

// newestFirst is the order in which readers let segments answer for a point.
func newestFirst(a, b *Segment) int {
	return cmp.Or(
		cmp.Compare(a.meta.Level, b.meta.Level),
		cmp.Compare(b.meta.Rank, a.meta.Rank),
		cmp.Compare(b.meta.ID, a.meta.ID),
	)
}

// View is one immutable state of the live set. While it is held, none of its files is unlinked.
type View struct {
	store    *Store
	version  *version
	released atomic.Bool
}

// Segments returns the segments of a measurement, newest first: level 0 by rank descending, then level 1 by rank
// descending. Segments of equal rank have no point in common. The slice is shared and must not be changed.
func (v *View) Segments(database, measurement string) []*Segment {
	list := v.version.lists[measurementKey{database, measurement}]
	if list == nil {
		return nil
	}
	return list.segments
}

// Each calls fn for every segment, in no particular order.
func (v *View) Each(fn func(*Segment)) {
	for _, list := range v.version.lists {
		for _, sg := range list.segments {
			fn(sg)
		}
	}
}

// Measurements returns the measurements of a database that have segments, ascending.
func (v *View) Measurements(database string) []string {
	var names []string
	for key := range v.version.lists {
		if key.database == database {
			names = append(names, key.measurement)
		}
	}
	slices.Sort(names)
	return names
}

// Release lets go of the view. Files that it alone still held are unlinked by this call. Calling it again does nothing.
func (v *View) Release() {
	if v.released.Swap(true) {
		return
	}
	if v.version.refs.Add(-1) == 0 && v.store.current.Load() != v.version {
		v.store.unlinkRetired()
	}
}
