//go:build !race

package pagecache

const raceDetector = false
