package shard

import (
	"errors"
	"fmt"
	"time"

	"lineweir/pagecache"
	"lineweir/wal"
)

// frameWrite is the type of a frame that holds the accepted points of one request.
const frameWrite byte = 1

// write is one batch on its way through the engine.
type write struct {
	batch   *Batch
	payload []byte
	parts   []part // the shards that it touches

	sequence uint64
	ticket   *wal.Ticket
	// done is closed when the gate has committed the write, or refused it with err, while it waited.
	done chan struct{}
	err  error
}

// part is what a write brings to one shard.
type part struct {
	shard    int
	need     usage
	memtable *Memtable // from commit on
}

func newWrite(b *Batch, payload []byte) *write {
	w := &write{batch: b, payload: payload, parts: make([]part, 0, len(b.needs))}
	for shard, need := range b.needs {
		if need.rows > 0 {
			w.parts = append(w.parts, part{shard: shard, need: need})
		}
	}
	return w
}

// sizeBytes is the memory that the write holds while it waits.
func (w *write) sizeBytes() int64 { return w.batch.SizeBytes() + int64(len(w.payload)) }

// needOf returns what the write needs of one shard, in bytes.
func (w *write) needOf(shard int) int64 {
	for i := range w.parts {
		if w.parts[i].shard == shard {
			return w.parts[i].need.bytes()
		}
	}
	return 0
}

// blockage tells why a write or a seal can't go now.
type blockage struct {
	cause string
	shard int
}

// tryCommitLocked commits the write if everything that it needs may be had, else nothing has changed. queued is true
// for a write that the gate takes from the head of a queue; others that need a seal stand behind those that wait.
func (e *Engine) tryCommitLocked(w *write, queued bool) (*blockage, error) {
	if refusal := e.state.refusal.Load(); refusal != nil {
		return nil, refusal
	}
	if err := e.checkSchema(w.batch); err != nil {
		return nil, err
	}
	if blocked, err := e.checkLog(w); blocked != nil || err != nil {
		return blocked, err
	}
	if blocked := e.sealForLocked(w, queued); blocked != nil {
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
func (e *Engine) sealForLocked(w *write, queued bool) *blockage {
	var sealing []*shardState
	var sizes []int64
	for _, p := range w.parts {
		s := e.allShards()[p.shard]
		fill := s.Fill()
		if !SealRequired(fill, p.need) {
			continue
		}
		if queued && e.olderBlocked(s) || !queued && (len(s.waiters) > 0 || e.othersBlocked(p.shard)) {
			return e.block(s, e.causeOf(fill))
		}
		if fill.frozen >= fill.frozenMax {
			return e.block(s, CauseFrozenFull)
		}
		if err := e.checkMemory(); err != nil {
			return e.block(s, CauseMemory)
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
		return &blockage{cause: CauseL0Full, shard: sealing[0].shard}
	}
	for i, s := range sealing {
		e.rotate(s, grants[i])
	}
	return nil
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
	s.rotateLocked()
	s.mu.Unlock()
	s.granted()
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
	if cause == CauseL0Full {
		e.tier.compactor.Poke()
	}
	return &blockage{cause: cause, shard: s.shard}
}

// want notes since when a seal is wanted. It takes no lock.
func (e *Engine) want(s *shardState) {
	if s.wanted.CompareAndSwap(0, time.Now().UnixNano()) {
		e.kick()
	}
}

// othersBlocked reports that another shard waits for a grant, which a newcomer must not overtake.
func (e *Engine) othersBlocked(shard int) bool {
	for i, s := range e.allShards() {
		if i != shard && s.waitsForTier() {
			return true
		}
	}
	return false
}

// olderBlocked reports that another shard has waited longer for a grant than s.
func (e *Engine) olderBlocked(s *shardState) bool {
	since := s.wanted.Load()
	for _, other := range e.allShards() {
		wanted := other.wanted.Load()
		if other != s && other.waitsForTier() && wanted != 0 && (since == 0 || wanted < since) {
			return true
		}
	}
	return false
}

// waitsForTier reports that the shard is blocked, and not by its own frozen memtables.
func (s *shardState) waitsForTier() bool {
	fill := s.Fill()
	return s.blocked.Load() && fill.frozen < fill.frozenMax
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
		if c := e.allShards()[shard].Fill().caps; need.rows > 0 && exceeds(need, c) {
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
	return fmt.Sprintf("the write needs a seal of shard %d (%d of %d bytes, %d frozen memtables);"+
		" the L0 tier holds %d bytes and %d reserved of %d, and drains %.0f bytes/s",
		b.shard, fill.active.bytes(), fill.caps.bytes, fill.frozen,
		ledger.RegisteredBytes, ledger.ReservedBytes, ledger.CapacityBytes, ledger.DrainBytesPerSecond)
}

func (e *Engine) logDetail() string {
	return fmt.Sprintf("the write-ahead log holds %d of %d bytes; flushes let it be trimmed",
		e.log.Stats().Bytes, e.options.WAL.MaxBytes)
}
