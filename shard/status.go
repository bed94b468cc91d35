package shard

import (
	"time"

	"lineweir/segment"
)

// Status is what an operator sees of the engine; it encodes as the JSON of /api/status.
type Status struct {
	State     string          `json:"state"`
	Reason    string          `json:"reason,omitempty"`
	Tier      TierStatus      `json:"tier"`
	Shards    []ShardStatus   `json:"shards"`
	WAL       WALStatus       `json:"wal"`
	Recovery  RecoveryStatus  `json:"recovery"`
	Admission AdmissionStatus `json:"admission"`
	Cache     CacheStatus     `json:"page_cache"`
	Drain     DrainStatus     `json:"compaction"`
	Reads     ReadsStatus     `json:"reads"`
}

// TierStatus is the ledger of the L0 tier.
type TierStatus struct {
	CapacityBytes       int64   `json:"capacity_bytes"`
	SoftBytes           int64   `json:"soft_bytes"`
	RegisteredBytes     int64   `json:"registered_bytes"`
	ReservedBytes       int64   `json:"reserved_bytes"`
	MergedBytes         int64   `json:"merged_bytes"` // of registered: free when the running job ends
	HighestBytes        int64   `json:"highest_bytes"`
	ForcedBytes         int64   `json:"forced_bytes"`
	OverReservations    int64   `json:"over_reservations"`
	Segments            int     `json:"segments"`
	DrainBytesPerSecond float64 `json:"drain_bytes_per_second"`
	Stalled             bool    `json:"stalled"`
}

// ShardStatus describes the memtables of one shard.
type ShardStatus struct {
	Generation   uint64     `json:"generation"`
	ActiveRows   int64      `json:"active_rows"`
	ActiveBytes  int64      `json:"active_bytes"`
	MaxBytes     int64      `json:"max_bytes"`
	Frozen       int        `json:"frozen"`
	FrozenBytes  int64      `json:"frozen_bytes"`
	BlockedSince *time.Time `json:"blocked_since,omitempty"`
	// BlockedBy is the cause while the shard is blocked.
	BlockedBy string `json:"blocked_by,omitempty"`
	// ExpectedWaitSeconds is when the seal of a blocked shard is expected, nil where nobody can tell.
	ExpectedWaitSeconds *float64 `json:"expected_wait_seconds,omitempty"`
	Waiting             int      `json:"waiting"`
	Floor               uint64   `json:"floor"`
	OldestUnflushed     uint64   `json:"oldest_unflushed_sequence"`
	Flushes             int64    `json:"flushes"`
	FlushFailures       int64    `json:"flush_failures"`
	LastFlushError      string   `json:"last_flush_error,omitempty"`
	// Held are rows of measurements that can't be written to files, oldest first. See hold.go.
	Held []HeldStatus `json:"held,omitempty"`
}

// HeldStatus is what is held of one measurement of one memtable.
type HeldStatus struct {
	Database    string    `json:"database"`
	Measurement string    `json:"measurement"`
	Rows        int64     `json:"rows"`
	Bytes       int64     `json:"bytes"`
	Since       time.Time `json:"since"`
	Cause       string    `json:"cause"`
}

// HeldRows counts the rows that are held.
func (s *ShardStatus) HeldRows() (rows int64) {
	for _, h := range s.Held {
		rows += h.Rows
	}
	return rows
}

// WALStatus describes the write-ahead log.
type WALStatus struct {
	Bytes          int64   `json:"bytes"`
	MaxBytes       int64   `json:"max_bytes"`
	Files          int     `json:"files"`
	LastSequence   uint64  `json:"last_sequence"`
	SyncedSequence uint64  `json:"synced_sequence"`
	Fsyncs         int64   `json:"fsyncs"`
	FsyncSeconds   float64 `json:"fsync_seconds"` // of all of them together
	Frames         int64   `json:"frames"`
}

