package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestScansAreBoundedAndWritesGoOn lets clients ask for scans that they don't take, until the memory of reads is used.
// The next scan is refused with a cause and a time; writes are taken, and when the clients have left, so are scans. With
// more memory none of these scans is refused.
func TestScansAreBoundedAndWritesGoOn(t *testing.T) {
	const most = 60
	bounded := stalledScans(t, "16MiB", most)
	if bounded < 2 || bounded >= most {
		t.Fatalf("%d scans are open at once in 16 MiB, want some", bounded)
	}
	if open := stalledScans(t, "1GiB", bounded+5); open != bounded+5 {
		t.Errorf("%d scans are open at once in 1 GiB, want %d", open, bounded+5)
	}
}

// stalledScans opens scans that nobody takes until one is refused, at most so many, and returns their number.
func stalledScans(t *testing.T, readBytes string, most int) (open int) {
	t.Helper()
	s := start(t, t.TempDir(), "http.read_bytes="+readBytes, "memtable.max_age=1h")
	const rows = 100_000
	for from := 0; from < rows; from += 20_000 {
		var lines strings.Builder
		for i := from; i < from+20_000; i++ {
			fmt.Fprintf(&lines, "m,s=%d a_field_whose_name_is_so_long_that_the_answer_is_much_longer_than_all_buffers_of_the_"+
				"operating_system_between_a_server_and_a_client_who_does_not_read_what_it_has_asked_for=1i %d\n", i%100, i)
		}
		s.write(t, "d", lines.String())
	}
	var stalled []net.Conn
	defer func() {
		for _, c := range stalled {
			_ = c.Close()
		}
	}()
	for open < most && !s.refusesScan(t) {
		stalled = append(stalled, s.stall(t, "/api/scan?db=d&measurement=m"))
		open++
	}
	for range 20 {
		s.write(t, "d", "other v=1i")
	}
	for _, c := range stalled {
		_ = c.Close()
	}
	eventually(t, 2*time.Minute, "the memory of the scans is free", func() bool { return s.readBytes(t) == 0 })
	if s.refusesScan(t) {
		t.Error("a scan is refused when the others have ended")
	}
	s.stop(t)
	return open
}

// refusesScan tells whether one more scan is refused, and checks how.
func (s *server) refusesScan(t *testing.T) bool {
	t.Helper()
	answer, err := s.send(t.Context(), http.MethodGet, "/api/scan?db=d&measurement=m&format=count", "")
	if err != nil {
		t.Fatal(err)
	}
	if answer.status == http.StatusOK {
		return false
	}
	var told struct {
		Error, Cause string
		Seconds      int `json:"retry_after_seconds"`
	}
	decode(t, answer.body, &told)
	seconds, err := strconv.Atoi(answer.header.Get("Retry-After"))
	if answer.status != http.StatusServiceUnavailable || told.Cause != "reads" || err != nil || seconds < 1 ||
		seconds != told.Seconds {
		t.Fatalf("got %d %v %s", answer.status, answer.header, answer.body)
	}
	return true
}

// stall asks for something, and takes no more of the answer than its first byte.
func (s *server) stall(t *testing.T, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c
}

// readBytes is what reads take now.
func (s *server) readBytes(t *testing.T) int64 {
	t.Helper()
	var status struct {
		Reads struct{ Bytes int64 }
	}
	decode(t, s.must(t, http.MethodGet, "/api/status", "", http.StatusOK).body, &status)
	return status.Reads.Bytes
}
