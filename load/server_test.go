package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// storingServer keeps the lines that are written to it and answers scans, as lineweir does.
type storingServer struct {
	*httptest.Server

	// write sees a request first. It returns 204 for a body that is to be stored, or answers by itself; nil: 204.
	write func(w http.ResponseWriter, r *http.Request, number int) int
	// scan changes the lines of an answer; nil: nothing is changed.
	scan func(lines []string) []string

	busy    atomic.Int32 // how many scans are refused for now
	mu      sync.Mutex
	lines   []string
	writes  int
	sources map[string]bool
	status  serverStatus
}

func newStoringServer(t *testing.T) *storingServer {
	t.Helper()
	s := &storingServer{sources: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Influxdb-Version", "1.8.10-lineweir-test")
		w.Header().Set("X-Influxdb-Build", "lineweir")
	})
	mux.HandleFunc("/write", s.handleWrite)
	mux.HandleFunc("/api/scan", s.handleScan)
	mux.HandleFunc("/api/status", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.status)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *storingServer) handleWrite(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.writes++
	number := s.writes
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		s.sources[host] = true
	}
	s.mu.Unlock()
	status := http.StatusNoContent
	if s.write != nil {
		status = s.write(w, r, number)
	}
	if status == http.StatusNoContent {
		s.store(readBody(r))
		w.WriteHeader(status)
	}
}

func readBody(r *http.Request) []byte {
	source := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		decoder, err := gzip.NewReader(r.Body)
		if err != nil {
			panic(err)
		}
		source = decoder
	}
	text, err := io.ReadAll(source)
	if err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	return text
}

func (s *storingServer) store(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
}

func (s *storingServer) stored() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

func (s *storingServer) handleScan(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	start, err1 := strconv.ParseInt(query.Get("start"), 10, 64)
	stop, err2 := strconv.ParseInt(query.Get("stop"), 10, 64)
	if err1 != nil || err2 != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	lines := slices.Clone(s.lines)
	s.mu.Unlock()
	if s.busy.Add(-1) >= 0 {
		refuse(w, 1)
		return
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		at, err := strconv.ParseInt(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
		name := line[:strings.IndexAny(line, ", ")]
		return err != nil || at < start || at >= stop || name != query.Get("measurement")
	})
	if s.scan != nil {
		lines = s.scan(lines)
	}
	if query.Get("format") == "count" {
		fmt.Fprintf(w, `{"points":%d,"values":1}`, len(lines))
		return
	}
	out := bufio.NewWriter(w)
	for _, line := range lines {
		out.WriteString(line + "\n")
	}
	_ = out.Flush()
}

// refuse answers as lineweir does when it is full.
func refuse(w http.ResponseWriter, seconds int) int {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w, `{"error":"refused for now: the tier is full","cause":"l0_full","retry_after_seconds":%d}`, seconds)
	return http.StatusServiceUnavailable
}
