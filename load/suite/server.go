package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits of what a server may take: far above what it needs, so that only a hang exceeds them.
const (
	startLimit = time.Minute
	stopLimit  = time.Minute
	askLimit   = 30 * time.Second
)

// settings configure a server.
type settings struct {
	keys        []string // each key=value, as --set takes it
	memoryLimit int64    // GOMEMLIMIT; 0: the server's own choice
}

// server is one run of the binary. It is stopped by its process id.
type server struct {
	binary string
	dir    string // of its own: data and what it prints
	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd.ProcessState is set
	url    string
	client *http.Client
}

// startServer runs the binary with an empty data directory below root, and returns when it is ready.
func startServer(ctx context.Context, binary, root string, s settings) (*server, error) {
	dir, err := os.MkdirTemp(root, "server-*")
	if err != nil {
		return nil, err
	}
	started := &server{
		binary: binary, dir: dir, exited: make(chan struct{}), client: &http.Client{Transport: &http.Transport{}},
	}
	if err := started.launch(s); err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), os.RemoveAll(dir))
	}
	if err := started.awaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), started.stop())
	}
	return started, nil
}

func (s *server) launch(settings settings) error {
	output, err := os.Create(s.outputPath())
	if err != nil {
		return err
	}
	defer output.Close()
	s.cmd = exec.Command(s.binary, "--listen", "127.0.0.1:0", "--data-dir", s.dataDir())
	for _, setting := range settings.keys {
		s.cmd.Args = append(s.cmd.Args, "--set", setting)
	}
	s.cmd.Dir = s.dir // a config.yaml of the working directory would be read
	s.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LINEWEIR_") })
	if settings.memoryLimit > 0 {
		s.cmd.Env = append(s.cmd.Env, fmt.Sprintf("GOMEMLIMIT=%d", settings.memoryLimit))
	}
	s.cmd.Stdout, s.cmd.Stderr = output, output
	dieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // how it ended is read from its ProcessState
	}()
	return nil
}

func (s *server) dataDir() string    { return filepath.Join(s.dir, "data") }
func (s *server) outputPath() string { return filepath.Join(s.dir, "output.log") }
func (s *server) pid() int           { return s.cmd.Process.Pid }

// awaitReady learns the port from the first line that the server logs, and polls until it takes writes.
func (s *server) awaitReady(ctx context.Context) error {
	ready := func() (bool, error) {
		if s.url == "" {
			s.url = s.loggedURL()
			return false, nil
		}
		_, err := s.ask(ctx, http.MethodGet, "/ready", "")
		return err == nil, nil
	}
	return s.poll(ctx, startLimit, "it is ready", ready)
}

// loggedURL returns "" until the server has logged it.
func (s *server) loggedURL() string {
	text, err := os.ReadFile(s.outputPath())
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		var entry struct{ URL string }
		if json.Unmarshal(line, &entry) == nil && entry.URL != "" {
			return entry.URL
		}
	}
	return ""
}

// pollInterval is how often a condition is looked at.
const pollInterval = 50 * time.Millisecond

// poll waits until the condition holds, the server has gone, or the limit is over.
func (s *server) poll(ctx context.Context, limit time.Duration, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-s.exited:
			return fmt.Errorf("the server exited with %v before %s: %s", s.cmd.ProcessState, what, s.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		}
	}
}

// lastWords is the end of what the server printed.
func (s *server) lastWords() string {
	const bytesMax = 1 << 10
	text, err := os.ReadFile(s.outputPath())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-bytesMax):])
}

// ask makes one request and returns the answer's body; any status but 2xx is an error.
func (s *server) ask(ctx context.Context, method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	const bytesMax = 4 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, bytesMax))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: the server answered %s: %s", method, path, response.Status, text)
	}
	return text, nil
}

