package e2e

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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
	return path, fetch([]string{"CGO_ENABLED=0"}, "go", "build", "-C", filepath.Join(repository, "testdata", "telegraf"),
		"-mod=readonly", "-tags", telegrafTags, "-o", path, telegrafModule+"/cmd/telegraf")
})

// telegrafConfig makes each output flush twice a second what the inputs make. A batch fits a memtable of tinyTier. The
// buffer holds far more than the inputs make, so that nothing is dropped while the gate is shut. No answer is given up:
// what is sent again would be stored twice until it is merged. The file is gathered once, at the start; the precision
// keeps its nanoseconds.
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
  timeout = "2m"
  database = "first"
  influx_uint_support = true
[[outputs.influxdb_v2]]
  urls = ["http://%[1]s"]
  timeout = "2m"
  token = "any"
  organization = "any"
  bucket = "second"
  influx_uint_support = true
[[outputs.influxdb_v3]]
  urls = ["http://%[1]s"]
  timeout = "2m"
  token = "any"
  database = "third"
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

// tinyTier is full after half a mebibyte of segments, and before its queue of frozen memtables is, however slow the disk.
var tinyTier = []string{
	"shards=1", "page_cache.capacity=512KiB", "memtable.max_bytes=128KiB", "memtable.frozen_max=8",
	"admission.max_wait=200ms", "admission.retry_after_min=1s", "admission.retry_after_max=2s",
}

// knownPoints is more than tinyTier takes, in each of the databases.
const knownPoints = 8000

// telegrafDatabases are those of the outputs of telegrafConfig.
var telegrafDatabases = map[string]string{"influxdb": "first", "influxdb_v2": "second", "influxdb_v3": "third"}

func TestTelegrafThroughAShutGate(t *testing.T) {
	outside(t)
	path, err := telegraf()
	require(t, "telegraf", err)
	t.Logf("Telegraf %s", telegrafVersion(t, path))

	s := start(t, t.TempDir(), tinyTier...)
	s.drain(t, true)
	lines := knownLines(0, knownPoints)
	agent := startTelegraf(t, path, s.address, lines)
	for output := range telegrafDatabases {
		eventually(t, clientLimit, "the output "+output+" of Telegraf is refused", func() bool {
			return refusedByGate(agent.printed(t), output)
		})
	}
	if s.status(t).refused() == 0 {
		t.Error("Telegraf was refused, but the status counts no refusal")
	}
	s.drain(t, false)
	awaitTelegraf(t, s)
	agent.signal(t, syscall.SIGTERM)
	if code := agent.wait(t, clientLimit); code != 0 {
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

// awaitTelegraf returns when the backlog has arrived through all outputs and new points flow again.
func awaitTelegraf(t *testing.T, s *server) {
	t.Helper()
	for _, database := range telegrafDatabases {
		eventually(t, clientLimit, "the backlog of "+database+" arrives after the gate opened", func() bool {
			return s.count(t, database, "known") == knownPoints
		})
		mocks := s.count(t, database, "mock")
		eventually(t, clientLimit, "new points of "+database+" flow after the backlog", func() bool {
			return s.count(t, database, "mock") > mocks+2
		})
	}
}

// checkTelegraf compares what is stored with what Telegraf made: the known points with the file they came from, the
// mocked steps with an unbroken series, and, as every metric goes to all outputs, one database with the other.
func checkTelegraf(t *testing.T, s *server, agent *process, lines string) {
	t.Helper()
	want, err := parsePoints(lines)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "known points", s.scan(t, "first", "known"), want)
	last := lastStep(t, s)
	stored := 0
	for _, measurement := range []string{"known", "mock", "cpu", "mem"} {
		first := s.scan(t, "first", measurement)
		if len(first) == 0 {
			t.Errorf("no point of %s is stored", measurement)
		}
		for _, database := range telegrafDatabases {
			got := s.scan(t, database, measurement)
			stored += len(got)
			same(t, measurement+" of the database "+database, before(t, got, last), before(t, first, last))
		}
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

// lastStep is the time of the newest mocked step that every database has, in nanoseconds. The last metrics of an agent
// that is stopped get one attempt, which may be refused.
func lastStep(t *testing.T, s *server) int64 {
	t.Helper()
	last := int64(math.MaxInt64)
	for _, database := range telegrafDatabases {
		newest := int64(0)
		for identity := range s.scan(t, database, "mock") {
			newest = max(newest, timeOf(t, identity))
		}
		last = min(last, newest)
	}
	return last
}

// before leaves out the points of the second before a time, and later ones: outputs send in order of collection.
func before(t *testing.T, all points, nanoseconds int64) points {
	t.Helper()
	kept := points{}
	for identity, fields := range all {
		if timeOf(t, identity) < nanoseconds-int64(time.Second) {
			kept[identity] = fields
		}
	}
	return kept
}

// timeOf is the time of a point's identity.
func timeOf(t *testing.T, identity string) int64 {
	t.Helper()
	at, err := strconv.ParseInt(identity[strings.LastIndexByte(identity, ' ')+1:], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return at
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
