package shard

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

// Options configure an Engine. Sizes are bytes.
type Options struct {
	FS      vfs.FS
	DataDir string
	Logger  *zap.Logger

	Shards    int
	Limits    Limits
	Memtable  MemtableOptions
	Tier      TierOptions
	Admission AdmissionOptions
	WAL       WALOptions

	CompactionBytesPerSecond int64 // 0: no limit
	DiskReserveBytes         int64 // free space below which writes are refused
	ReadBytes                int64 // memory that all reads may take together; 0: no limit

	// Retention is how long databases keep their points that have no retention of their own; 0: for ever.
	Retention time.Duration

	// Decode turns the payload of a frame back into the batch that it was committed with; newBatch makes the batch.
	Decode func(payload []byte, newBatch func(database string) *Batch) (*Batch, error)
	// Gate replaces the tier's controller as the one that grants seals; nil: the controller.
	Gate Gate
}

// MemtableOptions bound the memtables of a shard.
type MemtableOptions struct {
	MaxBytes  int64
	MaxRows   int64
	MaxAge    time.Duration
	FrozenMax int
}

// TierOptions describe the L0 tier and its page cache.
type TierOptions struct {
	CapacityBytes int64
	SoftFraction  float64
	PageBytes     int
}

// AdmissionOptions bound what a write may wait and what a refused one is told.
type AdmissionOptions struct {
	MaxWait         time.Duration
	RetryAfterMin   time.Duration
	RetryAfterMax   time.Duration
	WaitingBytesMax int64 // memory of all waiting batches
}

// What of MaxWait is left for the way of the answer, on a machine that is busy: an eighth, but no more than answerMax.
const (
	answerShare = 8
	answerMax   = 100 * time.Millisecond
)

// hold is how long a write waits for its turn at most, so that whoever is admitted at its end has the answer within
// MaxWait.
func (o AdmissionOptions) hold() time.Duration {
	return o.MaxWait - min(o.MaxWait/answerShare, answerMax)
}

// WALOptions bound the write-ahead log.
type WALOptions struct {
	FileBytes int64
	MaxBytes  int64
}

// Validate returns every problem at once.
func (o *Options) Validate() error {
	soft := int64(float64(o.Tier.CapacityBytes) * o.Tier.SoftFraction)
	return errors.Join(
		require(o.FS != nil && o.DataDir != "" && o.Logger != nil && o.Decode != nil,
			"FS, DataDir, Logger and Decode are needed"),
		require(o.Retention == 0 || o.Retention >= RetentionMin,
			"retention is %s, must be 0 or at least %s", o.Retention, RetentionMin),
		require(o.ReadBytes >= 0, "http.read_bytes is %d, must not be negative", o.ReadBytes),
		require(o.Shards >= 1, "shards is %d, must be at least 1", o.Shards),
		require(o.Memtable.MaxBytes > 0 && o.Memtable.MaxRows > 0 && o.Memtable.FrozenMax > 0 && o.Memtable.MaxAge > 0,
			"memtable limits must be above 0, are %+v", o.Memtable),
		require(o.Tier.SoftFraction > 0 && o.Tier.SoftFraction <= 1,
			"page_cache.soft_fraction is %g, must be above 0 and at most 1", o.Tier.SoftFraction),
		require(o.Memtable.MaxBytes <= o.Tier.CapacityBytes,
			"memtable.max_bytes %d does not fit an empty tier of page_cache.capacity %d",
			o.Memtable.MaxBytes, o.Tier.CapacityBytes),
		require(int64(o.Shards)*o.Memtable.MaxBytes <= soft,
			"%d shards with full memtables of memtable.max_bytes %d exceed the soft limit %d of the tier",
			o.Shards, o.Memtable.MaxBytes, soft),
	)
}

func require(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
