package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// CompactorOptions says what a Compactor works on, when and how fast.
type CompactorOptions struct {
	Store *Store
	// A measurement leaves level 0 when it has TriggerFiles segments there, or all measurements together TriggerBytes, or
	// its oldest segment has been known for TriggerAge, so that idle data settles too. Zero means 4, 64 MiB, 30 s.
	TriggerFiles int
	TriggerBytes int64
	TriggerAge   time.Duration
	// JobBytesMax bounds the input of one job, which frees level 0 in one lump at its end. Zero means 128 MiB.
	JobBytesMax int64
	// L1FileBytesMax is the size up to which files of level 1 are merged. Zero means 256 MiB.
	L1FileBytesMax int64
	// MaxBytesPerSecond limits how much input is read, of level 0 first; 0 is no limit.
	MaxBytesPerSecond int64
	// Progress is told several times a second how many bytes of level 0 were merged and how long that took, time spent
	// waiting for the limit included, pauses not. May be nil.
	Progress func(bytes int64, busy time.Duration)
	// JobEnded is told when a job of level 0 is over, well or not: what Progress told of it counts no more. May be nil.
	JobEnded func()
	Logger   *zap.Logger
}

// Validate returns every problem at once.
func (o CompactorOptions) Validate() error {
	var problems []error
	if o.Store == nil {
		problems = append(problems, errors.New("compaction needs a store"))
	}
	for _, setting := range []struct {
		name  string
		value int64
	}{
		{"file trigger", int64(o.TriggerFiles)}, {"byte trigger", o.TriggerBytes},
		{"age trigger", int64(o.TriggerAge)}, {"job size", o.JobBytesMax},
		{"file size of level 1", o.L1FileBytesMax}, {"bytes per second", o.MaxBytesPerSecond},
	} {
		if setting.value < 0 {
			problems = append(problems, fmt.Errorf("the %s of compaction is %d, and must not be negative",
				setting.name, setting.value))
		}
	}
	return errors.Join(problems...)
}

// Compactor merges segments of level 0 into level 1 and small ones of level 1 into larger ones. One job runs at a time.
// Merging within level 1 has time: it stops between blocks for whatever is due in level 0.
type Compactor struct {
	store    *Store
	logger   *zap.Logger
	progress func(int64, time.Duration)
	jobEnded func()
	trigger  trigger
	bounds   planBounds
	throttle *throttle
	poked    atomic.Bool
	wake     chan struct{}
	running  chan struct{} // holds a token while nobody compacts

	// What follows belongs to whoever has the token.
	attempts *attempts
	settled  map[measurementKey]*segmentList // lists in which level 1 has nothing to merge
	idle     idle

	statusMu sync.Mutex
	status   CompactorStatus
}

// idle is a version in which nothing is due in level 0 before a time, if that is set.
type idle struct {
	version *version
	until   time.Time
}

// CompactorStatus counts since the process began.
type CompactorStatus struct {
	MaxBytesPerSecond int64
	Paused            bool
	Running           bool // a job of level 0 is under way
	Jobs              int64
	Merges            int64
	BytesRead         int64 // of level 0
	BytesWritten      int64
	RowsWritten       int64
	Failures          int64
	Promoted          int64 // segments that could not be merged and went to level 1 as they were
	LastError         string
	LastErrorTime     time.Time
}

const (
	mergeFilesMax = 16   // segments that are open at once
	jobFilesMax   = 1024 // segments that one edit replaces; the next look at what is urgent comes after it
	mergeFanIn    = 8    // fewest segments of level 1 worth merging
)

// NewCompactor makes a Compactor that does nothing until Run or CompactOnce.
func NewCompactor(o CompactorOptions) (*Compactor, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Compactor{
		store: o.Store, logger: o.Logger, progress: o.Progress, jobEnded: o.JobEnded,
		trigger: trigger{
			files: orDefault(o.TriggerFiles, 4),
			bytes: orDefault(o.TriggerBytes, 64<<20),
			age:   orDefault(o.TriggerAge, 30*time.Second),
		},
		bounds: planBounds{
			mergeFiles: mergeFilesMax, jobFiles: jobFilesMax, fanIn: mergeFanIn,
			jobBytes:  orDefault(o.JobBytesMax, 128<<20),
			fileBytes: orDefault(o.L1FileBytesMax, 256<<20),
		},
		throttle: newThrottle(o.MaxBytesPerSecond),
		wake:     make(chan struct{}, 1),
		running:  make(chan struct{}, 1),
		attempts: newAttempts(),
		settled:  make(map[measurementKey]*segmentList),
	}
	c.running <- struct{}{}
	if c.logger == nil {
		c.logger = zap.NewNop()
	}
	if c.progress == nil {
		c.progress = func(int64, time.Duration) {}
	}
	if c.jobEnded == nil {
		c.jobEnded = func() {}
	}
	return c, nil
}

func orDefault[T int | int64 | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// Run compacts until ctx ends, which is no error. It gives up only when the store takes no edits any more.
func (c *Compactor) Run(ctx context.Context) error {
	for {
		poked := c.poked.Swap(false)
		did, next, err := c.step(ctx, poked)
		if ctx.Err() != nil {
			return nil
		}
		if poked && !did && !next.IsZero() {
			c.poked.Store(true) // what it asked for waits for another try
		}
		if errors.Is(err, ErrReadOnly) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrClosed) {
			return fmt.Errorf("compaction ends: %w", err)
		}
		if err != nil {
			c.logger.Warn("a merge failed and will be tried again", zap.Error(err))
		}
		if did {
			continue
		}
		if err := waitUntil(ctx, next, c.wake); err != nil {
			return nil
		}
	}
}

// waitUntil ends at a time, if there is one, when woken, or with ctx.
func waitUntil(ctx context.Context, at time.Time, wake <-chan struct{}) error {
	wait := time.Duration(0)
	if !at.IsZero() {
		wait = max(1, time.Until(at))
	}
	return waitFor(ctx, wait, wake)
}

// Poke makes one job run at once, whatever the triggers say. It does not end a pause.
func (c *Compactor) Poke() {
	c.poked.Store(true)
	c.Wake()
}

// Wake makes Run look at the triggers again. Call it after an edit that added segments.
func (c *Compactor) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// SetLimit changes the rate and the pause, for the job that is under way too. A rate of 0 is no limit.
func (c *Compactor) SetLimit(bytesPerSecond int64, paused bool) {
	c.throttle.set(max(0, bytesPerSecond), paused)
	c.logger.Info("compaction limit changed",
		zap.Int64("max_bytes_per_second", bytesPerSecond), zap.Bool("paused", paused))
}

// Status returns the counters and the limit in force.
func (c *Compactor) Status() CompactorStatus {
	c.statusMu.Lock()
	status := c.status
	c.statusMu.Unlock()
	status.MaxBytesPerSecond, status.Paused = c.throttle.get()
	return status
}

func (c *Compactor) count(change func(*CompactorStatus)) {
	c.statusMu.Lock()
	defer c.statusMu.Unlock()
	change(&c.status)
}

// CompactOnce runs one job whatever the triggers say, of level 0 if there is any, and tells whether there was one. The
// error names what could not be merged; other merges of the job may have succeeded.
func (c *Compactor) CompactOnce(ctx context.Context) (did bool, err error) {
	did, _, err = c.step(ctx, true)
	return did, err
}
