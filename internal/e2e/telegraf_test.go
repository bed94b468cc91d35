package e2e

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	telegrafModule = "github.com/influxdata/telegraf"
	telegrafTags   = "custom,inputs.cpu,inputs.mem,inputs.disk,inputs.net,inputs.system,inputs.internal,inputs.mock," +
		"inputs.file,outputs.influxdb,outputs.influxdb_v2,outputs.influxdb_v3,parsers.influx,serializers.influx"
)

// telegraf builds the agent that testdata/telegraf pins, once, and returns its path.
var telegraf = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "telegraf")
	cmd := exec.Command("go", "build", "-C", filepath.Join("..", "..", "testdata", "telegraf"), "-mod=readonly",
		"-tags", telegrafTags, "-o", path, telegrafModule+"/cmd/telegraf")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return path, run(cmd)
})

// telegrafConfig makes each output flush twice a second what the inputs make. A batch fits a memtable of tinyTier. The
// buffer holds far more than the inputs make, so that nothing is dropped while the gate is shut. The file is gathered once, at the start; the precision keeps its
// nanoseconds.
const telegrafConfig = `
[agent]
  interval = "250ms"
  round_interval = false
  precision = "1ns"
  flush_interval = "500ms"
  metric_batch_size = 200
  metric_buffer_limit = 200000
  omit_hostname = true
[[outputs.influxdb]]
  urls = ["http://%[1]s"]
  database = "first"
  influx_uint_support = true
[[outputs.influxdb_v2]]
  urls = ["http://%[1]s"]
  token = "any"
  organization = "any"
  bucket = "second"
  influx_uint_support = true
[[inputs.file]]
  files = ["%[2]s"]
  data_format = "influx"
  interval = "1h"
[[inputs.mock]]
  metric_name = "mock"
  [[inputs.mock.step]]
    name = "step"
    start = 0.0
    step = 1.0
  [[inputs.mock.constant]]
    name = "constant"
    value = "weir"
[[inputs.cpu]]
  percpu = false
[[inputs.mem]]
`

// tinyTier is full after half a mebibyte of segments.
var tinyTier = []string{
	"shards=1", "page_cache.capacity=512KiB", "memtable.max_bytes=128KiB",
	"admission.max_wait=200ms", "admission.retry_after_min=1s", "admission.retry_after_max=2s",
}

// knownPoints is more than tinyTier takes, in each of the two databases.
const knownPoints = 8000

func TestTelegrafThroughAShutGate(t *testing.T) {
	outside(t)
	path, err := telegraf()
	require(t, "telegraf", err)
	t.Logf("Telegraf %s", telegrafVersion(t, path))

	s := start(t, t.TempDir(), tinyTier...)
	s.drain(t, true)
	lines := knownLines(0, knownPoints)
	agent := startTelegraf(t, path, s.address, lines)
	eventually(t, time.Minute, "both outputs of Telegraf were refused", func() bool {
		printed := agent.printed(t)
		return refusedByGate(printed, "influxdb") && refusedByGate(printed, "influxdb_v2")
	})
	if s.status(t).refused() == 0 {
		t.Error("Telegraf was refused, but the status counts no refusal")
	}
	s.drain(t, false)
	awaitTelegraf(t, s)
	agent.signal(t, syscall.SIGTERM)
	if code := agent.wait(t, 30*time.Second); code != 0 {
		t.Fatalf("Telegraf exited with status %d", code)
	}
	checkTelegraf(t, s, agent, lines)
}

// telegrafVersion reads what the binary was really built from.
func telegrafVersion(t *testing.T, path string) string {
	t.Helper()
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Main.Path != telegrafModule {
		t.Fatalf("%s was built from %s, not from %s", path, info.Main.Path, telegrafModule)
	}
	return info.Main.Version
}

func startTelegraf(t *testing.T, path, address, lines string) *process {
	t.Helper()
	dir := t.TempDir()
	input, config := filepath.Join(dir, "known.lp"), filepath.Join(dir, "telegraf.conf")
	if err := errors.Join(
		os.WriteFile(input, []byte(lines), 0o600),
		os.WriteFile(config, fmt.Appendf(nil, telegrafConfig, address, input), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return startProcess(t, exec.Command(path, "--config", config))
}

// refusedByGate tells whether an output of Telegraf has printed that it was answered 503.
func refusedByGate(printed, output string) bool {
	return regexp.MustCompile(`\[outputs\.` + output + `\].*\b503\b`).MatchString(printed)
}

// awaitTelegraf returns when the backlog has arrived through both outputs and new points flow again.
func awaitTelegraf(t *testing.T, s *server) {
	t.Helper()
	mocks := func(database string) int { return s.count(t, database, "mock") }
	eventually(t, time.Minute, "the backlog arrives after the gate opened", func() bool {
		return s.count(t, "first", "known") == knownPoints && s.count(t, "second", "known") == knownPoints
	})
	first, second := mocks("first"), mocks("second")
	eventually(t, time.Minute, "new points flow after the backlog", func() bool {
		return mocks("first") > first+2 && mocks("second") > second+2
	})
}

// checkTelegraf compares what is stored with what Telegraf made: the known points with the file they came from, the
// mocked steps with an unbroken series, and, as every metric goes to both outputs, one database with the other.
func checkTelegraf(t *testing.T, s *server, agent *process, lines string) {
	t.Helper()
	want, err := parsePoints(lines)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "known points", s.scan(t, "first", "known"), want)
	stored := 0
	for _, measurement := range []string{"known", "mock", "cpu", "mem"} {
		first, second := s.scan(t, "first", measurement), s.scan(t, "second", measurement)
		if len(first) == 0 {
			t.Errorf("no point of %s is stored", measurement)
		}
		same(t, measurement+" of the second database", second, first)
		stored += len(first) + len(second)
	}
	checkSteps(t, s.scan(t, "first", "mock"))
	if loss := regexp.MustCompile(`(?i).*(overflow|dropped|rejected).*`).FindString(agent.printed(t)); loss != "" {
		t.Errorf("Telegraf lost metrics: %s", loss)
	}
	s.stop(t)
	if rows := len(physicalRows(t, s)); rows != stored {
		t.Errorf("the files hold %d rows of %d points", rows, stored)
	}
}

// checkSteps requires one point for each of the steps 0, 1, 2 to the last.
func checkSteps(t *testing.T, mocks points) {
	t.Helper()
	fields := map[string]bool{}
	for _, values := range mocks {
		fields[values] = true
	}
	for step := range len(mocks) {
		if want := joined(map[string]string{"constant": `"weir"`, "step": strconv.Itoa(step)}); !fields[want] {
			t.Errorf("step %d of %d is missing", step, len(mocks))
		}
	}
}
