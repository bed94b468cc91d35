package segment

import "math"

// KeepsAll is the cutoff of a database whose points never expire.
const KeepsAll = math.MinInt64

// Expired returns the ids of the segments of level 1 whose points are all older than the cutoff of their database, in
// nanoseconds. One stays as long as an older segment stays that may hold an older write of one of its points: removing
// the newer write alone would bring the older one back.
func (v *View) Expired(cutoff func(database string) int64) []uint64 {
	var ids []uint64
	for key, list := range v.version.lists {
		if before := cutoff(key.database); before != KeepsAll {
			ids = appendExpired(ids, list.level1(), before)
		}
	}
	return ids
}

// appendExpired goes through the segments of one measurement, which come newest first, from the oldest on.
func appendExpired(ids []uint64, level1 []*Segment, cutoff int64) []uint64 {
	var kept []*Meta // those that reach back beyond the cutoff
	for i := len(level1) - 1; i >= 0; i-- {
		m := level1[i].meta
		switch {
		case m.MaxTime < cutoff && !outlived(m, kept):
			ids = append(ids, m.ID)
		case m.MinTime < cutoff:
			kept = append(kept, m)
		}
	}
	return ids
}

// outlived tells whether one of the older segments may hold a point of m. Those of equal rank share none with it.
func outlived(m *Meta, older []*Meta) bool {
	for _, o := range older {
		if o.Rank < m.Rank && o.MinTime <= m.MaxTime && m.MinTime <= o.MaxTime {
			return true
		}
	}
	return false
}

// NewestTimes returns the time of the newest point that the segments of each database hold.
func (v *View) NewestTimes() map[string]int64 {
	newest := make(map[string]int64)
	for key, list := range v.version.lists {
		for _, sg := range list.segments {
			if known, ok := newest[key.database]; !ok || known < sg.meta.MaxTime {
				newest[key.database] = sg.meta.MaxTime
			}
		}
	}
	return newest
}
