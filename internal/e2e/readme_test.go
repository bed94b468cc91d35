package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var repository = filepath.Join("..", "..")

// readmePrints says what the commands of README.md print, one regular expression for each block that is run, in order.
// Blocks that start a server print into its log.
var readmePrints = []string{
	`^HTTP/1\.1 204 No Content\r\n(?s:.*)\r\n\r\nweather,city=Oslo note="snow",temperature=-3\.5 1767225600000000000\n$`,
	`^\{"max_bytes_per_second":0,"paused":true\}\n(batch \d+: 204\n)+batch \d+: 503\n$`,
	`^HTTP/1\.1 503 Service Unavailable\r\n(?s:.*)\r\nRetry-After: [1-9]\d*\r\n(?s:.*)"cause":"l0_full",`,
	`^204\n$`,
	`^\{"version":.*"capacity_bytes":524288,.*"l0_full":[1-9]`,
	`^\{"max_bytes_per_second":0,"paused":false\}\n(\{"error":.*\}\n)*204\n\{"points":\d+,"values":\d+\}\n$`,
	`(?m)^g0\|[1-9]\d*\|90\|2026-01-01 00:00:00\.0000001\d*$`,
	`(?m)^  acknowledged points +[1-9][\d,]*\n  missing +0\n  double +0\n  altered +0\n  stored though refused +0\n`,
	`(?m)^  acknowledged points +[1-9][\d,]* +[1-9][\d,]*\n`,
	`^\{"max_bytes_per_second":200000,"paused":false\}\n$`,
	`^config\.yaml: nothing is wrong\n$`,
	`(?m)^segments: [1-9]\d* with [1-9]\d* rows in \d+ bytes, 0 damaged\n`, // of the backup
	`(?m)^segments: [1-9]\d* with [1-9]\d* rows in \d+ bytes, 0 damaged\n`,
	`^# database "weir"\nriver,`,
	`^\{"points":[1-9]\d*,"values":\d+\}\n$`,
	`^nothing is damaged\nnothing is damaged\n$`,
}

// TestREADME runs the commands of README.md as they stand there, but for the address, the paths and the binary.
func TestREADME(t *testing.T) {
	outside(t)
	require(t, "curl", found("curl", "awk", "sh"))
	r := newReader(t)
	for _, block := range readmeBlocks(t, "sh") {
		r.follow(t, block)
	}
	r.stop(t)
	if len(r.printed) != len(readmePrints) {
		t.Errorf("%d blocks were run, %d are expected", len(r.printed), len(readmePrints))
	}
	checkWeir(t, strings.Join(r.printed, ""))
}

// checkWeir compares the count at the end of the demonstration with what was accepted in its course.
func checkWeir(t *testing.T, printed string) {
	t.Helper()
	batches := 100*(strings.Count(printed, ": 204\n")+1) + 1 // those of the loop, the refused one at last, the small write
	if !strings.Contains(printed, fmt.Sprintf(`{"points":%d,`, batches)) {
		t.Errorf("the README's demonstration does not count %d points at its end:\n%s", batches, tail(printed, printedMax))
	}
}

// readmeBlocks returns the fenced blocks of README.md in a language.
func readmeBlocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	fenced := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, match := range fenced.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, match[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("README.md has no block of %s", language)
	}
	return blocks
}

// reader follows the README, with one server at a time.
type reader struct {
	binary, address string
	dir             string // for what the README puts into /tmp and ./data
	server          *server
	printed         []string // by each block that was run
}

func newReader(t *testing.T) *reader {
	t.Helper()
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	return &reader{binary: binary, address: freeAddress(t), dir: t.TempDir()}
}

// follow does what a reader does with a block of commands.
func (r *reader) follow(t *testing.T, block string) {
	t.Helper()
	command := strings.NewReplacer(
		"go run .", r.binary, "127.0.0.1:8086", r.address, "/tmp/", r.dir+"/",
	).Replace(block)
	switch {
	case strings.HasPrefix(block, "go test "): // that is this test
	case regexp.MustCompile(`^go run \.( --|\n)`).MatchString(block):
		r.stop(t)
		r.serve(t, command)
	case strings.HasPrefix(block, "go run . check"), strings.HasPrefix(block, "go run . wal dump"):
		r.stop(t)
		r.run(t, command)
	case strings.Contains(block, "duckdb -c"):
		r.runWithDuckDB(t, command)
	default:
		r.run(t, command)
	}
}

