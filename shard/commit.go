package shard

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"lineweir/pagecache"
	"lineweir/wal"
)

// frameWrite is the type of a frame that holds the accepted points of one request.
const frameWrite byte = 1

// write is one batch on its way through the engine.
type write struct {
	client  string
	batch   *Batch
	payload []byte
	parts   []part // the shards that it touches
	since   time.Time

	sequence uint64
	ticket   *wal.Ticket
	// place is that in the line, blocked what it waits for there. done is closed when the gate has committed the write,
	// or refused it with err.
	place   *pagecache.Place
	blocked atomic.Pointer[blockage]
	done    chan struct{}
	err     error
}

// part is what a write brings to one shard.
type part struct {
	shard    int
	need     usage
	memtable *Memtable // from commit on
}

func newWrite(b *Batch, payload []byte) *write {
	w := &write{
		client: b.Client, batch: b, payload: payload, parts: make([]part, 0, len(b.needs)), since: time.Now(),
	}
	for shard, need := range b.needs {
		if need.rows > 0 {
			w.parts = append(w.parts, part{shard: shard, need: need})
		}
	}
	return w
}

// sizeBytes is the memory that the write holds while it waits.
func (w *write) sizeBytes() int64 { return w.batch.SizeBytes() + int64(len(w.payload)) }

// needBytes is what the write needs in memtables.
func (w *write) needBytes() int64 {
	sum := int64(0)
	for i := range w.parts {
		sum += w.parts[i].need.bytes()
	}
	return sum
}

// blockage tells why a write or a seal can't go now.
type blockage struct {
	cause string
	shard int
}

// tryCommitLocked commits the write if everything that it needs may be had, else nothing has changed. p is set for a
// write that the gate takes from the line; another that needs a seal stands behind those that wait.
func (e *Engine) tryCommitLocked(w *write, p *pump) (*blockage, error) {
	if refusal := e.state.refusal.Load(); refusal != nil {
		return nil, refusal
	}
	if err := e.checkSchema(w.batch); err != nil {
		return nil, err
	}
	if blocked, err := e.checkLog(w); blocked != nil || err != nil {
		return blocked, err
	}
	if blocked := e.sealForLocked(w, p); blocked != nil {
		return blocked, nil
	}
	e.registerSchema(w.batch)
	e.sequence++
	w.sequence = e.sequence
	for i := range w.parts {
		p := &w.parts[i]
		p.memtable = e.allShards()[p.shard].reserve(p.need, w.sequence)
	}
	w.ticket = e.log.Append(wal.Frame{Sequence: w.sequence, Type: frameWrite, Payload: w.payload})
	return nil, nil
}

// checkSchema returns ErrSchemaChanged when a column that the batch adds was registered with another kind meanwhile, or
// when something was dropped: the batch may count on columns that are gone.
func (e *Engine) checkSchema(b *Batch) error {
	if b.drops != e.schema.drops.Load() {
		return ErrSchemaChanged
	}
	columnsMax := e.options.Limits.ColumnsPerMeasurement
	for _, m := range b.order {
		if len(m.added) > 0 && e.schema.conflicts(tableKey{b.database, m.name}, m.added, columnsMax) {
			return ErrSchemaChanged
		}
	}
	return nil
}

// checkLog asks for room in the log. A full one is blocked as a full tier is: flushes make room.
func (e *Engine) checkLog(w *write) (*blockage, error) {
	err := e.log.Room(int64(len(w.payload)))
	switch {
	case err == nil:
		return nil, nil
	case errors.Is(err, wal.ErrFull):
		e.wantPinning()
		return &blockage{cause: CauseWALFull, shard: w.parts[0].shard}, nil
	case errors.Is(err, wal.ErrFrameTooLarge):
		return nil, &TooLargeError{
			Points: w.batch.points, Rows: w.batch.points, SizeBytes: int64(len(w.payload)),
			MaxBytes: min(e.options.WAL.MaxBytes/2, wal.MaxPayloadBytes), Log: true,
		}
	case errors.Is(err, wal.ErrDiskLow):
		return nil, e.refusal(CauseDiskLow, err.Error())
	default:
		return nil, e.refusal(CauseReadOnly, err.Error())
	}
}

// registerSchema adds the batch's new columns.
func (e *Engine) registerSchema(b *Batch) {
	for _, m := range b.order {
		if len(m.added) > 0 {
			e.schema.register(tableKey{b.database, m.name}, m.added)
		}
	}
}

// sealForLocked seals the shards in which the write does not fit, all or none.
func (e *Engine) sealForLocked(w *write, p *pump) *blockage {
	var sealing []*shardState
	var sizes []int64
	for _, part := range w.parts {
		s := e.allShards()[part.shard]
		fill := s.Fill()
		if !SealRequired(fill, part.need) {
			continue
		}
		if cause := e.obstacle(s, p); cause != "" {
			return e.block(s, cause)
		}
		sealing, sizes = append(sealing, s), append(sizes, fill.active.bytes())
	}
	if len(sealing) == 0 {
		return nil
	}
	grants, ok := e.reserve(sizes)
	if !ok {
		for _, s := range sealing {
			e.block(s, CauseL0Full)
		}
		e.tier.compactor.Poke()
		p.shut(e, sizes)
		return &blockage{cause: CauseL0Full, shard: sealing[0].shard}
	}
	for i, s := range sealing {
		e.rotate(s, grants[i])
	}
	return nil
}

