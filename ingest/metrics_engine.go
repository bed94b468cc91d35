package ingest

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"lineweir/shard"
)

// engineCollector reads the engine's status once for each scrape, so that its figures belong together.
type engineCollector struct {
	status  func() shard.Status
	metrics []engineMetric
	shards  []shardMetric
	refused *prometheus.Desc
	waits   *prometheus.Desc
	state   *prometheus.Desc
}

// engineMetric is one figure of the engine.
type engineMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *shard.Status) float64
}

// shardMetric is one figure of every shard.
type shardMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(s *shard.ShardStatus) float64
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

func newEngineCollector(status func() shard.Status) *engineCollector {
	c := &engineCollector{
		status: status,
		refused: prometheus.NewDesc("lineweir_refused_total",
			"Writes that were refused for now, by cause.", []string{"cause"}, nil),
		waits: prometheus.NewDesc("lineweir_waits_total",
			"Batches that began to wait for a seal, by cause.", []string{"cause"}, nil),
		state: prometheus.NewDesc("lineweir_state", "1 for the state that the engine is in.", []string{"state"}, nil),
	}
	c.metrics = append(c.metrics, tierMetrics()...)
	c.metrics = append(c.metrics, logMetrics()...)
	c.metrics = append(c.metrics, admissionMetrics()...)
	c.metrics = append(c.metrics, cacheMetrics()...)
	c.metrics = append(c.metrics, compactionMetrics()...)
	c.metrics = append(c.metrics, readMetrics()...)
	c.shards = shardMetrics()
	return c
}

func metric(name, help string, kind prometheus.ValueType, value func(s *shard.Status) float64) engineMetric {
	return engineMetric{prometheus.NewDesc(name, help, nil, nil), kind, value}
}

func tierMetrics() []engineMetric {
	return []engineMetric{
		metric("lineweir_tier_capacity_bytes", "Bound of the L0 tier.", gauge,
			func(s *shard.Status) float64 { return float64(s.Tier.CapacityBytes) }),
		metric("lineweir_tier_soft_bytes", "Level from which seals are paced.", gauge,
			func(s *shard.Status) float64 { return float64(s.Tier.SoftBytes) }),
		metric("lineweir_tier_registered_bytes", "Bytes of L0 segments.", gauge,
			func(s *shard.Status) float64 { return float64(s.Tier.RegisteredBytes) }),
		metric("lineweir_tier_reserved_bytes", "Bytes reserved by seals whose flush is not registered yet.", gauge,
			func(s *shard.Status) float64 { return float64(s.Tier.ReservedBytes) }),
		metric("lineweir_tier_merged_bytes", "Registered bytes that the running job has merged, free at its end.", gauge,
			func(s *shard.Status) float64 { return float64(s.Tier.MergedBytes) }),
		metric("lineweir_tier_highest_bytes", "Highest level of the tier since the start.", gauge,
			func(s *shard.Status) float64 { return float64(s.Tier.HighestBytes) }),
		metric("lineweir_tier_forced_bytes_total", "Bytes that force-seals and recovery took beyond the gate.", counter,
			func(s *shard.Status) float64 { return float64(s.Tier.ForcedBytes) }),
		metric("lineweir_tier_over_reservations_total", "Flushes that outgrew their reservation: a bug if not 0.",
			counter, func(s *shard.Status) float64 { return float64(s.Tier.OverReservations) }),
		metric("lineweir_tier_segments", "L0 segments.", gauge,
			func(s *shard.Status) float64 { return float64(s.Tier.Segments) }),
		metric("lineweir_tier_drain_bytes_per_second", "Measured rate at which compaction drains the tier.", gauge,
			func(s *shard.Status) float64 { return s.Tier.DrainBytesPerSecond }),
		metric("lineweir_tier_stalled", "1 while the tier holds segments and none is drained.", gauge,
			func(s *shard.Status) float64 { return boolValue(s.Tier.Stalled) }),
	}
}

