package e2e

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A client that takes nothing of its scan does not use up the time of a stop: the memtables are flushed, and the next
// start replays nothing.
func TestAStopDoesNotWaitForAStuckScan(t *testing.T) {
	dataDir := t.TempDir()
	s := start(t, dataDir, "shutdown.timeout=6s")
	const rows = 100_000
	var lines strings.Builder
	for n := range rows {
		fmt.Fprintf(&lines, "stuck,host=a text=\"%0200d\" %d\n", n, n+1)
	}
	s.write(t, "db", lines.String())
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "GET /api/scan?db=db&measurement=stuck HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t, stopLimit); code != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", code)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("the stop took %s", took)
	}
	next := start(t, dataDir)
	if got := next.status(t).Recovery; got.RowsReplayed != 0 {
		t.Errorf("the next start replayed %d rows", got.RowsReplayed)
	}
	if got := next.count(t, "db", "stuck"); got != rows {
		t.Errorf("%d points, want %d", got, rows)
	}
	next.stop(t)
}
