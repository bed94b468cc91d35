//go:build race

package pagecache

// raceDetector makes sync.Pool drop things at random, which breaks counts of allocations.
const raceDetector = true
