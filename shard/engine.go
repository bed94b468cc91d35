package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
	"lineweir/pagecache"
	"lineweir/segment"
	"lineweir/wal"
)

// Gate decides whether a seal may put another generation into the L0 tier. *pagecache.Controller is the one that
// answers from the tier's ledger.
type Gate interface {
	// MaySeal looks without taking anything.
	MaySeal(sizeBytes int64) bool
	// Reserve takes the worst case of a flush from the tier in one atomic step, or nothing.
	Reserve(sizeBytes int64) (*pagecache.Reservation, bool)
}

// Engine accepts batches, makes them durable, and reads them back. All methods are safe for concurrent use.
type Engine struct {
	options    Options
	logger     *zap.Logger
	lock       io.Closer
	log        *wal.Log
	store      *segment.Store
	tier       *tier
	schema     *schema
	shards     atomic.Pointer[[]*shardState]
	batches    sync.Pool
	state      lifecycle
	recovery   recovery
	admission  *admission
	background background
	ddl        ddl
	retention  *retention
	reads      reads
	offline    bool // see OpenOffline
	removal    struct{ log, segments *removalLock }

	turns *pagecache.Turns // who may wait, in which order, and what the others are told

	commitMu sync.Mutex
	sequence uint64   // of the last commit
	waiters  []*write // in the order of the line
}

// tier is the L0 tier: its pages, its ledger, and what drains it.
type tier struct {
	cache      *pagecache.Cache
	controller *pagecache.Controller
	gate       Gate
	compactor  *segment.Compactor
}

// shardState is a shard as the engine sees it.
type shardState struct {
	*FlushController
	wanted  atomic.Int64 // since when a seal is wanted, Unix nanoseconds; 0: it is not
	blocked atomic.Bool  // the last wish to seal was not granted
	holding atomic.Bool  // and a write had that wish, not the memtable's age
	flush   flushState
}

// Open takes the data directory and reads what it holds, but for the log's frames: Recover replays those. A
// configuration that can't work is refused with every problem.
func Open(o Options) (*Engine, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{options: o, logger: o.Logger, schema: newSchema(), admission: newAdmission()}
	e.retention = newRetention(o.Retention)
	e.reads.limitBytes = o.ReadBytes
	e.background.kicks, e.state.failed = make(chan struct{}, 1), make(chan struct{})
	e.state.free.Store(math.MaxInt64) // until the first look
	if err := o.FS.MkdirAll(o.DataDir, 0o755); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	if err := syncParent(o.FS, o.DataDir); err != nil {
		return nil, err
	}
	if err := refuseIncomplete(o.FS, o.DataDir); err != nil {
		return nil, err
	}
	lock, err := o.FS.Lock(filepath.Join(o.DataDir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("lock the data directory %s: %w", o.DataDir, err)
	}
	e.lock = lock
	e.removal.log, e.removal.segments = e.newRemovalLock(keepLogName), e.newRemovalLock(keepSegmentsName)
	if err := e.open(); err != nil {
		return nil, errors.Join(err, e.closeFiles())
	}
	e.batches.New = func() any { return newBatch(e.schema, o.Limits, len(e.allShards())) }
	e.enter(stateRecovering, "")
	return e, nil
}

func (e *Engine) open() error {
	var err error
	if e.tier, err = openTier(&e.options); err != nil {
		return err
	}
	e.turns = pagecache.NewTurns(e.tier.controller, e.options.Admission.hold())
	if pending, err := exists(e.options.FS, filepath.Join(e.options.DataDir, repairMark)); err != nil || pending {
		return cmp.Or(err, ErrRepairPending)
	}
	if err := e.openStore(); err != nil {
		return err
	}
	// The entry of wal/ may be of a process that was killed before it had synced it.
	if err := e.options.FS.SyncDir(e.options.DataDir); err != nil {
		return fmt.Errorf("sync the data directory: %w", err)
	}
	return nil
}

// syncParent makes the entry of the data directory durable: the process that made it may have been killed before it
// had. Where the parent can't be read, somebody else made the directory.
func syncParent(fsys vfs.FS, dir string) error {
	err := fsys.SyncDir(filepath.Dir(filepath.Clean(dir)))
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("sync the directory that %s lies in: %w", dir, err)
	}
	return nil
}

