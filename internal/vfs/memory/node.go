package memory

import (
	"bytes"
	"maps"
	"slices"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// node is a file or a directory.
type node struct {
	dir     bool
	data    []byte
	durable []byte           // as of the last Sync
	dirty   map[int]struct{} // numbers of the sectors of data that Sync has to make durable
}

// newFile returns a file whose content is durable.
func newFile(data []byte) *node {
	return &node{data: data, durable: bytes.Clone(data), dirty: map[int]struct{}{}}
}

// touch marks the sectors of a range as dirty.
func (n *node) touch(offset, lengthBytes int64) {
	for sector := int(offset / sectorBytes); int64(sector)*sectorBytes < offset+lengthBytes; sector++ {
		n.dirty[sector] = struct{}{}
	}
}

// mix returns the durable content at a length, with those dirty sectors that keep wants.
func (n *node) mix(length int, keep func(sector int) bool) []byte {
	mixed := make([]byte, length)
	copy(mixed, n.durable)
	for _, sector := range slices.Sorted(maps.Keys(n.dirty)) {
		start := sector * sectorBytes
		if start >= min(length, len(n.data)) || !keep(sector) {
			continue
		}
		end := min(start+sectorBytes, length, len(n.data))
		copy(mixed[start:end], n.data[start:end])
	}
	return mixed
}
