package e2e

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

const (
	stuckRows      = 200
	stuckBody      = 10     // rows; one fits a memtable however many shards there are
	stuckTextBytes = 50_000 // so that the answer to a scan of all rows is far larger than what sockets hold
)

// stuckClients writes rows and leaves two requests that never end: a scan whose answer nobody takes, and a write whose
// body stops.
func (s *server) stuckClients(t *testing.T) {
	t.Helper()
	for from := 0; from < stuckRows; from += stuckBody {
		var lines strings.Builder
		for n := from; n < from+stuckBody; n++ {
			fmt.Fprintf(&lines, "stuck,host=a text=\"%0*d\" %d\n", stuckTextBytes, n, n+1)
		}
		s.write(t, "db", lines.String())
	}
	for _, request := range []string{
		"GET /api/scan?db=db&measurement=stuck HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /write?db=db HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(conn, request); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the handler is at work
			t.Fatal(err)
		}
		if strings.HasPrefix(request, "POST") {
			fmt.Fprint(conn, "stuck,host=b text=\"half\" 1\nstuck,ho")
		}
	}
}

// A client that takes nothing of its scan, or sends half a body, does not use up the time of a stop: the memtables are
// flushed, and the next start replays nothing. The bodies that stopped leave nothing.
func TestAStopDoesNotWaitForStuckClients(t *testing.T) {
	outside(t)
	t.Parallel() // it sleeps
	dataDir := t.TempDir()
	s := start(t, dataDir, "shutdown.timeout=20s")
	s.stuckClients(t)
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t, stopLimit); code != 0 { // it is another one if the flush does not end in time
		t.Errorf("exit status %d after SIGTERM, want 0", code)
	}
	next := start(t, dataDir)
	if got := next.status(t).Recovery; got.RowsReplayed != 0 {
		t.Errorf("the next start replayed %d rows", got.RowsReplayed)
	}
	if got := next.count(t, "db", "stuck"); got != stuckRows {
		t.Errorf("%d points, want %d", got, stuckRows)
	}
	next.stop(t)
}
