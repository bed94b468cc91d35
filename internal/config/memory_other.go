//go:build !linux && !darwin

package config

// memoryBytes returns 0: here the memory is unknown, and a small machine is assumed.
func memoryBytes() int64 {
	return 0
}
