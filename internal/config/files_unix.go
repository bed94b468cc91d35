//go:build linux || darwin

package config

import (
	"math"
	"syscall"
)

// openFiles is the limit as Go's start has raised it: to the hard one.
func openFiles() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int64(min(limit.Cur, math.MaxInt64))
}
