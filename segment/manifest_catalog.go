package segment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// catalog is the state that the edits of a manifest add up to. It is a value of its edits alone: opening a store
// replays them into one, and Apply adds to the same one what it has made durable.
type catalog struct {
	shards      int
	floors      []uint64
	databases   map[string]struct{}
	retention   map[string]time.Duration
	drops       dropSet        // those that a row may still be below
	holds       map[int][]Hold // by shard
	nextID      uint64
	nextRank    uint64
	maxSequence uint64
	log         uint64           // ID of the write-ahead log; 0: not known
	segments    map[uint64]*Meta // live ones by id
}

func newCatalog() *catalog {
	return &catalog{
		databases: make(map[string]struct{}),
		retention: make(map[string]time.Duration),
		drops:     make(dropSet),
		holds:     make(map[int][]Hold),
		nextID:    1,
		nextRank:  1,
		segments:  make(map[uint64]*Meta),
	}
}

// check tells whether an edit can be applied; it changes nothing.
func (c *catalog) check(e Edit) error {
	if err := errors.Join(c.checkShards(e), e.checkDrops(), c.checkHolds(e)); err != nil {
		return err
	}
	gone := make(map[uint64]struct{}, len(e.Remove)+len(e.Promote))
	for _, ids := range [][]uint64{e.Remove, e.Promote} {
		for _, id := range ids {
			if _, again := gone[id]; again || c.segments[id] == nil {
				return fmt.Errorf("segment %d: %w", id, ErrNotLive)
			}
			gone[id] = struct{}{}
		}
	}
	for _, id := range e.Promote {
		if c.segments[id].Level != 0 {
			return fmt.Errorf("segment %d is not of level 0 and can't be promoted: %w", id, ErrNotLive)
		}
	}
	return c.checkAdded(e.Add)
}

func (c *catalog) checkShards(e Edit) error {
	shards := c.shards
	if e.Shards != 0 {
		shards = e.Shards
	}
	switch {
	case e.Shards < 0:
		return fmt.Errorf("an edit sets %d shards", e.Shards)
	case e.Floors == nil && shards != c.shards && c.shards != 0:
		return fmt.Errorf("an edit changes %d shards to %d and gives no floors", c.shards, shards)
	case e.Floors != nil && len(e.Floors) != shards:
		return fmt.Errorf("an edit has %d floors for %d shards", len(e.Floors), shards)
	}
	return nil
}

func (c *catalog) checkAdded(added []Meta) error {
	ids := make(map[uint64]struct{}, len(added))
	for _, m := range added {
		_, again := ids[m.ID]
		switch {
		case m.ID == 0:
			return errors.New("an edit adds a segment without an id")
		case again || c.segments[m.ID] != nil:
			return fmt.Errorf("an edit adds segment %d a second time", m.ID)
		case m.Level != 0 && m.Level != 1:
			return fmt.Errorf("an edit adds segment %d at level %d", m.ID, m.Level)
		case m.Level == 0 && (m.Mixed || m.Promoted), m.Level == 1 && m.Rank == 0:
			return fmt.Errorf("an edit adds segment %d with contradictory properties", m.ID)
		case m.SizeBytes <= 0 || m.Rows <= 0 || m.MinTime > m.MaxTime:
			return fmt.Errorf("an edit adds segment %d with %d bytes, %d rows and times %d to %d",
				m.ID, m.SizeBytes, m.Rows, m.MinTime, m.MaxTime)
		case m.Measurement == "":
			return fmt.Errorf("an edit adds segment %d without a measurement", m.ID)
		}
		if err := c.checkDropped(&m); err != nil {
			return err
		}
		ids[m.ID] = struct{}{}
	}
	return nil
}

// assignRanks gives the added segments of level 0 their ranks, in the order in which the edit names them.
func (c *catalog) assignRanks(added []Meta) {
	next := c.nextRank
	for i := range added {
		if added[i].Level == 0 {
			added[i].Rank = next
			next++
		}
	}
}

// apply performs an edit that passed check.
func (c *catalog) apply(e Edit) {
	for _, id := range e.Remove {
		delete(c.segments, id)
	}
	for _, id := range e.Promote {
		c.segments[id] = promoted(c.segments[id])
	}
	c.applyDrops(e.Drops)
	for _, m := range e.Add {
		c.add(&m)
	}
	for _, name := range e.Databases {
		c.databases[name] = struct{}{}
	}
	for _, r := range e.Retention {
		c.retention[r.Database] = r.Duration
	}
	if e.Log != 0 {
		c.log = e.Log
	}
	c.applyFloors(e)
	c.applyHolds(e)
	c.forgetDrops()
}

func (c *catalog) add(m *Meta) {
	c.segments[m.ID] = m
	c.databases[m.Database] = struct{}{}
	c.nextID = max(c.nextID, m.ID+1)
	c.nextRank = max(c.nextRank, m.Rank+1)
	c.maxSequence = max(c.maxSequence, m.MaxSequence)
}

// applyFloors lets floors rise only: two flushes may derive their vectors in one order and register in the other, and
// what once was in a segment stays there.
func (c *catalog) applyFloors(e Edit) {
	if e.Shards != 0 && e.Shards != c.shards {
		c.shards = e.Shards
		c.floors = make([]uint64, e.Shards)
		clear(c.holds)
	}
	for i, floor := range e.Floors {
		c.floors[i] = max(c.floors[i], floor)
		c.maxSequence = max(c.maxSequence, floor)
	}
}

// promoted is the segment at level 1. It keeps its rank, which is above every rank of level 1 of its measurement as
// long as segments leave level 0 in the order of their ranks.
func promoted(m *Meta) *Meta {
	p := *m
	p.Level, p.Promoted = 1, true
	p.Partition = partitionOf(m.MinTime)
	p.Mixed = partitionOf(m.MaxTime) != p.Partition
	return &p
}

// metas are the live segments in ascending order of their ids.
func (c *catalog) metas() []*Meta {
	metas := make([]*Meta, 0, len(c.segments))
	for _, id := range slices.Sorted(maps.Keys(c.segments)) {
		metas = append(metas, c.segments[id])
	}
	return metas
}
