package config

import (
	"fmt"
	"time"
)

// pagesPerSegmentMax is how many pages of one segment can be told apart in the page cache.
const pagesPerSegmentMax = 1 << 24

// A rule holds between keys. It names them, so that it isn't judged while one of their values was refused.
type rule struct {
	keys  []string
	check func(c *Config, machine Machine) string // what is wrong, or ""
}

// rules are the ways in which settings that are each in range can't work together.
var rules = []rule{
	{[]string{"memtable.max_bytes", "page_cache.capacity", "shards"}, checkMemtableInRange},
	{[]string{"memtable.max_bytes", "page_cache.capacity", "shards"}, checkMemtableFitsTier},
	{[]string{"memtable.max_bytes", "page_cache.capacity", "page_cache.soft_fraction", "shards"}, checkMemtablesFitSoft},
	{[]string{"page_cache.page_bytes", "page_cache.capacity"}, checkPageBytes},
	{[]string{"wal.max_bytes", "wal.file_bytes"}, checkLogHoldsFiles},
	{[]string{"wal.max_bytes", "http.max_body_bytes"}, checkLogHoldsBody},
	{[]string{"http.in_flight_bytes", "http.max_body_bytes"}, checkInFlightHoldsBody},
	{[]string{"http.tls_cert", "http.tls_key"}, checkTLSPair},
	{[]string{"http.max_connections"}, checkConnectionsLeaveFiles},
	{[]string{"admission.retry_after_min", "admission.retry_after_max"}, checkRetryAfter},
	{[]string{"admission.max_wait", "shutdown.timeout"}, checkWaitEndsInShutdown},
	{[]string{"limits.measurements_per_batch", "limits.measurements_per_memtable"}, checkMeasurements},
	{[]string{
		"http.in_flight_bytes", "http.read_bytes", "http.max_connections", "page_cache.capacity", "memtable.max_bytes",
		"memtable.frozen_max", "shards",
	}, checkMemory},
}

// checkRules adds a problem for each rule that an effective configuration breaks.
func checkRules(c *Config, machine Machine, found *problems) {
	for _, rule := range rules {
		if found.anyRefused(rule.keys) {
			continue
		}
		if wrong := rule.check(c, machine); wrong != "" {
			found.add("%s", wrong)
		}
	}
}

// checkMemtableInRange judges a derived cap by the range of a written one.
func checkMemtableInRange(c *Config, _ Machine) string {
	k := findKey("memtable.max_bytes")
	if k.allows(c.Memtable.MaxBytes) && c.Memtable.MaxBytes > 0 {
		return ""
	}
	return fmt.Sprintf("page_cache.capacity %s leaves memtable.max_bytes only %s for each of %d shards, and it must "+
		"be at least %s: raise the capacity or lower shards",
		FormatBytes(c.PageCache.CapacityBytes), FormatBytes(c.Memtable.MaxBytes), c.Shards, k.min)
}

// checkMemtableFitsTier: a memtable that doesn't fit an empty tier could never be sealed.
func checkMemtableFitsTier(c *Config, _ Machine) string {
	if c.Memtable.MaxBytes <= c.PageCache.CapacityBytes {
		return ""
	}
	return fmt.Sprintf("memtable.max_bytes %s does not fit page_cache.capacity %s: once full it could not be sealed",
		FormatBytes(c.Memtable.MaxBytes), FormatBytes(c.PageCache.CapacityBytes))
}

// checkMemtablesFitSoft: with more than that, shards that fill together would be paced before anything is flushed.
func checkMemtablesFitSoft(c *Config, _ Machine) string {
	together := int64(c.Shards) * c.Memtable.MaxBytes
	soft := int64(float64(c.PageCache.CapacityBytes) * c.PageCache.SoftFraction)
	if together <= soft {
		return ""
	}
	return fmt.Sprintf("%d shards with memtable.max_bytes %s together take %s, more than the soft limit of the "+
		"page cache (page_cache.capacity %s * page_cache.soft_fraction %v = %s)",
		c.Shards, FormatBytes(c.Memtable.MaxBytes), FormatBytes(together),
		FormatBytes(c.PageCache.CapacityBytes), c.PageCache.SoftFraction, FormatBytes(soft))
}

// checkPageBytes: a segment may be as large as the tier, and all its pages need a number.
func checkPageBytes(c *Config, _ Machine) string {
	pageBytes := int64(c.PageCache.PageBytes)
	switch {
	case pageBytes > c.PageCache.CapacityBytes:
		return fmt.Sprintf("page_cache.page_bytes %s is more than page_cache.capacity %s",
			FormatBytes(pageBytes), FormatBytes(c.PageCache.CapacityBytes))
	case c.PageCache.CapacityBytes > pageBytes*pagesPerSegmentMax:
		return fmt.Sprintf("page_cache.capacity %s needs page_cache.page_bytes of at least %s, not %s",
			FormatBytes(c.PageCache.CapacityBytes),
			FormatBytes((c.PageCache.CapacityBytes+pagesPerSegmentMax-1)/pagesPerSegmentMax), FormatBytes(pageBytes))
	}
	return ""
}

// checkLogHoldsFiles: the log always has a current file and a spare, and needs one more to make progress.
func checkLogHoldsFiles(c *Config, _ Machine) string {
	if c.WAL.MaxBytes >= 3*c.WAL.FileBytes {
		return ""
	}
	return fmt.Sprintf("wal.max_bytes %s must be at least three times wal.file_bytes %s",
		FormatBytes(c.WAL.MaxBytes), FormatBytes(c.WAL.FileBytes))
}

