package shard

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"lineweir/pagecache"
)

// lowGate grants less than is asked for.
type lowGate struct {
	controller atomic.Pointer[pagecache.Controller]
	lowBytes   int64
}

func (g *lowGate) MaySeal(sizeBytes int64) bool { return g.controller.Load().MaySeal(sizeBytes) }

func (g *lowGate) Reserve(sizeBytes int64) (*pagecache.Reservation, bool) {
	return g.controller.Load().Reserve(max(0, sizeBytes-g.lowBytes))
}

// The proof that over_reservations counts what it should, and so that tests which want it to be 0 can fail: where the
// cost of a flush leaves out one row, of those with a long string, the flush is found to be larger than its reservation;
// where it leaves out none, it is not.
func TestACostThatIsTooLowIsNoticed(t *testing.T) {
	const rowBytes = 40_000 // of the 256 KiB that a memtable holds
	for _, rows := range []int64{0, 1} {
		gate := &lowGate{lowBytes: rows * rowBytes}
		o := testOptions(t.TempDir())
		o.Gate = gate
		o.Admission.MaxWait = hangs // for a flush, on a slow disk
		e := start(t, o)
		gate.controller.Store(e.tier.controller)
		for n := range int64(20) { // the tier has room for them
			p := at(fmt.Sprint(n%3), n, n)
			p.Fields["text"] = strings.Repeat("x", rowBytes)
			mustPut(t, e, p)
		}
		eventually(t, "a flush of a seal that was granted", func() bool {
			return e.tier.controller.Ledger().RegisteredBytes > 0 || e.store.Level(1).Rows > 0
		})
		ledger := e.tier.controller.Ledger()
		if (ledger.OverReservations > 0) != (rows > 0) || ledger.ForcedCount > 0 && rows == 0 {
			t.Errorf("with %d rows left out: %+v", rows, ledger)
		}
	}
}