// RecoveryStatus tells how far the replay is, or what the last one did.
type RecoveryStatus struct {
	Done           bool  `json:"done"`
	FramesReplayed int64 `json:"frames_replayed"`
	RowsReplayed   int64 `json:"rows_replayed"`
	RowsSkipped    int64 `json:"rows_skipped"`
}

// AdmissionStatus counts what became of writes.
type AdmissionStatus struct {
	Admitted    int64            `json:"admitted"`
	Waited      int64            `json:"waited"`
	Waiting     int64            `json:"waiting"`
	Waits       map[string]int64 `json:"waits"`     // that began, by cause
	ToReturn    int64            `json:"to_return"` // refused writes that keep their place for a while
	Clients     int64            `json:"clients"`   // that the line knows
	Refused     map[string]int64 `json:"refused"`   // by cause
	LastRefusal *Refusal         `json:"last_refusal,omitempty"`
	// RecentRefusals are the latest ones, newest first.
	RecentRefusals []Refusal `json:"recent_refusals"`
}

// Refusal is one refused write.
type Refusal struct {
	Time              time.Time `json:"time"`
	Cause             string    `json:"cause"`
	Detail            string    `json:"detail"`
	RetryAfterSeconds int       `json:"retry_after_seconds"`
}

// CacheStatus describes the page cache.
type CacheStatus struct {
	Bytes     int64  `json:"bytes"`
	Pages     int64  `json:"pages"`
	Hits      uint64 `json:"hits"`
	Misses    uint64 `json:"misses"`
	Evictions uint64 `json:"evictions"`
}

// DrainStatus describes compaction.
type DrainStatus struct {
	Paused            bool   `json:"paused"`
	MaxBytesPerSecond int64  `json:"max_bytes_per_second"`
	Jobs              int64  `json:"jobs"`
	Failures          int64  `json:"failures"`
	Promotions        int64  `json:"promotions"`
	L1Segments        int    `json:"l1_segments"`
	L1Bytes           int64  `json:"l1_bytes"`
	LastError         string `json:"last_error,omitempty"`
}

// Status returns what an operator sees. Its parts are taken one after the other, not in one moment.
func (e *Engine) Status() Status {
	state, reason := e.stateNow()
	s := Status{
		State: state, Reason: reason, Tier: e.tierStatus(), WAL: e.walStatus(), Admission: e.Admission(),
		Cache: e.cacheStatus(),
		Recovery: RecoveryStatus{
			Done: state != stateRecovering && !e.recovery.running.Load(), FramesReplayed: e.recovery.frames.Load(),
			RowsReplayed: e.recovery.rows.Load(), RowsSkipped: e.recovery.skipped.Load(),
		},
	}
	s.Drain = e.drainStatus(&s.Tier)
	s.Reads = e.reads.status()
	floors := e.store.Floors()
	for i, shard := range e.allShards() {
		status := e.shardStatus(shard)
		if i < len(floors) {
			status.Floor = floors[i]
		}
		s.Shards = append(s.Shards, status)
	}
	return s
}

func (e *Engine) tierStatus() TierStatus {
	l := e.tier.controller.Ledger()
	return TierStatus{
		CapacityBytes: l.CapacityBytes, SoftBytes: l.SoftBytes, RegisteredBytes: l.RegisteredBytes,
		ReservedBytes: l.ReservedBytes, MergedBytes: l.MergedBytes, HighestBytes: l.HighestBytes, ForcedBytes: l.ForcedBytes,
		OverReservations: l.OverReservations, DrainBytesPerSecond: l.DrainBytesPerSecond, Stalled: l.Stalled,
	}
}

// drainStatus also counts the segments of the tier, in the same pass over the live set.
func (e *Engine) drainStatus(tier *TierStatus) DrainStatus {
	c := e.tier.compactor.Status()
	d := DrainStatus{
		Paused: c.Paused, MaxBytesPerSecond: c.MaxBytesPerSecond, Jobs: c.Jobs, Failures: c.Failures,
		Promotions: c.Promoted, LastError: c.LastError,
	}
	view := e.store.Acquire(func() {})
	defer view.Release()
	view.Each(func(s *segment.Segment) {
		if meta := s.Meta(); meta.Level == 0 {
			tier.Segments++
		} else {
			d.L1Segments++
			d.L1Bytes += meta.SizeBytes
		}
	})
	return d
}

