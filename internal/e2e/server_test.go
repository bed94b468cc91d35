package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	readyLimit = 3 * time.Minute // for a start, with its recovery
	stopLimit  = 3 * time.Minute // well above the standard shutdown.timeout
	sendLimit  = 3 * time.Minute // for one request, which only a server that hangs exceeds
)

// anyPort is the address of a server that chooses a free port, which no other process can take before it does.
const anyPort = "127.0.0.1:0"

// server is one run of the lineweir binary.
type server struct {
	*process
	address   string
	dataDir   string
	client    *http.Client
	authority string // path of the certificate of who signed the server's, PEM; "" without TLS
	token     string // what its own requests are sent with; "" for none
}

// url is where clients find the server.
func (s *server) url() string {
	if s.authority != "" {
		return "https://" + s.address
	}
	return "http://" + s.address
}

// start runs lineweir with the settings, each key=value, and returns when it is ready.
func start(t *testing.T, dataDir string, settings ...string) *server {
	t.Helper()
	s := launch(t, anyPort, dataDir, settings...)
	s.awaitReady(t)
	return s
}

// launch runs lineweir and does not wait for it.
func launch(t *testing.T, address, dataDir string, settings ...string) *server {
	t.Helper()
	path, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	return launchBinary(t, path, address, dataDir, settings...)
}

// launchBinary is launch for another build of lineweir.
func launchBinary(t *testing.T, path, address, dataDir string, settings ...string) *server {
	t.Helper()
	cmd := exec.Command(path)
	for _, setting := range settings {
		cmd.Args = append(cmd.Args, "--set", setting)
	}
	cmd.Dir = t.TempDir() // a config.yaml of the working directory would be read
	cmd.Env = append(foreignEnvironment(), "LINEWEIR_HTTP_LISTEN="+address, "LINEWEIR_DATA_DIR="+dataDir)
	s := &server{
		address: address, dataDir: dataDir, client: &http.Client{Transport: &http.Transport{}, Timeout: sendLimit},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	s.process = startProcess(t, cmd)
	if address == anyPort {
		s.findAddress(t)
	}
	return s
}

// findAddress reads the address from the first line of the server's log. One that ends without it has none.
func (s *server) findAddress(t *testing.T) {
	t.Helper()
	pattern := regexp.MustCompile(`"url":"https?://([^"]+)"`)
	eventually(t, readyLimit, "lineweir logs its address", func() bool {
		gone := !s.running()
		if match := pattern.FindStringSubmatch(s.printed(t)); match != nil {
			s.address = match[1]
			return true
		}
		return gone
	})
}

// foreignEnvironment is the environment without settings of a lineweir that the developer may have.
func foreignEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "LINEWEIR_") })
}

// freeAddress returns a loopback address that nobody listened on a moment ago. Where the system has more than one, it is
// one that no other process uses, so that its port stays free between two servers.
func freeAddress(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+pid>>16%254, pid>>8&0xff, 1+pid%254))
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (s *server) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, readyLimit, "lineweir is ready", func() bool {
		if !s.running() {
			t.Fatalf("lineweir exited with status %d before it was ready", s.cmd.ProcessState.ExitCode())
		}
		got, err := s.send(t.Context(), http.MethodGet, "/ready", "")
		return err == nil && got.status == http.StatusOK
	})
}

// stop drains the server as an operator does.
func (s *server) stop(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
	if code := s.wait(t, stopLimit); code != 0 {
		t.Fatalf("lineweir exited with status %d after SIGTERM, want 0", code)
	}
}

// answer is what the server said to one request.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes one request. Its error is of the transport; every status is an answer.
func (s *server) send(ctx context.Context, method, path, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url()+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Token "+s.token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: string(text)}, err
}

