package config

import (
	"testing"
	"testing/fstest"
)

func TestReadMemory(t *testing.T) {
	const meminfo = "MemTotal:        4096 kB\nMemFree:         1024 kB\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing can be read", nil, 0},
		{"no control groups", map[string]string{"proc/meminfo": meminfo}, 4 << 20},
		{"unlimited", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 4 << 20},
		{"limited by its group", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1048576\n",
		}, 1 << 20},
		{"limited by a group above", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "2097152\n", "sys/fs/cgroup/a/memory.max": "1048576\n",
		}, 1 << 20},
		{"a container sees its group as the root", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/outside/a\n", "sys/fs/cgroup/memory.max": "1048576\n",
		}, 1 << 20},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/a\n3:cpu:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1048576\n",
		}, 1 << 20},
		{"version 1 writes unlimited as a huge number", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 4 << 20},
		{"damaged", map[string]string{"proc/meminfo": "MemTotal: many kB\n", "proc/self/cgroup": "0\n"}, 0},
	} {
		root := make(fstest.MapFS)
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := readMemory(root); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}

func TestThisMachine(t *testing.T) {
	machine := ThisMachine()
	if machine.CPUs < 1 || machine.MemoryBytes < 1<<20 {
		t.Errorf("got %+v", machine)
	}
}
