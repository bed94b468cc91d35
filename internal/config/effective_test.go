package config

import "testing"

func TestEffective(t *testing.T) {
	const mebibyte = 1 << 20
	for _, test := range []struct {
		name                            string
		machine                         Machine
		settings                        []string
		shards, frozen                  int
		capacityMebibytes, memtableKibi int64
	}{
		{"small", Machine{CPUs: 2, MemoryBytes: 4 << 30}, nil, 2, 2, 512, 64 << 10},
		{"large", Machine{CPUs: 16, MemoryBytes: 64 << 30}, nil, 16, 2, 512, 8 << 10},
		{"more CPUs than shards can be", Machine{CPUs: 512, MemoryBytes: 64 << 30}, nil, 256, 2, 512, 512},
		{"little memory", Machine{CPUs: 2, MemoryBytes: 1001 * mebibyte}, nil, 2, 2, 125, 125 << 10 / 8},
		{"unknown memory", Machine{CPUs: 4}, nil, 4, 2, 512, 32 << 10},
		{"settings win", Machine{CPUs: 2, MemoryBytes: 4 << 30},
			[]string{"shards=1", "memtable.frozen_max=3", "page_cache.capacity=4MiB", "memtable.max_bytes=512KiB"},
			1, 3, 4, 512},
		{"derived from settings", Machine{CPUs: 2, MemoryBytes: 4 << 30},
			[]string{"shards=4", "page_cache.capacity=64MiB"}, 4, 2, 64, 4 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			loaded, err := Load(Source{Settings: test.settings}, test.machine)
			if err != nil {
				t.Fatal(err)
			}
			got := loaded.Config
			if got.Shards != test.shards || got.Memtable.FrozenMax != test.frozen ||
				got.PageCache.CapacityBytes != test.capacityMebibytes*mebibyte ||
				got.Memtable.MaxBytes != test.memtableKibi*1024 {
				t.Errorf("got %d shards, %d frozen, capacity %s, memtable %s", got.Shards, got.Memtable.FrozenMax,
					FormatBytes(got.PageCache.CapacityBytes), FormatBytes(got.Memtable.MaxBytes))
			}
			if again := got.Effective(test.machine); again != got {
				t.Errorf("resolving twice changes %+v to %+v", got, again)
			}
		})
	}
}

func TestConnectionsLeaveFiles(t *testing.T) {
	for files, want := range map[int64]int{0: 4096, 1: 1, 1024: 512, 8191: 4095, 8192: 4096, 1 << 40: 4096} {
		got := Default().Effective(Machine{CPUs: 2, MemoryBytes: 4 << 30, OpenFiles: files})
		if got.HTTP.MaxConnections != want {
			t.Errorf("%d files: got %d connections, want %d", files, got.HTTP.MaxConnections, want)
		}
		if wrong := checkConnectionsLeaveFiles(&got, Machine{OpenFiles: files}); wrong != "" {
			t.Errorf("%d files: %s", files, wrong)
		}
	}
}

func TestReadsHaveWhatIsLeft(t *testing.T) {
	for memory, want := range map[int64]int64{0: 1432, 416: 1, 448: 7, 512: 32, 1024: 232, 4096: 1432, 65536: 32152} {
		got := Default().Effective(Machine{CPUs: 2, MemoryBytes: memory << 20}).HTTP.ReadBytes
		if got != want<<20 {
			t.Errorf("%d MiB: reads have %s, want %d MiB", memory, FormatBytes(got), want)
		}
	}
}

// The defaults start on every machine with 448 MiB or more. One with less has to be told what to do without.
func TestTheDefaultsFitSmallMachines(t *testing.T) {
	for _, cpus := range []int{1, 2, 4, 64} {
		for memory, starts := range map[int64]bool{416 << 20: false, 448 << 20: true, 1 << 30: true, 4 << 30: true} {
			t.Chdir(t.TempDir())
			_, err := Load(Source{}, Machine{CPUs: cpus, MemoryBytes: memory})
			if (err == nil) != starts {
				t.Errorf("%d CPUs and %s: got %v, want that it starts: %t", cpus, FormatBytes(memory), err, starts)
			}
		}
	}
}
