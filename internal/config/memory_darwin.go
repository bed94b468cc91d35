package config

import "golang.org/x/sys/unix"

// memoryBytes returns the memory of the machine, or 0 where that can't be found out.
func memoryBytes() int64 {
	memory, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(memory)
}