func logMetrics() []engineMetric {
	return []engineMetric{
		metric("lineweir_wal_bytes", "Bytes of the write-ahead log.", gauge,
			func(s *shard.Status) float64 { return float64(s.WAL.Bytes) }),
		metric("lineweir_wal_max_bytes", "Bound of the write-ahead log.", gauge,
			func(s *shard.Status) float64 { return float64(s.WAL.MaxBytes) }),
		metric("lineweir_wal_files", "Files of the write-ahead log.", gauge,
			func(s *shard.Status) float64 { return float64(s.WAL.Files) }),
		metric("lineweir_wal_last_sequence", "Sequence of the last commit.", gauge,
			func(s *shard.Status) float64 { return float64(s.WAL.LastSequence) }),
		metric("lineweir_wal_synced_sequence", "Sequence up to which all is on disk.", gauge,
			func(s *shard.Status) float64 { return float64(s.WAL.SyncedSequence) }),
		metric("lineweir_wal_fsyncs_total", "Groups that were written and synced.", counter,
			func(s *shard.Status) float64 { return float64(s.WAL.Fsyncs) }),
		metric("lineweir_wal_fsync_seconds_total", "Time that these fsyncs took.", counter,
			func(s *shard.Status) float64 { return s.WAL.FsyncSeconds }),
		metric("lineweir_wal_frames_total", "Frames that were written.", counter,
			func(s *shard.Status) float64 { return float64(s.WAL.Frames) }),
		metric("lineweir_recovery_frames_replayed", "Frames that the start has replayed.", gauge,
			func(s *shard.Status) float64 { return float64(s.Recovery.FramesReplayed) }),
		metric("lineweir_recovery_rows_replayed", "Rows that the start has replayed.", gauge,
			func(s *shard.Status) float64 { return float64(s.Recovery.RowsReplayed) }),
		metric("lineweir_recovery_rows_skipped", "Rows of replayed frames that a segment held already.", gauge,
			func(s *shard.Status) float64 { return float64(s.Recovery.RowsSkipped) }),
	}
}

func admissionMetrics() []engineMetric {
	return []engineMetric{
		metric("lineweir_admitted_total", "Batches that were made durable.", counter,
			func(s *shard.Status) float64 { return float64(s.Admission.Admitted) }),
		metric("lineweir_waited_total", "Batches whose wait for a seal has ended well.", counter,
			func(s *shard.Status) float64 { return float64(s.Admission.Waited) }),
		metric("lineweir_waiting", "Batches that wait for a seal.", gauge,
			func(s *shard.Status) float64 { return float64(s.Admission.Waiting) }),
		metric("lineweir_to_return", "Refused batches that keep their place in the line for a while.", gauge,
			func(s *shard.Status) float64 { return float64(s.Admission.ToReturn) }),
	}
}

func readMetrics() []engineMetric {
	return []engineMetric{
		metric("lineweir_read_bytes", "Memory of the scans and statements that run.", gauge,
			func(s *shard.Status) float64 { return float64(s.Reads.Bytes) }),
		metric("lineweir_read_max_bytes", "What lineweir_read_bytes never exceeds.", gauge,
			func(s *shard.Status) float64 { return float64(s.Reads.MaxBytes) }),
	}
}

func cacheMetrics() []engineMetric {
	return []engineMetric{
		metric("lineweir_page_cache_bytes", "Bytes of pages in the page cache.", gauge,
			func(s *shard.Status) float64 { return float64(s.Cache.Bytes) }),
		metric("lineweir_page_cache_pages", "Pages in the page cache.", gauge,
			func(s *shard.Status) float64 { return float64(s.Cache.Pages) }),
		metric("lineweir_page_cache_hits_total", "Reads of a page that was there.", counter,
			func(s *shard.Status) float64 { return float64(s.Cache.Hits) }),
		metric("lineweir_page_cache_misses_total", "Reads of a page that had to be read from its file.", counter,
			func(s *shard.Status) float64 { return float64(s.Cache.Misses) }),
		metric("lineweir_page_cache_evictions_total", "Pages of live segments that were evicted.", counter,
			func(s *shard.Status) float64 { return float64(s.Cache.Evictions) }),
	}
}

