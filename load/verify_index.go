package load

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// index finds the lines of a corpus that a point read back may stem from. Points are told apart by 64-bit hashes: that
// two of ten million collide has a chance of one to 370,000.
type index struct {
	entries      []indexEntry // by key
	measurements []string
}

// indexEntry is one line of the corpus.
type indexEntry struct {
	key    uint64 // of its series and its time in the round
	fields uint64
	line   uint32
}

// indexEntryBytes is what an entry takes in memory.
const indexEntryBytes = 24

// pointKey joins a series and a time in its round.
func pointKey(series uint64, offset int64) uint64 {
	return series ^ (uint64(offset)+1)*0x9E3779B97F4A7C15 // odd, so that no two times give the same factor
}

// newIndex reads all lines of a corpus.
func newIndex(c *corpus) (*index, error) {
	x := &index{entries: make([]indexEntry, 0, c.lines())}
	names := map[string]bool{}
	for i := range c.bodies {
		decoder := lineprotocol.NewDecoderWithBytes(c.bodies[i].text)
		for decoder.Next() {
			name, err := decoder.Measurement()
			if err != nil {
				return nil, fmt.Errorf("index the body %d: %w", i, err)
			}
			if !names[string(name)] {
				names[string(name)] = true
				x.measurements = append(x.measurements, string(name))
			}
			p, err := pointBehind(decoder, name)
			if err != nil {
				return nil, fmt.Errorf("index the body %d: %w", i, err)
			}
			line := uint32(len(x.entries))
			x.entries = append(x.entries, indexEntry{pointKey(p.series, p.at-c.start), p.fields, line})
		}
	}
	if int64(len(x.entries)) != c.lines() {
		return nil, fmt.Errorf("index the bodies: %d lines were read, want %d", len(x.entries), c.lines())
	}
	slices.SortFunc(x.entries, func(a, b indexEntry) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.line, b.line))
	})
	slices.Sort(x.measurements)
	return x, nil
}

// find returns the lines with a key: none, one, or several where a file has a point more than once.
func (x *index) find(key uint64) []indexEntry {
	first, found := slices.BinarySearchFunc(x.entries, key, func(e indexEntry, key uint64) int {
		return cmp.Compare(e.key, key)
	})
	if !found {
		return nil
	}
	end := first + 1
	for end < len(x.entries) && x.entries[end].key == key {
		end++
	}
	return x.entries[first:end]
}
