package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var repository = filepath.Join("..", "..")

// document is one of those for whoever uses lineweir.
type document struct {
	path string // in the repository
	// What its commands print: one regular expression for each block that is run, in order. Blocks that start a server
	// print into its log.
	prints []string
}

// documents are followed, each by itself from a machine without data, and together they name what there is to name.
var documents = []document{
	{"README.md", []string{
		`^HTTP/1\.1 204 No Content\r\n(?s:.*)\r\n\r\nweather,city=Oslo note="snow",temperature=-3\.5 1767225600000000000\n$`,
		`^\{"max_bytes_per_second":0,"paused":true\}\n(batch \d+: 204\n)+batch \d+: 503\n$`,
		`^HTTP/1\.1 503 Service Unavailable\r\n(?s:.*)\r\nRetry-After: [1-9]\d*\r\n(?s:.*)compaction is paused","cause":"l0_full",`,
		`^204\n$`,
		`^\{"version":.*"capacity_bytes":524288,.*"l0_full":[1-9]`,
		`^\{"max_bytes_per_second":0,"paused":false\}\n(\{"error":.*\}\n)*204\n\{"points":\d+,"values":\d+\}\n$`,
		`(?m)^g0\|[1-9]\d*\|90\|2026-01-01 00:00:00\.0000001\d*$`,
	}},
	{"docs/OPERATING.md", []string{
		`^$`,
		`^config\.yaml: nothing is wrong\n$`,
		`^\{"max_bytes_per_second":200000,"paused":false\}\n\{"max_bytes_per_second":0,"paused":false\}\n$`,
		`^204\ncpu usage=1 1\nNAME +ADMIN .*\ntelegraf +- +telegraf +telegraf +2\S+\n$`,
		`^telegraf is revoked; no token is left, `,
		`(?m)^segments: \d+ with \d+ rows in \d+ bytes, 0 damaged\n`, // of the backup
		`(?m)^segments: [1-9]\d* with [1-9]\d* rows in \d+ bytes, 0 damaged\n`,
		`^weather,city=Oslo temperature=-3\.5 1767225600000000000\n$`,
		`^# database "demo"\nweather,city=Oslo temperature=-3\.5 1767225600000000000\n`,
		`^nothing is damaged\nnothing is damaged\n$`,
	}},
	{"docs/HTTP.md", []string{
		`^\{"error":"partial write: unable to parse 'weather,city=Bergen .*: line 2: .*; dropped=1"\}\n$`,
		`^time,city,temperature\n1767225600000000000,Oslo,-3\.5\n$`,
		`^\{"time":1767225600000000000,"tags":\{"city":"Oslo"\},"fields":\{"temperature":-3\.5\}\}\n$`,
		`"weather,city=Oslo".*\n\{"results":\[\{"statement_id":0\}\]\}\n$`,
		`^\{"flushes":\d+,"done":true\}\n\{"max_bytes_per_second":0,"paused":false\}\n$`,
	}},
	{"docs/LOAD.md", []string{
		`(?m)^  acknowledged points +[1-9][\d,]*\n  missing +0\n  double +0\n  altered +0\n  stored though refused +0\n`,
		`(?m)^  acknowledged points +[1-9][\d,]* +[1-9][\d,]*\n`,
		`^\{"max_bytes_per_second":200000,"paused":false\}\n$`,
	}},
}

// notRun are the blocks that a test can't run, as it is part of what they do. .ci/run does.
var notRun = []string{"go test ./...\n", "./check\n"}

// TestCommandsAsTheyStand runs the commands of the documents as they stand there, but for the address, the paths and
// the binary.
func TestCommandsAsTheyStand(t *testing.T) {
	outside(t)
	require(t, "curl", found("curl", "awk", "sh"))
	for _, d := range documents {
		t.Run(d.path, func(t *testing.T) {
			r := newReader(t, d)
			for _, block := range d.blocks(t, "sh") {
				r.follow(t, block)
			}
			r.stop(t)
			if len(r.printed) != len(d.prints) {
				t.Errorf("%d blocks were run, %d are expected", len(r.printed), len(d.prints))
			}
			if d.path == "README.md" {
				checkWeir(t, strings.Join(r.printed, ""))
			}
		})
	}
}

// TestCIRunsTheREADMEsCommands requires that what no test can run is in the README, and that CI runs it.
func TestCIRunsTheREADMEsCommands(t *testing.T) {
	ci := readFile(t, filepath.Join(repository, ".ci", "run"))
	for _, block := range notRun {
		if !slices.Contains(documents[0].blocks(t, "sh"), block) || !strings.Contains(ci, "\n"+block) {
			t.Errorf("README.md and .ci/run should both have %q", block)
		}
	}
}

// checkWeir compares the count at the end of the demonstration with what was accepted in its course.
func checkWeir(t *testing.T, printed string) {
	t.Helper()
	batches := 100*(strings.Count(printed, ": 204\n")+1) + 1 // those of the loop, the refused one at last, the small write
	if !strings.Contains(printed, fmt.Sprintf(`{"points":%d,`, batches)) {
		t.Errorf("the README's demonstration does not count %d points at its end:\n%s", batches, tail(printed, printedMax))
	}
}

