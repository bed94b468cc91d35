//go:build race

package segment

// raceEnabled is true under the race detector, where tests of one goroutine that take long are left out.
const raceEnabled = true
