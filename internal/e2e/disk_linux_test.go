package e2e

import (
	"math/rand/v2"
	"sync"
	"syscall"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 4096

// disk is a disk with a volatile cache: what was written and not flushed is lost when its power is cut, all of it or a
// random part of its sectors. After the cut it fails every request of before; what is left of it is a new epoch.
type disk struct {
	sizeBytes int64

	mu       sync.Mutex
	epoch    int
	durable  map[int64][]byte // sectors by number; one that is missing holds zeros
	volatile map[int64][]byte // the newest content of sectors that wait for a flush
	pending  []sectorWrite    // every write of a sector since the last flush, in order
	lies     bool             // flushes are answered and do nothing
	plan     *cutPlan         // nil: none
	state    diskState
}

type sectorWrite struct {
	sector  int64
	content []byte
}

// cutPlan cuts the power at a request to come: the first one behind Requests others that finds so many sectors
// written and not flushed, or any at all if there are that many only much later.
type cutPlan struct {
	Requests  int     `json:"requests"`
	Unflushed int     `json:"unflushed"`
	Keep      float64 `json:"keep"` // the chance that a written and not flushed sector survives
	Seed      uint64  `json:"seed"`
}

// cutPatience is how many requests a cut waits for the number of unflushed sectors that it wants.
const cutPatience = 200

// diskState is what a disk tells of itself.
type diskState struct {
	Epoch     int `json:"epoch"`     // cuts so far
	Flushes   int `json:"flushes"`   // all in all
	Writes    int `json:"writes"`    // all in all
	Unflushed int `json:"unflushed"` // sector writes that were not flushed at the last cut
	Lost      int `json:"lost"`      // those of them that were lost

	Injected map[string]int `json:"injected,omitempty"` // faults by kind, of a file system that passes requests on
}

func newDisk(sizeBytes int64) *disk {
	return &disk{sizeBytes: sizeBytes, durable: map[int64][]byte{}, volatile: map[int64][]byte{}}
}

// read fills the buffer as far as the disk reaches.
func (d *disk) read(epoch int, buffer []byte, offset int64) (int, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != d.epoch {
		return 0, syscall.EIO
	}
	buffer = buffer[:max(0, min(int64(len(buffer)), d.sizeBytes-offset))]
	for done := 0; done < len(buffer); {
		at := offset + int64(done)
		n := min(len(buffer)-done, int(sectorBytes-at%sectorBytes))
		piece := buffer[done : done+n]
		clear(piece)
		if content := d.sectorLocked(at / sectorBytes); content != nil {
			copy(piece, content[at%sectorBytes:])
		}
		done += n
	}
	return len(buffer), 0
}

func (d *disk) sectorLocked(sector int64) []byte {
	if content := d.volatile[sector]; content != nil {
		return content
	}
	return d.durable[sector]
}

func (d *disk) write(epoch int, data []byte, offset int64) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requestFailsLocked(epoch) {
		return syscall.EIO
	}
	if offset+int64(len(data)) > d.sizeBytes {
		return syscall.ENOSPC
	}
	d.state.Writes++
	for len(data) > 0 {
		sector := offset / sectorBytes
		content := make([]byte, sectorBytes)
		copy(content, d.sectorLocked(sector))
		n := copy(content[offset%sectorBytes:], data)
		d.volatile[sector] = content
		d.pending = append(d.pending, sectorWrite{sector, content})
		data, offset = data[n:], offset+int64(n)
	}
	return 0
}

// flush makes durable whatever was written.
func (d *disk) flush(epoch int) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requestFailsLocked(epoch) {
		return syscall.EIO
	}
	d.state.Flushes++
	if d.lies {
		return 0
	}
	for sector, content := range d.volatile {
		d.durable[sector] = content
	}
	d.forgetLocked()
	return 0
}

func (d *disk) forgetLocked() {
	clear(d.volatile)
	d.pending = nil
}

// requestFailsLocked counts a request down to the cut that is planned.
func (d *disk) requestFailsLocked(epoch int) bool {
	if epoch != d.epoch {
		return true
	}
	if d.plan == nil {
		return false
	}
	d.plan.Requests--
	enough := len(d.pending) >= d.plan.Unflushed || d.plan.Requests < -cutPatience && len(d.pending) > 0
	if d.plan.Requests >= 0 || !enough {
		return false
	}
	d.cutLocked(d.plan.Keep, d.plan.Seed)
	return true
}

// cut takes the power away now.
func (d *disk) cut(keep float64, seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutLocked(keep, seed)
}

// cutLocked lets each written and not flushed sector survive by chance. Of several writes of a sector an older one can
// be the survivor; a newer one is never overwritten by it.
func (d *disk) cutLocked(keep float64, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	d.state.Unflushed, d.state.Lost = len(d.pending), 0
	for _, w := range d.pending {
		if random.Float64() < keep {
			d.durable[w.sector] = w.content
		} else {
			d.state.Lost++
		}
	}
	d.forgetLocked()
	d.epoch++
	d.lies, d.plan = false, nil
}

func (d *disk) arm(plan cutPlan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan = &plan
}

func (d *disk) lie() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = true
}

func (d *disk) look() diskState {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.state
	state.Epoch = d.epoch
	return state
}
