package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each rule is tested at its bound and just beyond it.
func TestRules(t *testing.T) {
	for _, test := range []struct {
		name    string
		holds   []string
		breaks  []string
		problem []string
	}{
		{
			name:   "memtables below the soft limit",
			holds:  []string{"page_cache.capacity=400MiB", "shards=3", "memtable.max_bytes=100MiB"},
			breaks: []string{"page_cache.capacity=400MiB", "shards=4", "memtable.max_bytes=100MiB"},
			problem: []string{"4 shards with memtable.max_bytes 100MiB together take 400MiB, more than the soft limit of the " +
				"page cache (page_cache.capacity 400MiB * page_cache.soft_fraction 0.75 = 300MiB)"},
		},
		{
			name:   "a memtable in an empty tier",
			holds:  []string{"page_cache.capacity=4MiB", "memtable.max_bytes=3MiB", "shards=1"},
			breaks: []string{"page_cache.capacity=4MiB", "memtable.max_bytes=5MiB", "shards=1"},
			problem: []string{
				"memtable.max_bytes 5MiB does not fit page_cache.capacity 4MiB: once full it could not be sealed",
				"1 shards with memtable.max_bytes 5MiB together take 5MiB, more than the soft limit of the page cache " +
					"(page_cache.capacity 4MiB * page_cache.soft_fraction 0.75 = 3MiB)",
			},
		},
		{
			name:   "a derived memtable in range",
			holds:  []string{"page_cache.capacity=1MiB", "shards=4"},
			breaks: []string{"page_cache.capacity=1MiB", "shards=8"},
			problem: []string{"page_cache.capacity 1MiB leaves memtable.max_bytes only 32KiB for each of 8 shards, and it must " +
				"be at least 64KiB: raise the capacity or lower shards"},
		},
		{
			name:    "pages no larger than the tier",
			holds:   []string{"page_cache.capacity=1MiB", "page_cache.page_bytes=1MiB"},
			breaks:  []string{"page_cache.capacity=1MiB", "page_cache.page_bytes=2MiB"},
			problem: []string{"page_cache.page_bytes 2MiB is more than page_cache.capacity 1MiB"},
		},
		{
			name:   "pages that can be numbered",
			holds:  []string{"page_cache.page_bytes=4KiB", "page_cache.capacity=64GiB"},
			breaks: []string{"page_cache.page_bytes=4KiB", "page_cache.capacity=65GiB"},
			problem: []string{
				"page_cache.capacity 65GiB needs page_cache.page_bytes of at least 4160B, not 4KiB",
			},
		},
		{
			name:    "three files in the log",
			holds:   []string{"wal.max_bytes=192MiB"},
			breaks:  []string{"wal.max_bytes=191MiB"},
			problem: []string{"wal.max_bytes 191MiB must be at least three times wal.file_bytes 64MiB"},
		},
		{
			name:    "a body in half of the log",
			holds:   []string{"wal.file_bytes=64KiB", "http.max_body_bytes=1MiB", "wal.max_bytes=2112KiB"},
			breaks:  []string{"wal.file_bytes=64KiB", "http.max_body_bytes=1MiB", "wal.max_bytes=2111KiB"},
			problem: []string{"wal.max_bytes 2111KiB must be at least twice http.max_body_bytes 1MiB and 64KiB"},
		},
		{
			name:    "a body in flight",
			holds:   []string{"http.in_flight_bytes=100MB"},
			breaks:  []string{"http.in_flight_bytes=99MB"},
			problem: []string{"http.in_flight_bytes 99MB must be at least 4 times http.max_body_bytes 25MB"},
		},
		{
			name:    "retry-after",
			holds:   []string{"admission.retry_after_min=5s", "admission.retry_after_max=5s"},
			breaks:  []string{"admission.retry_after_min=6s", "admission.retry_after_max=5s"},
			problem: []string{"admission.retry_after_min 6s is longer than admission.retry_after_max 5s"},
		},
		{
			name:    "whole seconds",
			holds:   []string{"admission.retry_after_min=2000ms"},
			breaks:  []string{"admission.retry_after_min=2001ms"},
			problem: []string{"admission.retry_after_min 2.001s and admission.retry_after_max 1m0s must be whole seconds"},
		},
		{
			name:    "waiting and stopping",
			holds:   []string{"admission.max_wait=29s"},
			breaks:  []string{"admission.max_wait=30s"},
			problem: []string{"admission.max_wait 30s must be shorter than shutdown.timeout 30s"},
		},
		{
			name:    "measurements",
			holds:   []string{"limits.measurements_per_batch=20000"},
			breaks:  []string{"limits.measurements_per_batch=20001"},
			problem: []string{"limits.measurements_per_batch 20001 is more than limits.measurements_per_memtable 20000"},
		},
		{
			name:   "memory",
			holds:  []string{"http.in_flight_bytes=126GiB"},
			breaks: []string{"http.in_flight_bytes=128GiB"},
			problem: []string{"http.in_flight_bytes 128GiB, http.read_bytes 1MiB, page_cache.capacity 512MiB, the " +
				"connections' 80MiB (http.max_connections 4096 * 20KiB) and the memtables' 384MiB (2 shards * " +
				"memtable.max_bytes 64MiB * (1 + memtable.frozen_max 2)) are together more than the memory, 128GiB"},
		},
		{
			name:   "files beside the connections",
			holds:  []string{"http.max_connections=5000"},
			breaks: []string{"http.max_connections=5001"},
			problem: []string{"http.max_connections 5001 is more than half of the 10000 files that this process may open " +
				"(ulimit -n, LimitNOFILE): the other half is for the log and the segments"},
		},
		{
			name:    "a certificate and its key",
			holds:   []string{"http.tls_cert=a.pem", "http.tls_key=b.pem"},
			breaks:  []string{"http.tls_cert=a.pem"},
			problem: []string{"http.tls_cert and http.tls_key need each other, and one of them is none"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			machine := Machine{CPUs: 2, MemoryBytes: 128 << 30, OpenFiles: 10_000}
			if _, err := Load(Source{Settings: test.holds}, machine); err != nil {
				t.Errorf("%v: %v", test.holds, err)
			}
			_, err := Load(Source{Settings: test.breaks}, machine)
			if diff := cmp.Diff(test.problem, problemsOf(t, err)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// A rule says nothing about a key whose value was refused: its default is not what the operator meant.
func TestRulesSkipRefusedKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Load(Source{Settings: []string{"wal.max_bytes=4 gigs", "wal.file_bytes=4GiB"}}, testMachine)
	want := []string{`command line: wal.max_bytes: "4 gigs": ` + errUnknownUnit.Error()}
	if diff := cmp.Diff(want, problemsOf(t, err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestRulesNameKnownKeys(t *testing.T) {
	for _, rule := range rules {
		for _, path := range rule.keys {
			if findKey(path) == nil {
				t.Errorf("a rule names the unknown key %s", path)
			}
		}
	}
}