// status is what the suite reads of /api/status.
type status struct {
	Tier struct {
		CapacityBytes    int64 `json:"capacity_bytes"`
		SoftBytes        int64 `json:"soft_bytes"`
		RegisteredBytes  int64 `json:"registered_bytes"`
		ReservedBytes    int64 `json:"reserved_bytes"`
		HighestBytes     int64 `json:"highest_bytes"`
		OverReservations int64 `json:"over_reservations"`
		Segments         int64 `json:"segments"`
	} `json:"tier"`
	Shards []shardStatus `json:"shards"`
	WAL    struct {
		Fsyncs       int64   `json:"fsyncs"`
		FsyncSeconds float64 `json:"fsync_seconds"`
	} `json:"wal"`
}

type shardStatus struct {
	ActiveBytes  int64      `json:"active_bytes"`
	MaxBytes     int64      `json:"max_bytes"`
	BlockedSince *time.Time `json:"blocked_since"`
	Flushes      int64      `json:"flushes"`
}

func (s *server) status(ctx context.Context) (*status, error) {
	text, err := s.ask(ctx, http.MethodGet, "/api/status", "")
	if err != nil {
		return nil, err
	}
	var read status
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("read the status: %w", err)
	}
	return &read, nil
}

// flushes is how many memtables were sealed and flushed since the start.
func (s *status) flushes() int64 {
	var sum int64
	for i := range s.Shards {
		sum += s.Shards[i].Flushes
	}
	return sum
}

// blocked is how many shards want a seal and may not have it.
func (s *status) blocked() int {
	count := 0
	for i := range s.Shards {
		if s.Shards[i].BlockedSince != nil {
			count++
		}
	}
	return count
}

// roomBytes is what the fullest memtable still takes.
func (s *status) roomBytes() int64 {
	room := s.Shards[0].MaxBytes
	for i := range s.Shards {
		room = min(room, s.Shards[i].MaxBytes-s.Shards[i].ActiveBytes)
	}
	return room
}

// limitDrain sets how fast compaction may read; 0: as fast as it can.
func (s *server) limitDrain(ctx context.Context, bytesPerSecond int64) error {
	body := fmt.Sprintf(`{"max_bytes_per_second":%d}`, bytesPerSecond)
	_, err := s.ask(ctx, http.MethodPut, "/api/compaction", body)
	return err
}

func (s *server) pause(ctx context.Context, paused bool) error {
	_, err := s.ask(ctx, http.MethodPut, "/api/compaction", fmt.Sprintf(`{"paused":%t}`, paused))
	return err
}

// stop ends the server as an operator does, or kills it when it takes too long, and removes its directory.
func (s *server) stop() error {
	return errors.Join(s.end(), s.remove())
}

// end stops the process and leaves the directory.
func (s *server) end() error {
	s.client.CloseIdleConnections()
	if s.cmd.Process.Signal(syscall.SIGTERM) != nil { // it has gone, or the system knows no such signal
		_ = s.cmd.Process.Kill()
	}
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-s.exited:
	case <-timer.C:
		_ = s.cmd.Process.Kill() // fails only if it has gone by now
		<-s.exited
		return fmt.Errorf("the server still ran %v after SIGTERM, and was killed", stopLimit)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the server exited with %v: %s", s.cmd.ProcessState, s.lastWords())
	}
	return nil
}

func (s *server) remove() error { return os.RemoveAll(s.dir) }

// storedRows is how many rows the segments of a stopped server hold, each copy of a point counted. All else that
// lineweir check finds is an error.
func (s *server) storedRows(ctx context.Context) (int64, error) {
	output, err := exec.CommandContext(ctx, s.binary, "check", s.dataDir()).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("check the data directory: %w: %s", err, output)
	}
	return parseRows(output)
}

// parseRows finds the rows in what lineweir check prints: "segments: 7 with 900 rows in …".
func parseRows(output []byte) (int64, error) {
	for line := range bytes.Lines(output) {
		var segments, rows int64
		if n, _ := fmt.Sscanf(string(line), "segments: %d with %d rows", &segments, &rows); n == 2 {
			return rows, nil
		}
	}
	return 0, fmt.Errorf("check the data directory: no number of rows in %q", output)
}
