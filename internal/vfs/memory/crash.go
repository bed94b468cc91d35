package memory

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// CrashClone returns the file system that is found after a power cut at this moment: the durable state and a random
// share of the rest. The original goes on as if nothing had happened. Every seed of random gives one possible outcome.
func (f *FS) CrashClone(random *rand.Rand) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries := maps.Clone(f.durable)
	kept := map[string]int{}
	for _, c := range f.journal {
		kept[filepath.Dir(c.name)]++
	}
	for _, dir := range sortedKeys(kept) {
		kept[dir] = random.IntN(kept[dir] + 1)
	}
	for _, c := range f.journal {
		if dir := filepath.Dir(c.name); kept[dir] > 0 {
			kept[dir]--
			c.apply(entries)
		}
	}
	clone := New()
	clone.capacity = f.capacity
	keepShare := random.Float64()
	for _, name := range sortedKeys(entries) {
		n := entries[name]
		data := n.afterCrash(random, keepShare)
		clone.live[name] = newFile(data)
		clone.live[name].dir = n.dir
	}
	clone.dropOrphans()
	clone.durable = maps.Clone(clone.live)
	return clone
}

// afterCrash mixes the durable content with sectors of the live one.
func (n *node) afterCrash(random *rand.Rand, keepShare float64) []byte {
	length := len(n.durable)
	if random.Float64() < keepShare {
		length = len(n.data)
	}
	return n.mix(length, func(int) bool { return random.Float64() < keepShare })
}

// dropOrphans removes what lies in directories that didn't survive.
func (f *FS) dropOrphans() {
	for _, name := range sortedKeys(f.live) {
		parent := filepath.Dir(name)
		if !isRoot(parent) && f.live[parent] == nil {
			delete(f.live, name) // parents sort before their children
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