// obstacle names what keeps a shard from being sealed, before the tier is asked.
func (e *Engine) obstacle(s *shardState, p *pump) string {
	fill := s.Fill()
	switch {
	case fill.frozen >= fill.frozenMax:
		return CauseFrozenFull
	case p != nil && p.tierShut, p == nil && (len(e.waiters) > 0 || e.othersWait(s)):
		return CauseL0Full
	case e.checkMemory() != nil:
		return CauseMemory
	default:
		return ""
	}
}

// othersWait reports that another shard waits for a grant, which a newcomer must not overtake.
func (e *Engine) othersWait(s *shardState) bool {
	for _, other := range e.allShards() {
		if fill := other.Fill(); other != s && other.blocked.Load() && fill.frozen < fill.frozenMax {
			return true
		}
	}
	return false
}

// shut notes that the tier has no room for seals of those sizes.
func (p *pump) shut(e *Engine, sizes []int64) {
	if p == nil {
		return
	}
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	p.tierShut = true
	p.next = min(p.next, e.nextGrant(total))
}

// checkMemory returns an error while the memtables of all shards together have reached their bound.
func (e *Engine) checkMemory() error {
	used := int64(0)
	for _, s := range e.allShards() {
		used += s.TotalMemory()
	}
	if err := e.tier.controller.CheckCapacity(used, e.memtablesMaxBytes()); errors.Is(err, pagecache.ErrMemoryFull) {
		return err
	}
	return nil
}

// reserve takes the sum of the sizes from the tier in one step, as one reservation for each.
func (e *Engine) reserve(sizes []int64) ([]*pagecache.Reservation, bool) {
	total := int64(0)
	for _, size := range sizes {
		total += size
	}
	whole, ok := e.tier.gate.Reserve(total)
	if !ok {
		return nil, false
	}
	grants := make([]*pagecache.Reservation, len(sizes))
	for i, size := range sizes[1:] {
		grants[i+1] = whole.Split(size)
	}
	grants[0] = whole
	return grants, true
}

// rotate seals a shard whose flush has its reservation.
func (e *Engine) rotate(s *shardState, grant *pagecache.Reservation) {
	s.mu.Lock()
	s.active.reservation = grant
	s.rotateLocked(e.nextCap())
	s.mu.Unlock()
	s.granted()
}

// nextCap is the cap of the memtable that a rotation makes.
func (e *Engine) nextCap() int64 {
	if e.recovery.running.Load() {
		return e.options.Memtable.MaxBytes // nobody waits, and everything is to be flushed
	}
	return e.tier.controller.Grain(e.options.Memtable.MaxBytes)
}

// granted forgets that a seal was wanted, and wakes the flush.
func (s *shardState) granted() {
	s.forget()
	s.flush.signal()
}

// forget takes a wish back. What follows from it goes last, see block.
func (s *shardState) forget() {
	s.wanted.Store(0)
	s.blocked.Store(false)
	s.holding.Store(false)
}

// block notes that a seal is wanted and could not be had. It takes no lock, and a grant may come meanwhile. So the wish
// is noted last: a shard that stayed blocked without a wish would be left alone until a writer filled it, while bodies
// are refused unread.
func (e *Engine) block(s *shardState, cause string) *blockage {
	s.blocked.Store(true)
	s.holding.Store(true)
	e.want(s)
	return &blockage{cause: cause, shard: s.shard}
}

// want notes since when a seal is wanted. It takes no lock.
func (e *Engine) want(s *shardState) {
	if s.wanted.CompareAndSwap(0, time.Now().UnixNano()) {
		e.kick()
	}
}

// causeOf names what a seal of a shard with that fill waits for.
func (e *Engine) causeOf(fill *Fill) string {
	if fill.frozen >= fill.frozenMax {
		return CauseFrozenFull
	}
	return CauseL0Full
}

// tooLarge returns a *TooLargeError when a part of the write does not fit even in an empty memtable, and
// ErrSchemaChanged for one that was not made for the shards of now.
func (e *Engine) tooLarge(b *Batch) error {
	if len(b.needs) != len(e.allShards()) {
		return ErrSchemaChanged // made before a recovery changed the number of shards
	}
	for shard, need := range b.needs {
		if c := e.allShards()[shard].largestCaps(); need.rows > 0 && exceeds(need, c) {
			return &TooLargeError{
				Points: b.points, SizeBytes: need.bytes(), MaxBytes: c.bytes, Rows: int(need.rows), MaxRows: int(c.rows),
			}
		}
	}
	return nil
}

// detail is what an operator reads of the blockage.
func (b *blockage) detail(e *Engine) string {
	if b.cause == CauseWALFull {
		return e.logDetail()
	}
	ledger := e.tier.controller.Ledger()
	fill := e.allShards()[b.shard].Fill()
	drain := fmt.Sprintf("drains %.0f bytes/s", ledger.DrainBytesPerSecond)
	if ledger.Paused {
		drain = "compaction is paused"
	}
	return fmt.Sprintf("the write needs a seal of shard %d (%d of %d bytes, %d frozen memtables);"+
		" the L0 tier holds %d bytes and %d reserved of %d, and %s",
		b.shard, fill.active.bytes(), fill.caps.bytes, fill.frozen,
		ledger.RegisteredBytes, ledger.ReservedBytes, ledger.CapacityBytes, drain)
}

func (e *Engine) logDetail() string {
	return fmt.Sprintf("the write-ahead log holds %d of %d bytes; flushes let it be trimmed",
		e.log.Stats().Bytes, e.options.WAL.MaxBytes)
}
