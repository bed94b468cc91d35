package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// telegrafFileInput reads a file once, with the nanoseconds of its timestamps.
const telegrafFileInput = `
[agent]
  interval = "250ms"
  round_interval = false
  precision = "1ns"
  flush_interval = "500ms"
  metric_batch_size = 100
  metric_buffer_limit = 100000
  omit_hostname = true
[[inputs.file]]
  files = ["%[1]s"]
  data_format = "influx"
  interval = "1h"
`

// telegrafOutputs has every output over TLS with its way to send a token, and with an unknown one. %[1]s is the URL,
// %[2]s the certificate, %[3]s the token.
const telegrafOutputs = `
[[outputs.influxdb]]
  urls = ["%[1]s"]
  tls_ca = "%[2]s"
  username = "telegraf"
  password = "%[3]s"
  database = "none"
  database_tag = "db"
  influx_uint_support = true
[[outputs.influxdb_v2]]
  urls = ["%[1]s"]
  tls_ca = "%[2]s"
  token = "%[3]s"
  organization = "any"
  bucket = "none"
  bucket_tag = "bucket"
  concurrent_writes = 4
  influx_uint_support = true
[[outputs.influxdb_v3]]
  urls = ["%[1]s"]
  tls_ca = "%[2]s"
  token = "%[3]s"
  database = "v3"
[[outputs.influxdb]]
  alias = "unknown1"
  urls = ["%[1]s"]
  tls_ca = "%[2]s"
  username = "telegraf"
  password = "lw_unknown"
  database = "v3"
[[outputs.influxdb_v2]]
  alias = "unknown2"
  urls = ["%[1]s"]
  tls_ca = "%[2]s"
  token = "lw_unknown"
  organization = "any"
  bucket = "v3"
[[outputs.influxdb_v3]]
  alias = "unknown3"
  urls = ["%[1]s"]
  tls_ca = "%[2]s"
  token = "lw_unknown"
  database = "v3"
`

// TestTelegrafOutputs sends metrics through every output, with tokens over TLS, databases by a tag, writes beside one
// another, and one bad metric that holds nothing up.
func TestTelegrafOutputs(t *testing.T) {
	outside(t)
	path, err := telegraf()
	require(t, "clients", err)
	t.Parallel()
	s := startGuarded(t)
	secret := s.createToken(t, "--write", "v1-0", "--write", "v1-1", "--write", "v2-0", "--write", "v2-1", "--write", "v3")
	const odd = "odd,db=v1-0,bucket=v2-0 v=1i "
	var lines [3]string // those of either database, and all, with a bad one in their midst
	for i, line := range strings.SplitAfter(knownLines(0, 1000), "\n") {
		line = strings.Replace(line, "known,", fmt.Sprintf("known,db=v1-%d,bucket=v2-%d,", i%2, i%2), 1)
		lines[i%2] += line
		lines[2] += line
		if i == 250 {
			lines[2] += strings.Replace(odd, "1i", `"text"`, 1) + "2\n" + odd + "3\n"
		}
	}
	for _, database := range []string{"v1-0", "v2-0", "v3"} {
		s.write(t, database, odd+"1\n") // so that v is an integer
	}
	config := fmt.Sprintf(telegrafOutputs, s.url(), s.authority, secret)
	agent := runTelegraf(t, path, config, lines[2])
	want := map[string]string{
		"v1-0": lines[0], "v1-1": lines[1], "v2-0": lines[0], "v2-1": lines[1], "v3": lines[0] + lines[1],
	}
	for database, text := range want {
		eventually(t, clientLimit, "Telegraf has written "+database, func() bool {
			return s.count(t, database, "known") == strings.Count(text, "\n") &&
				(strings.HasSuffix(database, "-1") || s.count(t, database, "odd") == 2)
		})
	}
	for pattern, what := range map[string]string{
		`outputs\.influxdb\b[^\n]*(400|partial write)[^\n]*field type conflict`:              "the bad metric of v1",
		`outputs\.influxdb_v2\b[^\n]*400 Bad Request[^\n]*invalid: 1 of [^\n]*conflict`:      "the bad metric of v2",
		`outputs\.influxdb_v3\b[^\n]*400 Bad Request[^\n]*line protocol parsing error: 1 of`: "the bad metric of v3",
		`outputs\.influxdb::unknown1\b[^\n]*401 Unauthorized[^\n]*the token is not known`:    "an unknown token of v1",
		`outputs\.influxdb_v2::unknown2\b[^\n]*401 Unauthorized[^\n]*the token is not known`: "an unknown token of v2",
		`outputs\.influxdb_v3::unknown3\b[^\n]*401 Unauthorized[^\n]*the token is not known`: "an unknown token of v3",
	} {
		eventually(t, clientLimit, "Telegraf tells of "+what, func() bool { return matches(pattern, agent.printed(t)) })
	}
	agent.signal(t, syscall.SIGTERM)
	agent.wait(t, clientLimit) // what it can't deliver makes its status
	for database, text := range want {
		points, err := parsePoints(text)
		if err != nil {
			t.Fatal(err)
		}
		s.holds(t, database, database, points, "known")
	}
	s.stop(t)
}

// runTelegraf starts Telegraf with the outputs of a configuration and the metrics of a file.
func runTelegraf(t *testing.T, path, outputs, lines string) *process {
	t.Helper()
	dir := t.TempDir()
	input, config := filepath.Join(dir, "known.lp"), filepath.Join(dir, "telegraf.conf")
	if err := errors.Join(
		os.WriteFile(input, []byte(lines), 0o600),
		os.WriteFile(config, []byte(fmt.Sprintf(telegrafFileInput, input)+outputs), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return startProcess(t, exec.Command(path, "--config", config))
}

// TestTelegrafSplitsOn413 has batches that are longer than the server takes: the output for version 2 halves them until
// they fit, the one for version 3 once. The one for version 1 would drop them.
func TestTelegrafSplitsOn413(t *testing.T) {
	outside(t)
	path, err := telegraf()
	require(t, "clients", err)
	t.Parallel()
	s := start(t, t.TempDir(), "http.max_body_bytes=16KiB")
	lines := knownLines(0, 1000)
	agent := runTelegraf(t, path, fmt.Sprintf(`
[[outputs.influxdb_v2]]
  urls = ["%[1]s"]
  metric_batch_size = 1000
  bucket = "v2"
  influx_uint_support = true
[[outputs.influxdb_v3]]
  urls = ["%[1]s"]
  metric_batch_size = 120
  database = "v3"
`, s.url()), lines)
	want, err := parsePoints(lines)
	if err != nil {
		t.Fatal(err)
	}
	for _, database := range []string{"v2", "v3"} {
		eventually(t, clientLimit, "every half of every batch of "+database+" has arrived", func() bool {
			return s.count(t, database, "known") == len(want)
		})
		s.holds(t, database, database, want, "known")
	}
	says(t, "Telegraf", agent.printed(t), `outputs\.influxdb_v2\][^\n]*too large \(413\)`)
	agent.signal(t, syscall.SIGTERM)
	if code := agent.wait(t, clientLimit); code != 0 {
		t.Errorf("Telegraf exited with status %d", code)
	}
	s.stop(t)
}