func (e *Engine) walStatus() WALStatus {
	l := e.log.Stats()
	return WALStatus{
		Bytes: l.Bytes, MaxBytes: e.options.WAL.MaxBytes, Files: l.Files, LastSequence: l.LastSequence,
		SyncedSequence: l.SyncedSequence, Fsyncs: int64(l.Fsyncs),
		FsyncSeconds: l.FsyncTime.Seconds(), Frames: int64(l.Frames),
	}
}

func (e *Engine) cacheStatus() CacheStatus {
	c := e.tier.cache.Stats()
	return CacheStatus{Bytes: c.Bytes, Pages: int64(c.Pages), Hits: c.Hits, Misses: c.Misses, Evictions: c.Evictions}
}

func (e *Engine) shardStatus(s *shardState) ShardStatus {
	fill := s.Fill()
	status := ShardStatus{
		Generation: fill.Generation, ActiveRows: fill.active.rows, ActiveBytes: fill.active.bytes(),
		MaxBytes: fill.caps.bytes, Frozen: fill.frozen, OldestUnflushed: s.MinUnflushedWALSeq(),
	}
	s.mu.Lock()
	for _, m := range s.frozen {
		status.FrozenBytes += m.usedLocked().bytes()
	}
	for _, m := range s.held {
		status.Held = append(status.Held, HeldStatus{
			Database: m.held.key.database, Measurement: m.held.key.measurement, Rows: m.applied.rows,
			Bytes: m.applied.bytes(), Since: m.held.since, Cause: m.held.cause,
		})
	}
	s.mu.Unlock()
	if wanted := s.wanted.Load(); s.blocked.Load() && wanted != 0 {
		since := time.Unix(0, wanted)
		status.BlockedSince, status.BlockedBy = &since, e.causeOf(fill)
		status.ExpectedWaitSeconds = e.expectedSeconds(s)
	}
	e.commitMu.Lock()
	for _, w := range e.waiters {
		if w.blocked.Load().shard == s.shard {
			status.Waiting++
		}
	}
	e.commitMu.Unlock()
	s.flush.mu.Lock()
	defer s.flush.mu.Unlock()
	status.Flushes, status.FlushFailures = s.flush.flushes, s.flush.failures
	if s.flush.lastError != nil {
		status.LastFlushError = s.flush.lastError.Error()
	}
	return status
}

// expectedSeconds is when a blocked shard's seal is expected, nil where nobody can tell: while the drain is paused or
// stands still, or while the shard waits for a flush.
func (e *Engine) expectedSeconds(s *shardState) *float64 {
	const unknown = time.Hour // of ExpectedWait
	wait := e.tier.controller.ExpectedWait(0, s.Fill().active.bytes())
	if e.causeOf(s.Fill()) != CauseL0Full || wait >= unknown || e.tier.compactor.Status().Paused {
		return nil
	}
	seconds := wait.Seconds()
	return &seconds
}

// Admission returns what became of writes until now.
func (e *Engine) Admission() AdmissionStatus {
	s, line := e.admission.status(), e.turns.Line()
	s.ToReturn, s.Clients = line.Away, line.Clients
	return s
}

func (a *admission) status() AdmissionStatus {
	s := AdmissionStatus{
		Admitted: a.admitted.Load(), Waited: a.waited.Load(), Waiting: a.waiting.Load(),
		Waits: map[string]int64{}, Refused: map[string]int64{}, RecentRefusals: a.recent.newestFirst(),
	}
	if len(s.RecentRefusals) > 0 {
		s.LastRefusal = &s.RecentRefusals[0]
	}
	for cause, count := range a.waits {
		s.Waits[cause] = count.Load()
	}
	for cause, count := range a.refused {
		s.Refused[cause] = count.Load()
	}
	return s
}
