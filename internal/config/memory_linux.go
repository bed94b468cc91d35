package config

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// memoryBytes returns the memory that this process may use, or 0 where that can't be found out.
func memoryBytes() int64 {
	return readMemory(os.DirFS("/"))
}

// readMemory takes the smallest of the machine's memory and the limits of the process's control group and of all
// groups above it.
func readMemory(root fs.FS) int64 {
	memory := totalMemory(root)
	for _, directory := range memoryGroups(root) {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
			limit := readLimit(root, path.Join(directory, name))
			if limit > 0 && (memory == 0 || limit < memory) {
				memory = limit
			}
		}
	}
	return memory
}

// totalMemory reads the line "MemTotal:  24684092 kB", in which kB means 1024 bytes.
func totalMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		kibibytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0
		}
		return kibibytes * 1024
	}
	return 0
}

// memoryGroups returns the directories that may limit this process: its group's and those above, of version 1 (the
// memory controller's own tree) and of version 2 (one tree). Inside a container the group's path may not exist below
// the mount; then its root is the container's group, and it is in the list as well.
func memoryGroups(root fs.FS) []string {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var directories []string
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		fields := strings.SplitN(scanner.Text(), ":", 3) // number:controllers:path
		if len(fields) < 3 {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			directories = append(directories, upwards("sys/fs/cgroup", fields[2])...)
		case fields[1] == "memory":
			directories = append(directories, upwards("sys/fs/cgroup/memory", fields[2])...)
		}
	}
	return directories
}

// upwards lists mount/group, its parents, and mount itself.
func upwards(mount, group string) []string {
	var directories []string
	for group = path.Clean("/" + group); group != "/"; group = path.Dir(group) {
		directories = append(directories, mount+group)
	}
	return append(directories, mount)
}

// readLimit returns the limit a file holds. "max", and a file that isn't there, limit nothing: 0.
func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return limit
}