// checkLogHoldsBody: one frame carries the accepted text of one body, and may take up half of the log.
func checkLogHoldsBody(c *Config, _ Machine) string {
	const frameOverheadBytes = 32 << 10 // headers, the database's name, and what incompressible text grows by
	if c.WAL.MaxBytes >= 2*(c.HTTP.MaxBodyBytes+frameOverheadBytes) {
		return ""
	}
	return fmt.Sprintf("wal.max_bytes %s must be at least twice http.max_body_bytes %s and %s",
		FormatBytes(c.WAL.MaxBytes), FormatBytes(c.HTTP.MaxBodyBytes), FormatBytes(2*frameOverheadBytes))
}

// checkInFlightHoldsBody: otherwise the largest body would be refused for lack of memory however idle the server is.
func checkInFlightHoldsBody(c *Config, _ Machine) string {
	const copies = 4 // as sent, decompressed, parsed, encoded
	if c.HTTP.InFlightBytes >= copies*c.HTTP.MaxBodyBytes {
		return ""
	}
	return fmt.Sprintf("http.in_flight_bytes %s must be at least %d times http.max_body_bytes %s",
		FormatBytes(c.HTTP.InFlightBytes), copies, FormatBytes(c.HTTP.MaxBodyBytes))
}

// checkTLSPair: one of the two alone would leave open whether TLS is meant.
func checkTLSPair(c *Config, _ Machine) string {
	if (c.HTTP.TLSCert == "") == (c.HTTP.TLSKey == "") {
		return ""
	}
	return "http.tls_cert and http.tls_key need each other, and one of them is none"
}

// checkConnectionsLeaveFiles: a log or a flush that can't open its file fails as if the disk had.
func checkConnectionsLeaveFiles(c *Config, machine Machine) string {
	if machine.OpenFiles == 0 || int64(c.HTTP.MaxConnections) <= max(1, machine.OpenFiles/2) {
		return ""
	}
	return fmt.Sprintf("http.max_connections %d is more than half of the %d files that this process may open (ulimit -n, "+
		"LimitNOFILE): the other half is for the log and the segments", c.HTTP.MaxConnections, machine.OpenFiles)
}

// checkRetryAfter: the header counts whole seconds.
func checkRetryAfter(c *Config, _ Machine) string {
	shortest, longest := c.Admission.RetryAfterMin, c.Admission.RetryAfterMax
	switch {
	case shortest%time.Second != 0 || longest%time.Second != 0:
		return fmt.Sprintf("admission.retry_after_min %v and admission.retry_after_max %v must be whole seconds",
			shortest, longest)
	case shortest > longest:
		return fmt.Sprintf("admission.retry_after_min %v is longer than admission.retry_after_max %v", shortest, longest)
	}
	return ""
}

// checkWaitEndsInShutdown: a stop waits for requests, and these may wait for a seal.
func checkWaitEndsInShutdown(c *Config, _ Machine) string {
	if c.Admission.MaxWait < c.Shutdown.Timeout {
		return ""
	}
	return fmt.Sprintf("admission.max_wait %v must be shorter than shutdown.timeout %v",
		c.Admission.MaxWait, c.Shutdown.Timeout)
}

// checkMeasurements: a batch of as many measurements as allowed has to fit an empty memtable.
func checkMeasurements(c *Config, _ Machine) string {
	if c.Limits.MeasurementsPerBatch <= c.Limits.MeasurementsPerMemtable {
		return ""
	}
	return fmt.Sprintf("limits.measurements_per_batch %d is more than limits.measurements_per_memtable %d",
		c.Limits.MeasurementsPerBatch, c.Limits.MeasurementsPerMemtable)
}

const connectionBytes = 20 << 10 // without TLS

// memtablesBytes is what all memtables take when they are full.
func memtablesBytes(c *Config) int64 {
	return int64(c.Shards) * c.Memtable.MaxBytes * int64(1+c.Memtable.FrozenMax)
}

// boundedBytes adds up what is sure to be taken under full load, beside reads.
func boundedBytes(c *Config) int64 {
	connections := int64(c.HTTP.MaxConnections) * connectionBytes
	return c.HTTP.InFlightBytes + connections + c.PageCache.CapacityBytes + memtablesBytes(c)
}

// checkMemory adds up what is sure to be taken under full load.
func checkMemory(c *Config, machine Machine) string {
	connections, memtables := int64(c.HTTP.MaxConnections)*connectionBytes, memtablesBytes(c)
	together := boundedBytes(c) + c.HTTP.ReadBytes
	if machine.MemoryBytes == 0 || together <= machine.MemoryBytes {
		return ""
	}
	return fmt.Sprintf("http.in_flight_bytes %s, http.read_bytes %s, page_cache.capacity %s, the connections' %s "+
		"(http.max_connections %d * %s) and the memtables' %s (%d shards * memtable.max_bytes %s * (1 + "+
		"memtable.frozen_max %d)) are together more than the memory, %s", FormatBytes(c.HTTP.InFlightBytes),
		FormatBytes(c.HTTP.ReadBytes), FormatBytes(c.PageCache.CapacityBytes), FormatBytes(connections),
		c.HTTP.MaxConnections, FormatBytes(connectionBytes), FormatBytes(memtables),
		c.Shards, FormatBytes(c.Memtable.MaxBytes), c.Memtable.FrozenMax, FormatBytes(machine.MemoryBytes))
}