func openTier(o *Options) (*tier, error) {
	options := pagecache.Options{
		CapacityBytes: o.Tier.CapacityBytes, SoftFraction: o.Tier.SoftFraction, PageBytes: o.Tier.PageBytes,
		RetryAfterMin: o.Admission.RetryAfterMin, RetryAfterMax: o.Admission.RetryAfterMax,
	}
	if err := options.Validate(); err != nil {
		return nil, err
	}
	cache, err := pagecache.NewCache(options)
	if err != nil {
		return nil, err
	}
	t := &tier{cache: cache, controller: pagecache.NewController(options), gate: o.Gate}
	if t.gate == nil {
		t.gate = t.controller
	}
	return t, nil
}

// openStore reads the manifest, opens the log, and takes the ledger, the schema and the number of shards from it.
func (e *Engine) openStore() error {
	var err error
	e.store, err = segment.OpenStore(segment.StoreOptions{
		FS: e.options.FS, Dir: e.options.DataDir, Logger: e.logger, OpenL0: e.tier.cache.Reader, Retired: e.retired,
		Approve:     e.openLog,
		LockRemoval: e.removal.segments.acquire,
	})
	if err != nil {
		return err
	}
	e.retention.set(e.store.Retention())
	for _, meta := range e.learnSchema() {
		if meta.Level == 0 {
			e.tier.controller.Register(meta.SizeBytes)
		}
	}
	e.tier.controller.OnChange(e.kick)
	e.tier.compactor, err = segment.NewCompactor(segment.CompactorOptions{
		Store: e.store, MaxBytesPerSecond: e.options.CompactionBytesPerSecond,
		TriggerBytes: int64(float64(e.options.Tier.CapacityBytes) * e.options.Tier.SoftFraction / 2),
		JobBytesMax:  jobBytesMax(&e.options.Tier),
		Progress:     e.tier.controller.Drained, JobEnded: e.tier.controller.JobEnded, Logger: e.logger,
	})
	if err != nil {
		return err
	}
	shards := e.store.Shards()
	if shards == 0 {
		shards = e.options.Shards
	}
	return e.makeShards(shards)
}

// jobBytesMax bounds the lump in which a compaction job frees the tier. While a job runs, what it has merged still
// counts against the bound, so it has to fit between the limits beside what is reserved.
func jobBytesMax(o *TierOptions) int64 {
	span := float64(o.CapacityBytes) * (1 - o.SoftFraction)
	return max(int64(span/2), o.CapacityBytes/32, 1)
}

// learnSchema takes databases, columns and drops from the manifest, and returns the live segments.
func (e *Engine) learnSchema() []segment.Meta {
	e.schema.restore(e.store.Drops())
	for _, name := range e.store.Databases() {
		e.schema.addDatabase(name)
	}
	var metas []segment.Meta
	view := e.store.Acquire(func() {})
	defer view.Release()
	view.Each(func(s *segment.Segment) {
		meta := s.Meta()
		e.schema.register(tableKey{meta.Database, meta.Measurement}, meta.Columns)
		metas = append(metas, meta)
	})
	return metas
}

// retired follows an L0 segment out of the live set: its pages go first, then its bytes leave the ledger.
func (e *Engine) retired(meta segment.Meta) {
	e.tier.cache.Retire(meta.ID, meta.SizeBytes)
	e.tier.controller.Retire(meta.SizeBytes)
}

func (e *Engine) makeShards(count int) error {
	shards := make([]*shardState, count)
	for i := range shards {
		c, err := NewFlushController(ControllerOptions{
			Shard: i, Memtable: e.options.Memtable, Limits: e.options.Limits, Files: e.store,
			tombstones: &e.schema.tombstones,
		})
		if err != nil {
			return err
		}
		shards[i] = &shardState{FlushController: c, flush: flushState{wake: make(chan struct{}, 1)}}
	}
	e.shards.Store(&shards)
	return nil
}

func (e *Engine) allShards() []*shardState { return *e.shards.Load() }

// openLog is done before the store changes anything: should the log prove that the manifest is not the one that belongs
// to it, the directory must stay as it is.
func (e *Engine) openLog(recorded segment.Recorded) error {
	var err error
	e.log, err = wal.Open(wal.Options{
		FS: e.options.FS, Dir: filepath.Join(e.options.DataDir, "wal"), Logger: e.logger,
		FileBytes: e.options.WAL.FileBytes, MaxBytes: e.options.WAL.MaxBytes,
		Known: knownOfLog(recorded), OnPoison: e.failed,
	})
	return err
}

// knownOfLog is what the manifest tells about the log. Segments and floors are of frames that were synced before;
// what is held is still needed.
func knownOfLog(r segment.Recorded) wal.Known {
	return wal.Known{Floor: r.Horizon, Written: r.MaxSequence, ID: r.Log}
}

