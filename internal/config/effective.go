package config

import "runtime"

// Machine is what the defaults depend on.
type Machine struct {
	CPUs        int
	MemoryBytes int64 // what this process may use: the smaller of the machine's and the control groups'; 0 = unknown
	OpenFiles   int64 // how many files this process may have open; 0 = unknown
}

const (
	assumedMemoryBytes = 4 << 30 // where the memory is unknown: the smallest machine the defaults are made for
	capacityMaxBytes   = 512 << 20
	memtableMaxBytes   = 64 << 20
	shardsMax          = 256 // the upper bound of the key shards
	connectionsMax     = 4096
)

// ThisMachine describes where the process runs. CPUs is what the scheduler uses, so CPU limits of a container count.
func ThisMachine() Machine {
	return Machine{CPUs: runtime.GOMAXPROCS(0), MemoryBytes: memoryBytes(), OpenFiles: openFiles()}
}

// Effective returns a copy in which every zero that stands for a choice is resolved.
func (c Config) Effective(machine Machine) Config {
	if c.HTTP.MaxConnections == 0 {
		c.HTTP.MaxConnections = connectionsMax
		if files := machine.OpenFiles; files > 0 {
			c.HTTP.MaxConnections = int(max(1, min(connectionsMax, files/2)))
		}
	}
	if c.Shards == 0 {
		c.Shards = min(machine.CPUs, shardsMax)
	}
	if c.PageCache.CapacityBytes == 0 {
		c.PageCache.CapacityBytes = defaultCapacity(machine)
	}
	if c.Memtable.MaxBytes == 0 {
		c.Memtable.MaxBytes = min(memtableMaxBytes, c.PageCache.CapacityBytes/int64(4*c.Shards))
	}
	if c.HTTP.ReadBytes == 0 {
		c.HTTP.ReadBytes = defaultReads(&c, machine)
	}
	return c
}

// defaultReads is half of what the other bounds leave of the memory, in whole MiB. A tier that is full of small
// segments is much to read: one of 200 rows and 15 columns counts 0.44 MiB.
func defaultReads(c *Config, machine Machine) int64 {
	const mebibyte = 1 << 20
	return max(1, (machine.memory()-boundedBytes(c))/2/mebibyte) * mebibyte
}

// memory is what may be used, or is assumed.
func (m Machine) memory() int64 {
	if m.MemoryBytes == 0 {
		return assumedMemoryBytes
	}
	return m.MemoryBytes
}

// defaultCapacity is rounded down to whole MiB, so that it reads well in status and logs.
func defaultCapacity(machine Machine) int64 {
	const mebibyte = 1 << 20
	return min(capacityMaxBytes, machine.memory()/8/mebibyte*mebibyte)
}
