package shard

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap/zapcore"

	"lineweir/segment"
)

// ControllerOptions configure the FlushController of one shard.
type ControllerOptions struct {
	Shard    int // number of the shard, whose part of each batch the controller takes
	Memtable MemtableOptions
	Limits   Limits
	Files    Files

	tombstones *tombstones // of the engine; nil: nothing is ever dropped
}

// Files makes the files of a flush; *segment.Store does.
type Files interface {
	NewFile(level int, info segment.FileInfo, partition int64) *segment.PendingFile
	Seal(pending []*segment.PendingFile) error
}

// Validate returns every problem at once.
func (o *ControllerOptions) Validate() error {
	return errors.Join(
		require(o.Shard >= 0, "shard is %d, must not be below 0", o.Shard),
		require(o.Memtable.MaxBytes > 0 && o.Memtable.MaxRows > 0 && o.Memtable.FrozenMax > 0,
			"memtable limits must be above 0, are %+v", o.Memtable),
	)
}

// FlushController owns the memtables of one shard: the active one, and a queue of frozen ones that wait for their
// flush.
type FlushController struct {
	shard   int
	options ControllerOptions
	fill    atomic.Pointer[Fill]

	flushMu sync.Mutex // one flush at a time; taken before mu
	flight  flight     // of the flush that holds flushMu

	mu     sync.Mutex
	active *Memtable
	frozen []*Memtable // oldest first
	held   []*Memtable // flushed but for one measurement each, see hold.go; oldest first
}

// NewFlushController returns a controller with an empty active memtable.
func NewFlushController(o ControllerOptions) (*FlushController, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.tombstones == nil {
		o.tombstones = &tombstones{}
	}
	c := &FlushController{shard: o.Shard, options: o}
	c.active = newMemtable(1, o.Memtable.MaxBytes)
	c.publishLocked()
	return c, nil
}

// Fill returns the published snapshot without taking a lock.
func (c *FlushController) Fill() *Fill { return c.fill.Load() }

// publishLocked derives the snapshot from the state.
func (c *FlushController) publishLocked() {
	fill := c.fillLocked()
	c.fill.Store(&fill)
}

func (c *FlushController) fillLocked() Fill {
	o := &c.options
	waiting, frozenBytes := int64(0), int64(0)
	for _, m := range c.frozen {
		frozenBytes += m.usedLocked().bytes()
	}
	for _, memtables := range [...][]*Memtable{c.held, c.frozen} {
		for _, m := range memtables {
			waiting += m.usedLocked().cost.Bytes()
		}
	}
	return Fill{
		active: c.active.usedLocked(), frozen: len(c.frozen), frozenBytes: frozenBytes, waiting: waiting,
		frozenMax:  o.Memtable.FrozenMax,
		Generation: c.active.generation,
		caps:       c.capsOf(c.active.maxBytes),
	}
}

// largestCaps are the bounds of the largest memtable, and so of what a batch may bring.
func (c *FlushController) largestCaps() caps { return c.capsOf(c.options.Memtable.MaxBytes) }

// capsOf returns the bounds of a memtable whose cap is maxBytes.
func (c *FlushController) capsOf(maxBytes int64) caps {
	return caps{
		bytes: maxBytes, rows: c.options.Memtable.MaxRows, tables: int64(c.options.Limits.MeasurementsPerMemtable),
	}
}

// ActiveMemtable returns the memtable that takes inserts.
func (c *FlushController) ActiveMemtable() *Memtable {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// FrozenMemtable returns the oldest memtable that waits for its flush, nil if none does.
func (c *FlushController) FrozenMemtable() *Memtable {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frozen) == 0 {
		return nil
	}
	return c.frozen[0]
}

// frozenHeadBytes returns the size of the oldest memtable that waits for its flush.
func (c *FlushController) frozenHeadBytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.frozen) == 0 {
		return 0
	}
	return c.frozen[0].usedLocked().bytes()
}

// FrozenCount returns how many memtables wait for their flush.
func (c *FlushController) FrozenCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.frozen)
}

// IsIdle reports that nothing is unflushed.
func (c *FlushController) IsIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.frozen) == 0 && len(c.held) == 0 && c.active.minSequence == 0
}

// Insert adds the shard's part of the batch if its memtables have room, else it returns ErrCapacityExceeded. The
// points have no sequence, so they are for tests and tools that keep no log.
func (c *FlushController) Insert(b *Batch) error {
	need := b.needs[c.shard]
	c.mu.Lock()
	if fill := c.fillLocked(); SealRequired(&fill, need) && fill.frozen >= fill.frozenMax {
		c.mu.Unlock()
		return ErrCapacityExceeded
	}
	m := c.reserveLocked(need, 0)
	c.mu.Unlock()
	return c.apply(m, b, need, 0)
}

// InsertWithWALSeq adds the shard's part of the batch to the active memtable unconditionally, as what is durable must
// be, and remembers the sequence.
func (c *FlushController) InsertWithWALSeq(b *Batch, sequence uint64) error {
	m := c.reserve(b.needs[c.shard], sequence)
	return c.apply(m, b, b.needs[c.shard], sequence)
}