// serve starts the server of a block, with the configuration of the repository.
func (r *reader) serve(t *testing.T, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Dir = repository
	cmd.Env = append(foreignEnvironment(),
		"LINEWEIR_HTTP_LISTEN="+r.address, "LINEWEIR_DATA_DIR="+filepath.Join(r.dir, "data"))
	r.server = &server{address: r.address, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(r.server.client.CloseIdleConnections)
	r.server.process = startProcess(t, cmd)
	r.server.awaitReady(t)
}

func (r *reader) stop(t *testing.T) {
	t.Helper()
	if r.server == nil {
		return
	}
	r.server.client.CloseIdleConnections()
	r.server.stop(t)
	r.server = nil
}

// run runs a block, for a minute at most, and checks what it prints.
func (r *reader) run(t *testing.T, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", command)
	cmd.Dir = repository
	cmd.Env = append(foreignEnvironment(), "PATH="+r.dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\n%v: %s", command, err, stderr.String())
	}
	r.expect(t, command, string(output))
}

// expect compares what a block has printed with the next of readmePrints.
func (r *reader) expect(t *testing.T, command, output string) {
	t.Helper()
	at := len(r.printed)
	r.printed = append(r.printed, output)
	if at >= len(readmePrints) || !regexp.MustCompile(readmePrints[at]).MatchString(output) {
		t.Fatalf("block %d of the README\n%s\nprinted\n%s", at, command, tail(output, printedMax))
	}
}

// duckDBCommand stands for DuckDB's own command line: what npm installs is its library. Columns are joined by "|".
const duckDBCommand = `#!/bin/sh
cd %q
exec node --input-type=module -e '
import { DuckDBInstance } from "@duckdb/node-api";
const connection = await (await DuckDBInstance.create(":memory:")).connect();
const result = await connection.runAndReadAll(process.argv[1]);
for (const row of result.getRows()) console.log(row.map(String).join("|"));
' "$2"
`

// runWithDuckDB runs a block that calls duckdb in a subtest. Where that is skipped, so is what the block should print.
func (r *reader) runWithDuckDB(t *testing.T, command string) {
	t.Helper()
	at := len(r.printed)
	t.Run("duckdb", func(t *testing.T) {
		script, err := duckDB()
		require(t, "duckdb", err)
		program := fmt.Sprintf(duckDBCommand, filepath.Dir(script))
		if err := os.WriteFile(filepath.Join(r.dir, "duckdb"), []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
		r.run(t, command)
	})
	if len(r.printed) == at {
		r.printed = append(r.printed, "")
	}
}

// TestREADMETelegraf gives the README's configuration to Telegraf, and finds its points through both outputs.
func TestREADMETelegraf(t *testing.T) {
	outside(t)
	path, err := telegraf()
	require(t, "telegraf", err)
	s := start(t, t.TempDir())
	config := filepath.Join(t.TempDir(), "telegraf.conf")
	text := strings.ReplaceAll(strings.Join(readmeBlocks(t, "toml"), ""), "127.0.0.1:8086", s.address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := startProcess(t, exec.Command(path, "--config", config, "--once"))
	if code := agent.wait(t, time.Minute); code != 0 {
		t.Fatalf("Telegraf exited with status %d", code)
	}
	for _, database := range []string{"telegraf", "telegraf2"} {
		if s.count(t, database, "mem") == 0 || s.count(t, database, "system") == 0 {
			t.Errorf("database %s lacks points of mem or system", database)
		}
	}
	s.stop(t)
}

// TestREADMENamesEverything requires that the README names every cause of a refusal, every endpoint and every metric.
func TestREADMENamesEverything(t *testing.T) {
	outside(t)
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := string(text)
	s := start(t, t.TempDir())
	for cause := range s.status(t).Admission.Refused {
		if !strings.Contains(readme, "| `"+cause+"` |") {
			t.Errorf("README.md does not explain the cause %s", cause)
		}
	}
	var index struct {
		Endpoints []struct {
			Path string `json:"path"`
		} `json:"endpoints"`
	}
	decode(t, s.must(t, http.MethodGet, "/", "", http.StatusOK).body, &index)
	for _, endpoint := range index.Endpoints {
		if !strings.Contains(readme, " "+endpoint.Path) {
			t.Errorf("README.md does not name the endpoint %s", endpoint.Path)
		}
	}
	named := readmeMetrics(readme)
	metrics := s.must(t, http.MethodGet, "/metrics", "", http.StatusOK).body
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (lineweir_\w+) `).FindAllStringSubmatch(metrics, -1) {
		if !named.MatchString(match[1]) {
			t.Errorf("README.md does not name the metric %s", match[1])
		}
	}
	s.stop(t)
}

// readmeMetrics matches the names of metrics in a text, in which _{a,b} stands for alternatives, * for anything, and
// other braces hold labels.
func readmeMetrics(text string) *regexp.Regexp {
	var patterns []string
	for _, name := range regexp.MustCompile(`lineweir_[\w{},*]+`).FindAllString(text, -1) {
		name = regexp.MustCompile(`([^_])\{[\w,]+\}`).ReplaceAllString(name, "$1")
		patterns = append(patterns, strings.NewReplacer("{", "(", ",", "|", "}", ")", "*", `\w+`).Replace(name))
	}
	return regexp.MustCompile("^(" + strings.Join(patterns, "|") + ")$")
}

// TestARCHITECTURENamesRealTests requires that every test that the documents rely on exists.
func TestARCHITECTURENamesRealTests(t *testing.T) {
	real := declaredTests(t)
	for _, document := range []string{"ARCHITECTURE.md", "docs/RELIABILITY.md"} {
		text, err := os.ReadFile(filepath.Join(repository, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(string(text), -1) {
			if !real[name] {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
		}
	}
}

// declaredTests are the names of all tests of the project.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	real := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((Test|Fuzz)\w+)\(\w+ \*`)
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "*/*/*_test.go"} {
		paths, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range declared.FindAllSubmatch(source, -1) {
				real[string(match[1])] = true
			}
		}
	}
	return real
}
