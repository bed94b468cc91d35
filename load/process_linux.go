package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit in which Linux tells programs the CPU time, whatever the kernel's own is.
const tick = 10 * time.Millisecond

// usageOf reads /proc.
func usageOf(pid int) (processUsage, error) {
	var u processUsage
	directory := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(directory + "/stat")
	if err != nil {
		return u, fmt.Errorf("measure process %d: %w", pid, err)
	}
	// The name of the program, which may have blanks, is in parentheses; the fields behind it begin with the third.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return u, fmt.Errorf("measure process %d: its stat has %d fields", pid, len(fields))
	}
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, fmt.Errorf("measure process %d: %w", pid, err)
		}
		u.cpu += time.Duration(ticks) * tick
	}
	status, err := os.ReadFile(directory + "/status")
	if err != nil {
		return u, fmt.Errorf("measure process %d: %w", pid, err)
	}
	u.memoryBytes = figure(string(status), "VmRSS:") << 10
	u.peakMemoryBytes = figure(string(status), "VmHWM:") << 10
	// Only the owner of a process may read this one.
	if counts, err := os.ReadFile(directory + "/io"); err == nil {
		u.writtenBytes = figure(string(counts), "write_bytes:")
	}
	return u, nil
}

// figure finds the number of a line, or 0.
func figure(text, name string) int64 {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name); found {
			if fields := strings.Fields(rest); len(fields) > 0 {
				number, _ := strconv.ParseInt(fields[0], 10, 64) // the kernel's numbers are numbers
				return number
			}
		}
	}
	return 0
}