// text returns the document.
func (d document) text(t *testing.T) string {
	t.Helper()
	return readFile(t, filepath.Join(repository, filepath.FromSlash(d.path)))
}

// blocks returns the fenced blocks of the document in a language.
func (d document) blocks(t *testing.T, language string) []string {
	t.Helper()
	blocks, err := blocksIn(d.text(t))
	if err != nil {
		t.Fatalf("%s: %v", d.path, err)
	}
	if len(blocks[language]) == 0 {
		t.Fatalf("%s has no block of %s", d.path, language)
	}
	return blocks[language]
}

// blocksIn returns the fenced blocks of a text by language. A fence that it would not know what to do with is an
// error, so that no block of commands is passed over.
func blocksIn(text string) (map[string][]string, error) {
	blocks := map[string][]string{}
	language, block := "", ""
	for line := range strings.Lines(text) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case !isFence:
			block += line
		case language != "" && fence == "":
			blocks[language] = append(blocks[language], block)
			language = ""
		case language != "" || !slices.Contains([]string{"sh", "toml", "text"}, fence) || line[0] != '`':
			return nil, fmt.Errorf("the fence %q is neither of sh, toml or text, nor the end of such a block", line)
		default:
			language, block = fence, ""
		}
	}
	if language != "" {
		return nil, fmt.Errorf("the last block of %s has no end", language)
	}
	return blocks, nil
}

