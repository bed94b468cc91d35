//go:build !race

package shard

// raceEnabled is true under the race detector, where tests of one goroutine that take long are left out.
const raceEnabled = false
