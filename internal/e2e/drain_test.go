package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

const (
	stuckRows    = 30_000 // of more than 200 bytes, which is more than the buffers of a connection hold
	stuckBody    = 2_500  // rows
	stuckTimeout = 24 * time.Second
)

// A client that takes nothing of its scan does not use up the time of a stop: the memtables are flushed, and the next
// start replays nothing. The time is less than the 30 s after which such a scan ends by itself, so that a stop that
// waits for it has none left for the flush, and fails.
func TestAStopDoesNotWaitForAStuckScan(t *testing.T) {
	outside(t)
	t.Parallel() // it sleeps
	dataDir := t.TempDir()
	s := start(t, dataDir, "shutdown.timeout="+stuckTimeout.String())
	for from := 0; from < stuckRows; from += stuckBody {
		var lines strings.Builder
		for n := from; n < from+stuckBody; n++ {
			fmt.Fprintf(&lines, "stuck,host=a text=\"%0200d\" %d\n", n, n+1)
		}
		s.write(t, "db", lines.String())
	}
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "GET /api/scan?db=db&measurement=stuck HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.stop(t) // its status is another one if the flush does not end in time
	next := start(t, dataDir)
	if got := next.status(t).Recovery; got.RowsReplayed != 0 {
		t.Errorf("the next start replayed %d rows", got.RowsReplayed)
	}
	if got := next.count(t, "db", "stuck"); got != stuckRows {
		t.Errorf("%d points, want %d", got, stuckRows)
	}
	next.stop(t)
}