// TestBlocksIn shows that a block of commands can't hide.
func TestBlocksIn(t *testing.T) {
	got, err := blocksIn("a\n```sh\nb\nc\n```\nd\n```text\ne\n```\n```sh\nf\n```\n")
	want := map[string][]string{"sh": {"b\nc\n", "f\n"}, "text": {"e\n"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{
		"```bash\nb\n```\n", "```\nb\n```\n", "- a\n  ```sh\n  b\n  ```\n", "```sh\nb\n", "```sh\n```sh\nb\n```\n",
	} {
		if got, err := blocksIn(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// TestCommandsAreInDocuments requires that no other file of Markdown has blocks of commands, which nobody would run.
func TestCommandsAreInDocuments(t *testing.T) {
	var paths []string
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		isDocument := slices.ContainsFunc(documents, func(d document) bool {
			return path == filepath.Join(repository, filepath.FromSlash(d.path))
		})
		blocks, err := blocksIn(readFile(t, path))
		if err != nil || !isDocument && len(blocks["sh"])+len(blocks["toml"]) > 0 {
			t.Errorf("%s: its commands are run by no test (%v)", path, err)
		}
	}
}

// blockLimit is far above what a block takes, seconds, on a machine that is ten times slower.
const blockLimit = 3 * time.Minute

// reader follows a document, with one server at a time.
type reader struct {
	document        document
	binary, address string
	dir             string // for what the document puts into /tmp and ./data
	server          *server
	printed         []string // by each block that was run
}

func newReader(t *testing.T, d document) *reader {
	t.Helper()
	binary, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	return &reader{document: d, binary: binary, address: freeAddress(t), dir: t.TempDir()}
}

// follow does what a reader does with a block of commands.
func (r *reader) follow(t *testing.T, block string) {
	t.Helper()
	command := strings.NewReplacer(
		"go run . scan --", r.binary+" scan --url http://"+r.address+" --", // the default is the address of the server
		"go run .", r.binary, "127.0.0.1:8086", r.address, "/tmp/", r.dir+"/", "./data", r.dir+"/data",
	).Replace(block)
	switch {
	case slices.Contains(notRun, block):
	case regexp.MustCompile(`^go run \.( --|\n)`).MatchString(block):
		r.stop(t)
		r.serve(t, command)
	case strings.HasPrefix(block, "go run . check"): // from there on the documents are about a directory without a server
		r.stop(t)
		r.run(t, command)
	case strings.Contains(block, "duckdb -c"):
		r.runWithDuckDB(t, command)
	default:
		r.run(t, command)
	}
}

// environment stands for the defaults: the address and the directory of this reader.
func (r *reader) environment() []string {
	return append(foreignEnvironment(),
		"LINEWEIR_HTTP_LISTEN="+r.address, "LINEWEIR_DATA_DIR="+filepath.Join(r.dir, "data"))
}

// serve starts the server of a block, with the configuration of the repository.
func (r *reader) serve(t *testing.T, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Dir = repository
	// The tier is to be full before the queue of frozen memtables is, however slow the disk.
	cmd.Env = append(r.environment(), "LINEWEIR_MEMTABLE_FROZEN_MAX=8")
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

// run runs a block, for blockLimit at most, and checks what it prints.
func (r *reader) run(t *testing.T, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blockLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", command)
	cmd.Dir = repository
	cmd.Env = append(r.environment(), "PATH="+r.dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\n%v: %s", command, err, stderr.String())
	}
	r.expect(t, command, string(output))
}

// expect compares what a block has printed with what the document's next one should print.
func (r *reader) expect(t *testing.T, command, output string) {
	t.Helper()
	at := len(r.printed)
	r.printed = append(r.printed, output)
	prints := r.document.prints
	if at >= len(prints) || !regexp.MustCompile(prints[at]).MatchString(output) {
		t.Fatalf("block %d of %s\n%s\nprinted\n%s", at, r.document.path, command, tail(output, printedMax))
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
	text := strings.ReplaceAll(strings.Join(documents[0].blocks(t, "toml"), ""), "127.0.0.1:8086", s.address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := startProcess(t, exec.Command(path, "--config", config, "--once"))
	if code := agent.wait(t, clientLimit); code != 0 {
		t.Fatalf("Telegraf exited with status %d", code)
	}
	for _, database := range []string{"telegraf", "telegraf2"} {
		if s.count(t, database, "mem") == 0 || s.count(t, database, "system") == 0 {
			t.Errorf("database %s lacks points of mem or system", database)
		}
	}
	s.stop(t)
}

// TestDocumentsNameEverything requires that the tables of the documents name every cause of a refusal, every endpoint
// and every metric. Without any row of theirs something is missing.
func TestDocumentsNameEverything(t *testing.T) {
	outside(t)
	s := start(t, t.TempDir())
	everything := s.names(t)
	s.stop(t)
	var text strings.Builder
	for _, d := range documents {
		text.WriteString(d.text(t))
	}
	for _, problem := range everything.missingIn(text.String()) {
		t.Errorf("the documents do not name %s", problem)
	}
	lines, rows := strings.Split(text.String(), "\n"), 0
	for i, line := range lines {
		if !everything.isRow(line) {
			continue
		}
		rows++
		if len(everything.missingIn(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n"))) == 0 {
			t.Errorf("nothing is missed without the row %s", line)
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows name something", rows)
	}
}

// names are what clients and operators meet.
type names struct{ causes, endpoints, metrics []string }

// names asks a server for them.
func (s *server) names(t *testing.T) names {
	t.Helper()
	n := names{causes: slices.Sorted(maps.Keys(s.status(t).Admission.Refused))}
	var index struct {
		Endpoints []struct {
			Path string `json:"path"`
		} `json:"endpoints"`
	}
	decode(t, s.must(t, http.MethodGet, "/", "", http.StatusOK).body, &index)
	for _, endpoint := range index.Endpoints {
		n.endpoints = append(n.endpoints, endpoint.Path)
	}
	metrics := s.must(t, http.MethodGet, "/metrics", "", http.StatusOK).body
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (lineweir_\w+) `).FindAllStringSubmatch(metrics, -1) {
		n.metrics = append(n.metrics, match[1])
	}
	return n
}

// isRow tells whether a line of a document is a row that names causes, endpoints or metrics.
func (n names) isRow(line string) bool {
	if regexp.MustCompile("^\\| `((GET|POST|PUT)[ ,]|lineweir_)").MatchString(line) {
		return true
	}
	return slices.ContainsFunc(n.causes, func(cause string) bool { return causeRow(cause).MatchString(line) })
}

// causeRow matches the row of a cause: what it means, and what to do.
func causeRow(cause string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\| ` + "`" + cause + "`" + ` \| [^|\n]+ \| [^|\n]+ \|$`)
}

// missingIn returns what no table of a text names in the first column.
func (n names) missingIn(text string) []string {
	var missing []string
	for _, cause := range n.causes {
		if !causeRow(cause).MatchString(text) {
			missing = append(missing, "the cause "+cause)
		}
	}
	for _, endpoint := range n.endpoints {
		row := regexp.MustCompile("(?m)^\\| [^|]*`[A-Z,]+ " + regexp.QuoteMeta(endpoint) + "[`?]")
		if !row.MatchString(text) {
			missing = append(missing, "the endpoint "+endpoint)
		}
	}
	named := metricsNamedIn(text)
	for _, metric := range n.metrics {
		if !named.MatchString(metric) {
			missing = append(missing, "the metric "+metric)
		}
	}
	return missing
}

// metricsNamedIn matches the names of metrics in the tables of a text, in which _{a,b} stands for alternatives, * for
// anything, and other braces hold labels.
func metricsNamedIn(text string) *regexp.Regexp {
	patterns := []string{"$^"}
	for _, row := range regexp.MustCompile("(?m)^\\| `lineweir_[^|]*").FindAllString(text, -1) {
		for _, name := range regexp.MustCompile(`lineweir_[\w{},*]+`).FindAllString(row, -1) {
			name = regexp.MustCompile(`([^_])\{[\w,]+\}`).ReplaceAllString(name, "$1")
			patterns = append(patterns, strings.NewReplacer("{", "(", ",", "|", "}", ")", "*", `\w+`).Replace(name))
		}
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
