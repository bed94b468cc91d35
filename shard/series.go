package shard

import (
	"bytes"

	"lineweir/segment"
)

// seriesIndex numbers the series of a table in order of arrival.
type seriesIndex struct {
	byHash map[uint64]uint32
	others map[string]uint32 // series whose hash another one took first
	keys   chunked[[]byte]   // by number; they alias blocks
	tags   []uint16          // by number: how many tags the key holds
	rows   []uint8           // by number: rows, up to segment.IndexedRows
	block  []byte            // where the next keys are copied to
}

const seriesBlockBytesMax = 64 << 10

// find returns the number of a series and whether it is known.
func (x *seriesIndex) find(hash uint64, key []byte) (uint32, bool) {
	id, ok := x.byHash[hash]
	if !ok {
		return 0, false
	}
	if bytes.Equal(x.keys.at(id), key) {
		return id, true
	}
	id, ok = x.others[string(key)]
	return id, ok
}

// add numbers a series that find does not know, keeping a copy of its key.
func (x *seriesIndex) add(hash uint64, key []byte, tags int) uint32 {
	id := uint32(x.keys.length)
	if x.byHash == nil {
		x.byHash = map[uint64]uint32{}
	}
	if _, taken := x.byHash[hash]; taken {
		if x.others == nil {
			x.others = map[string]uint32{}
		}
		x.others[string(key)] = id
	} else {
		x.byHash[hash] = id
	}
	x.keys.append(x.copyKey(key))
	x.tags = append(x.tags, uint16(tags))
	x.rows = append(x.rows, 0)
	return id
}

// countRow counts a row of the series and returns how many tags it has, and for how many of them it may need an index
// in a segment.
func (x *seriesIndex) countRow(id uint32) (tags, indexed int64) {
	tags = int64(x.tags[id])
	if x.rows[id] >= segment.IndexedRows {
		return tags, 0
	}
	x.rows[id]++
	return tags, tags
}

// copyKey copies the key into a block that many keys share; blocks double, so that a small table stays small.
func (x *seriesIndex) copyKey(key []byte) []byte {
	if len(key) > cap(x.block)-len(x.block) {
		x.block = make([]byte, 0, max(len(key), min(2*cap(x.block), seriesBlockBytesMax)))
	}
	start := len(x.block)
	x.block = append(x.block, key...)
	return x.block[start:len(x.block):len(x.block)]
}