// lowest returns the smallest of the floors; 0 when there is none.
func lowest(floors []uint64) uint64 {
	if len(floors) == 0 {
		return 0
	}
	floor := floors[0]
	for _, f := range floors {
		floor = min(floor, f)
	}
	return floor
}

// NewBatch returns an empty batch for points of a database, to be checked against the schema of now. Release gives it
// back.
func (e *Engine) NewBatch(database string) *Batch {
	b := e.batches.Get().(*Batch)
	if len(b.needs) != len(e.allShards()) {
		b = newBatch(e.schema, e.options.Limits, len(e.allShards()))
	}
	b.pool = &e.batches
	b.reset(database)
	b.oldest = e.retention.cutoff(database)
	return b
}

// Databases returns the names of all databases in ascending order.
func (e *Engine) Databases() []string { return e.schema.databaseNames() }

// Measurements returns the names of a database's measurements in ascending order, or ErrDatabaseNotFound.
func (e *Engine) Measurements(database string) ([]string, error) {
	return e.schema.measurementNames(database)
}

// Columns returns the tags and fields of a measurement by name, or ErrDatabaseNotFound or ErrMeasurementNotFound.
func (e *Engine) Columns(database, measurement string) ([]segment.ColumnDef, error) {
	known, err := e.schema.columnsOf(tableKey{database, measurement})
	return known.sorted(), err
}

// CreateDatabase makes a database durable. One that the manifest knows is left as it is; one that only writes have made
// is not durable before their frames are.
func (e *Engine) CreateDatabase(_ context.Context, name string) error {
	if err := e.notTaking(); err != nil {
		return err
	}
	e.ddl.mu.Lock()
	defer e.ddl.mu.Unlock()
	if err := e.settleDrops(); err != nil { // one of them may be of this database
		e.failedEdit(err)
		return fmt.Errorf("create database %q: %w", name, err)
	}
	if slices.Contains(e.store.Databases(), name) {
		return nil
	}
	_, err := e.store.Apply(segment.Edit{Databases: []string{name}}, func() { e.schema.addDatabase(name) })
	if err != nil {
		e.failedEdit(err)
		return fmt.Errorf("create database %q: %w", name, err)
	}
	e.logger.Info("database created", zap.String("database", name))
	return nil
}

// SetCompaction changes the rate limit of compaction (bytes per second, 0: none) or pauses it; nil leaves a setting as
// it is.
func (e *Engine) SetCompaction(bytesPerSecond *int64, paused *bool) error {
	if bytesPerSecond != nil && *bytesPerSecond < 0 {
		return fmt.Errorf("max_bytes_per_second is %d, must not be below 0", *bytesPerSecond)
	}
	status := e.tier.compactor.Status()
	rate, pause := status.MaxBytesPerSecond, status.Paused
	if bytesPerSecond != nil {
		rate = *bytesPerSecond
	}
	if paused != nil {
		pause = *paused
	}
	e.tier.compactor.SetLimit(rate, pause)
	e.tier.controller.SetPaused(pause)
	return nil
}

// closeFiles closes what is open, the lock last.
func (e *Engine) closeFiles() error {
	var errs []error
	if e.log != nil {
		if err := e.log.Close(); !errors.Is(err, wal.ErrPoisoned) { // FailedReadOnly tells of that
			errs = append(errs, err)
		}
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	if e.tier != nil {
		e.tier.cache.Close()
	}
	return errors.Join(append(errs, e.lock.Close())...)
}

// background owns the goroutines of the engine.
type background struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	kicks  chan struct{} // wakes the gate loop
}

// kick asks the gate loop to look again: room may have appeared, or a seal is wanted.
func (e *Engine) kick() {
	select {
	case e.background.kicks <- struct{}{}:
	default:
	}
}

// start runs the background work until stop.
func (e *Engine) start() {
	ctx, cancel := context.WithCancel(context.Background())
	e.background.cancel = cancel
	e.background.group.Go(func() { e.gateLoop(ctx) })
	e.background.group.Go(func() { e.housekeepLoop(ctx) })
	e.background.group.Go(func() { e.retentionLoop(ctx) })
	e.background.group.Go(func() {
		if err := e.tier.compactor.Run(ctx); err != nil && ctx.Err() == nil {
			e.failed(err)
		}
	})
	for _, s := range e.allShards() {
		e.background.group.Go(func() { e.flushLoop(ctx, s) })
	}
}

// stop ends the background work and waits for it.
func (e *Engine) stop() {
	if e.background.cancel != nil {
		e.background.cancel()
	}
	e.background.group.Wait()
}

// housekeepInterval is how often ages, the log's pressure and the disk are looked at.
const housekeepInterval = 250 * time.Millisecond