// reserve takes room in the active memtable for rows that the sequence brings. apply must follow, or cancel.
func (c *FlushController) reserve(need usage, sequence uint64) *Memtable {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserveLocked(need, sequence)
}

func (c *FlushController) reserveLocked(need usage, sequence uint64) *Memtable {
	if invariants {
		c.mustFollowLocked(sequence)
	}
	m := c.active
	m.applies.Add(1)
	m.pending.add(need)
	if m.oldest.IsZero() {
		m.oldest = time.Now()
	}
	if m.minSequence == 0 || sequence < m.minSequence {
		m.minSequence = sequence
	}
	m.maxSequence = max(m.maxSequence, sequence)
	c.publishLocked()
	return m
}

// apply inserts the rows that reserve took room for; m may have been frozen since, but its flush waits for them.
func (c *FlushController) apply(m *Memtable, b *Batch, need usage, sequence uint64) error {
	return c.applyPart(m, b, need, sequence, nil)
}

// applyPart is apply for the measurements that takes says yes to; nil: all.
func (c *FlushController) applyPart(
	m *Memtable, b *Batch, need usage, sequence uint64, takes func(measurement string) bool,
) error {
	defer m.applies.Done()
	select {
	case <-m.flushed:
		return ErrFrozen
	default:
	}
	taken := m.insert(b, c.shard, sequence, takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	m.applied.add(taken)
	m.pending.subtract(need)
	c.unpinLocked(m)
	c.publishLocked()
	return nil
}

// cancel gives up rows whose frame the log failed to make durable. The engine flushes nothing from then on.
func (c *FlushController) cancel(m *Memtable, need usage) {
	defer m.applies.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	m.pending.subtract(need)
	c.publishLocked()
}

// ShouldFlush reports that not even the smallest row is sure to fit in the active memtable, or that its oldest row is
// older than the limit.
func (c *FlushController) ShouldFlush(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fill := c.fillLocked()
	return SealRequired(&fill, smallestNeed()) || c.agedLocked(now)
}

func (c *FlushController) agedLocked(now time.Time) bool {
	return !c.active.oldest.IsZero() && now.Sub(c.active.oldest) >= c.options.Memtable.MaxAge
}

// smallestNeed is what a row of one short series and one number takes in a table that exists.
func smallestNeed() usage {
	var need usage
	need.addRow(0, 0)
	need.addSeries(1, 0)
	need.addValues(segment.KindFloat, 1, 0)
	return need
}

// FreezeAndSwap makes the active memtable immutable and puts a fresh one in its place. An empty one takes no slot of
// the queue: SealNotNeeded. With a full queue it returns ErrFrozenQueueFull.
func (c *FlushController) FreezeAndSwap() (SealOutcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active.minSequence == 0 && c.active.usedLocked().rows == 0 {
		return SealNotNeeded, nil
	}
	if len(c.frozen) >= c.options.Memtable.FrozenMax {
		return SealBlocked, ErrFrozenQueueFull
	}
	c.rotateLocked(c.options.Memtable.MaxBytes)
	return Sealed, nil
}

// rotateLocked freezes the active memtable. maxBytes is the cap of the next one, at most Memtable.MaxBytes.
func (c *FlushController) rotateLocked(maxBytes int64) {
	old := c.active
	c.frozen = append(c.frozen, old)
	c.active = newMemtable(old.generation+1, maxBytes)
	c.publishLocked()
}

// MinUnflushedWALSeq returns the lowest sequence that is active, frozen, or between commit and apply; 0 when there is
// none.
func (c *FlushController) MinUnflushedWALSeq() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.minUnflushedLocked(nil)
}

// minUnflushedLocked leaves out one memtable, the one whose registration asks.
func (c *FlushController) minUnflushedLocked(except *Memtable) uint64 {
	lowest := c.active.minSequence
	for _, m := range c.frozen {
		if m != except && m.minSequence != 0 && (lowest == 0 || m.minSequence < lowest) {
			lowest = m.minSequence
		}
	}
	return lowest
}

// memtables returns the active memtable, the frozen and the held ones, newest first.
func (c *FlushController) memtables() []*Memtable {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.memtablesLocked()
	slices.Reverse(all)
	return all
}

// memtablesLocked returns all memtables, oldest first.
func (c *FlushController) memtablesLocked() []*Memtable {
	return append(slices.Concat(c.held, c.frozen), c.active)
}

// TotalMemory returns the bytes that the active, frozen and held memtables take, reservations included.
func (c *FlushController) TotalMemory() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := int64(0)
	for _, m := range c.memtablesLocked() {
		total += m.applied.memoryBytes + m.pending.memoryBytes
	}
	return total
}

// TotalInternerMemory returns the share of TotalMemory that the series keys and their index take.
func (c *FlushController) TotalInternerMemory() int64 {
	total := int64(0)
	for _, m := range c.memtables() {
		total += m.internerMemory()
	}
	return total
}

// MarshalLogObject logs the state of the shard.
func (c *FlushController) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	fill := c.Fill()
	enc.AddInt("shard", c.shard)
	enc.AddUint64("generation", fill.Generation)
	enc.AddInt64("active_rows", fill.active.rows)
	enc.AddInt64("active_bytes", fill.active.bytes())
	enc.AddInt("frozen", fill.frozen)
	return nil
}