func compactionMetrics() []engineMetric {
	return []engineMetric{
		metric("lineweir_compaction_paused", "1 while compaction is paused.", gauge,
			func(s *shard.Status) float64 { return boolValue(s.Drain.Paused) }),
		metric("lineweir_compaction_max_bytes_per_second", "Limit of compaction, 0 for none.", gauge,
			func(s *shard.Status) float64 { return float64(s.Drain.MaxBytesPerSecond) }),
		metric("lineweir_compaction_jobs_total", "Jobs that ended well.", counter,
			func(s *shard.Status) float64 { return float64(s.Drain.Jobs) }),
		metric("lineweir_compaction_failures_total", "Jobs that failed.", counter,
			func(s *shard.Status) float64 { return float64(s.Drain.Failures) }),
		metric("lineweir_compaction_promotions_total", "Segments that could not be merged and moved to L1 as they are.",
			counter, func(s *shard.Status) float64 { return float64(s.Drain.Promotions) }),
		metric("lineweir_l1_segments", "L1 segments.", gauge,
			func(s *shard.Status) float64 { return float64(s.Drain.L1Segments) }),
		metric("lineweir_l1_bytes", "Bytes of L1 segments.", gauge,
			func(s *shard.Status) float64 { return float64(s.Drain.L1Bytes) }),
	}
}

func shardMetrics() []shardMetric {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("lineweir_shard_"+name, help, []string{"shard"}, nil)
	}
	return []shardMetric{
		{desc("generation", "Number of the active memtable."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.Generation) }},
		{desc("active_rows", "Rows of the active memtable."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.ActiveRows) }},
		{desc("active_bytes", "Fill of the active memtable."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.ActiveBytes) }},
		{desc("max_bytes", "Fill at which the active memtable needs a seal."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.MaxBytes) }},
		{desc("frozen", "Memtables that wait for their flush."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.Frozen) }},
		{desc("frozen_bytes", "Fill of the memtables that wait for their flush."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.FrozenBytes) }},
		{desc("held_rows", "Rows of measurements that can't be written to files."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.HeldRows()) }},
		{desc("blocked", "1 while a seal is needed and may not be had."), gauge,
			func(s *shard.ShardStatus) float64 { return boolValue(s.BlockedSince != nil) }},
		{desc("waiting", "Batches that wait for a seal of the shard."), gauge,
			func(s *shard.ShardStatus) float64 { return float64(s.Waiting) }},
		{desc("flushes_total", "Flushes that ended well."), counter,
			func(s *shard.ShardStatus) float64 { return float64(s.Flushes) }},
		{desc("flush_failures_total", "Flushes that failed and are tried again."), counter,
			func(s *shard.ShardStatus) float64 { return float64(s.FlushFailures) }},
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe sends the description of every metric.
func (c *engineCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range c.metrics {
		ch <- c.metrics[i].desc
	}
	for i := range c.shards {
		ch <- c.shards[i].desc
	}
	ch <- c.refused
	ch <- c.waits
	ch <- c.state
}

// Collect reads the status and sends every metric.
func (c *engineCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.status()
	for i := range c.metrics {
		m := &c.metrics[i]
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s))
	}
	for number := range s.Shards {
		for i := range c.shards {
			m := &c.shards[i]
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s.Shards[number]), strconv.Itoa(number))
		}
	}
	for _, cause := range shard.Causes() {
		ch <- prometheus.MustNewConstMetric(c.refused, counter, float64(s.Admission.Refused[cause]), cause)
		ch <- prometheus.MustNewConstMetric(c.waits, counter, float64(s.Admission.Waits[cause]), cause)
	}
	ch <- prometheus.MustNewConstMetric(c.state, gauge, 1, s.State)
}
