package segment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Drop says that the rows of a measurement, or of a whole database, that were written before a sequence of the log are
// gone. The edit that records it removes the segments of such rows, and no later edit brings one.
type Drop struct {
	Database    string `json:"database"`
	Measurement string `json:"measurement,omitempty"` // "": all of the database, and with it the database itself
	Sequence    uint64 `json:"sequence"`              // rows of lower sequences are gone
}

// Retention is how long the points of a database are kept.
type Retention struct {
	Database string        `json:"database"`
	Duration time.Duration `json:"nanoseconds"` // 0: for ever
}

// dropSet holds, for each measurement, and for each database under the empty measurement, the sequence of its last
// drop.
type dropSet map[measurementKey]uint64

// of returns the sequence before which the rows of a measurement are gone; 0 when they never were dropped.
func (s dropSet) of(key measurementKey) uint64 {
	if len(s) == 0 {
		return 0
	}
	return max(s[key], s[measurementKey{database: key.database}])
}

func (s dropSet) list() []Drop {
	drops := make([]Drop, 0, len(s))
	for key, sequence := range s {
		drops = append(drops, Drop{Database: key.database, Measurement: key.measurement, Sequence: sequence})
	}
	slices.SortFunc(drops, func(a, b Drop) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Database, b.Database),
			cmp.Compare(a.Measurement, b.Measurement))
	})
	return drops
}

func (e Edit) checkDrops() error {
	for _, d := range e.Drops {
		if d.Database == "" || d.Sequence == 0 {
			return fmt.Errorf("an edit drops measurement %q of database %q before sequence %d",
				d.Measurement, d.Database, d.Sequence)
		}
	}
	for _, r := range e.Retention {
		if r.Database == "" || r.Duration < 0 {
			return fmt.Errorf("an edit keeps the points of database %q for %s", r.Database, r.Duration)
		}
	}
	return nil
}

// checkDropped refuses a segment of rows that were dropped after they had been written. Its flush or merge began
// before the drop.
func (c *catalog) checkDropped(m *Meta) error {
	if dropped := c.drops.of(keyOf(m)); m.MaxSequence < dropped {
		return fmt.Errorf("segment %d holds rows up to sequence %d of measurement %q of database %q: %w at sequence %d",
			m.ID, m.MaxSequence, m.Measurement, m.Database, ErrDropped, dropped)
	}
	return nil
}

func (c *catalog) applyDrops(drops []Drop) {
	for _, d := range drops {
		key := measurementKey{d.Database, d.Measurement}
		c.drops[key] = max(c.drops[key], d.Sequence)
		c.maxSequence = max(c.maxSequence, d.Sequence)
		c.releaseDropped(d)
		if d.Measurement == "" {
			delete(c.databases, d.Database)
			delete(c.retention, d.Database)
		}
	}
}

// forgetDrops lets go of drops that no row can be below any more: the horizon has reached them, so no replay and
// no flush brings one.
func (c *catalog) forgetDrops() {
	if len(c.drops) == 0 || len(c.floors) == 0 {
		return
	}
	floor := c.horizon()
	for key, sequence := range c.drops {
		if sequence <= floor {
			delete(c.drops, key)
		}
	}
}

// droppedBy returns ids and those of the segments that hold dropped rows, ascending. A segment's rows lie on one side
// of a drop: the engine never puts rows from both sides of it in one file.
func (v *version) droppedBy(drops []Drop, ids []uint64) []uint64 {
	ids = slices.Clone(ids)
	for key, list := range v.lists {
		for _, d := range drops {
			if d.Database != key.database || d.Measurement != "" && d.Measurement != key.measurement {
				continue
			}
			for _, sg := range list.segments {
				if sg.meta.MaxSequence < d.Sequence {
					ids = append(ids, sg.meta.ID)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// retentions lists the recorded retention of databases, by name.
func (c *catalog) retentions() []Retention {
	list := make([]Retention, 0, len(c.retention))
	for _, name := range slices.Sorted(maps.Keys(c.retention)) {
		list = append(list, Retention{Database: name, Duration: c.retention[name]})
	}
	return list
}

// Drops returns the recorded drops that rows may still be below, by sequence.
func (s *Store) Drops() []Drop { return slices.Clone(s.current.Load().drops) }

// Retention returns the recorded retention of each database that has one, by name.
func (s *Store) Retention() []Retention { return slices.Clone(s.current.Load().retention) }