// must makes one request that has to be answered with the status.
func (s *server) must(t *testing.T, method, path, body string, status int) answer {
	t.Helper()
	got, err := s.send(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	if got.status != status {
		t.Fatalf("%s %s was answered %d, want %d: %s", method, path, got.status, status, got.body)
	}
	return got
}

func (s *server) write(t *testing.T, database, lines string) {
	t.Helper()
	s.must(t, http.MethodPost, "/write?db="+database, lines, http.StatusNoContent)
}

// drain pauses compaction or lets it go on.
func (s *server) drain(t *testing.T, paused bool) {
	t.Helper()
	body := `{"paused":false}`
	if paused {
		body = `{"paused":true}`
	}
	if got, err := s.send(t.Context(), http.MethodPut, "/api/compaction", body); err != nil || got.status >= 300 {
		t.Fatalf("PUT /api/compaction %s: %d %s %v", body, got.status, got.body, err)
	}
}

// seal moves all that is in memory into L0 segments.
func (s *server) seal(t *testing.T) {
	t.Helper()
	if got, err := s.send(t.Context(), http.MethodPost, "/api/seal?wait=true", ""); err != nil || got.status >= 300 {
		t.Fatalf("POST /api/seal: %d %s %v", got.status, got.body, err)
	}
}

// scan returns the points of a measurement and fails the test if one comes twice.
func (s *server) scan(t *testing.T, database, measurement string) points {
	t.Helper()
	query := url.Values{"db": {database}, "measurement": {measurement}, "format": {"lp"}}
	text := s.must(t, http.MethodGet, "/api/scan?"+query.Encode(), "", http.StatusOK).body
	got, err := parsePoints(text)
	if err != nil {
		t.Fatalf("scan of %s.%s: %v", database, measurement, err)
	}
	return got
}

// count returns how many points a measurement has; one that doesn't exist has none.
func (s *server) count(t *testing.T, database, measurement string) int {
	t.Helper()
	query := url.Values{"db": {database}, "measurement": {measurement}, "format": {"count"}}
	var counted struct {
		Points int `json:"points"`
	}
	decode(t, s.must(t, http.MethodGet, "/api/scan?"+query.Encode(), "", http.StatusOK).body, &counted)
	return counted.Points
}

// status is the part of /api/status that the tests judge by.
type status struct {
	Tier struct {
		CapacityBytes int64 `json:"capacity_bytes"`
		HighestBytes  int64 `json:"highest_bytes"`
		ForcedBytes   int64 `json:"forced_bytes"`
		Segments      int   `json:"segments"`
	} `json:"tier"`
	Recovery struct {
		FramesReplayed int64 `json:"frames_replayed"`
		RowsReplayed   int64 `json:"rows_replayed"`
	} `json:"recovery"`
	Admission struct {
		Refused map[string]int64 `json:"refused"` // by cause
	} `json:"admission"`
	Shards []struct {
		FlushFailures int64 `json:"flush_failures"`
	} `json:"shards"`
	Drain struct {
		Failures   int64 `json:"failures"`
		L1Segments int   `json:"l1_segments"`
	} `json:"compaction"`
}

func (s status) flushFailures() int64 {
	var sum int64
	for _, shard := range s.Shards {
		sum += shard.FlushFailures
	}
	return sum
}

func (s *server) status(t *testing.T) status {
	t.Helper()
	var got status
	decode(t, s.must(t, http.MethodGet, "/api/status", "", http.StatusOK).body, &got)
	return got
}

// segments is the number of live segments.
func (s status) segments() int { return s.Tier.Segments + s.Drain.L1Segments }

// refused is the number of writes that were refused for whatever cause.
func (s status) refused() int64 {
	var sum int64
	for _, count := range s.Admission.Refused {
		sum += count
	}
	return sum
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// files returns the paths below the parts of the data directory, for instance l0 and l1.
func (s *server) files(t *testing.T, parts ...string) []string {
	t.Helper()
	var paths []string
	for _, part := range parts {
		err := filepath.WalkDir(filepath.Join(s.dataDir, part), func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return paths
}
