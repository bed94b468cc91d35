package segment

import (
	"cmp"
	"fmt"
	"slices"
)

// Hold says that rows of a measurement are not in segments although the floor of their shard has passed them: their
// file could not be written, and the other measurements of the memtable went on without it. A replay takes those rows,
// and no others, from the log again.
type Hold struct {
	Database    string `json:"database"`
	Measurement string `json:"measurement"`
	Floor       uint64 `json:"floor"` // rows of the measurement at or below this sequence are in segments
}

// ShardHolds are all holds of one shard, by database and measurement.
type ShardHolds struct {
	Shard int    `json:"shard"`
	Holds []Hold `json:"held"`
}

// Compare orders holds by database and measurement.
func (h Hold) Compare(other Hold) int {
	return cmp.Or(cmp.Compare(h.Database, other.Database), cmp.Compare(h.Measurement, other.Measurement))
}

// checkHolds tells whether the holds of an edit can be applied.
func (c *catalog) checkHolds(e Edit) error {
	shards := c.shards
	if e.Shards != 0 {
		shards = e.Shards
	}
	for _, s := range e.Holds {
		if s.Shard < 0 || s.Shard >= shards {
			return fmt.Errorf("an edit holds rows of shard %d of %d", s.Shard, shards)
		}
		if !slices.IsSortedFunc(s.Holds, Hold.Compare) {
			return fmt.Errorf("an edit has the holds of shard %d out of order", s.Shard)
		}
		for _, h := range s.Holds {
			if h.Database == "" || h.Measurement == "" {
				return fmt.Errorf("an edit holds measurement %q of database %q", h.Measurement, h.Database)
			}
		}
	}
	return nil
}

// applyHolds replaces the holds of the shards that an edit names.
func (c *catalog) applyHolds(e Edit) {
	for _, s := range e.Holds {
		if len(s.Holds) == 0 {
			delete(c.holds, s.Shard)
		} else {
			c.holds[s.Shard] = slices.Clone(s.Holds)
		}
	}
}

// releaseDropped lets go of the holds of rows that are gone. All rows that a hold tells of lie below the drop: nothing
// later is registered before the drop is.
func (c *catalog) releaseDropped(d Drop) {
	for shard, holds := range c.holds {
		left := slices.DeleteFunc(slices.Clone(holds), func(h Hold) bool {
			return h.Database == d.Database && (d.Measurement == "" || h.Measurement == d.Measurement)
		})
		c.applyHolds(Edit{Holds: []ShardHolds{{Shard: shard, Holds: left}}})
	}
}

// holdList is every shard with holds, ascending.
func (c *catalog) holdList() []ShardHolds {
	var list []ShardHolds
	for shard, holds := range c.holds {
		list = append(list, ShardHolds{Shard: shard, Holds: holds})
	}
	slices.SortFunc(list, func(a, b ShardHolds) int { return cmp.Compare(a.Shard, b.Shard) })
	return list
}

// horizon is the sequence up to which every point is in a segment or gone; 0 while there are no floors.
func (c *catalog) horizon() uint64 {
	if len(c.floors) == 0 {
		return 0
	}
	lowest := slices.Min(c.floors)
	for _, holds := range c.holds {
		for _, h := range holds {
			lowest = min(lowest, h.Floor)
		}
	}
	return lowest
}

// Holds returns the recorded holds of a shard, by database and measurement. The caller doesn't change them.
func (s *Store) Holds(shard int) []Hold {
	for _, h := range s.current.Load().unwritten {
		if h.Shard == shard {
			return h.Holds
		}
	}
	return nil
}

// Horizon is the sequence up to which every point is in a segment or gone: the lowest floor, or that of a hold. A
// replay begins behind it, and the log is not needed up to it. 0 while there are no floors.
func (s *Store) Horizon() uint64 { return s.current.Load().horizon }
