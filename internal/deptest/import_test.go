package deptest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An edge allows the non-test files of a package to import something, and says why. What no edge allows is
// forbidden; the standard library is free to all. "." is the command itself.
type edge struct{ from, to, reason string }

// projectEdges are all imports between packages of the module. They run one way.
var projectEdges = []edge{
	{".", "ingest", "main wires: the write endpoints"},
	{".", "query", "main wires: the read endpoints"},
	{".", "shard", "main wires: it opens the engine and hands it to ingest and query"},
	{".", "web", "main wires: the status page, which ingest serves"},
	{".", "internal/cli", "main hands its commands to the command line"},
	{".", "internal/config", "main turns settings into the options of each package"},
	{".", "internal/auth", "main hands the tokens of the data directory to the server"},
	{".", "internal/vfs", "main chooses the real file system"},
	{"ingest", "shard", "batches are built by ingest and committed by the engine"},
	{"ingest", "internal/auth", "what a client may do is asked before its body is read"},
	{"ingest", "segment", "only for the kinds of values, which line protocol and columns share"},
	{"query", "shard", "scans are answered by the engine"},
	{"query", "segment", "rows come as segment blocks"},
	{"shard", "wal", "the engine commits frames to the log"},
	{"shard", "segment", "the engine flushes memtables into segments, and registers and scans them"},
	{"shard", "pagecache", "the engine asks the tier's controller before it seals"},
	{"shard", "internal/vfs", "the engine hands the file system down and asks it for free space"},
	{"segment", "internal/vfs", "all file access goes through a seam that tests can break"},
	{"wal", "internal/vfs", "all file access goes through a seam that tests can break"},
	{"internal/auth", "internal/vfs", "the token file goes through a seam that tests can break"},
	{"internal/vfs/memory", "internal/vfs", "a file system in memory that crashes, for the tests of wal, segment and shard"},
	{"web", "internal/uplot", "the status page plots"},
	{"load", "internal/uplot", "the page of a report plots"},
	{"internal/cli", "internal/config", "flags are settings; config check is a command"},
	{"internal/cli", "load", "the flags of lineweir load are its options; like scan, it talks HTTP only"},
	{"internal/cli", "load/suite", "the suite starts this very program, whose path the command line knows"},
	{"load/suite", "load", "scenarios are runs of the load tester, judged by their reports"},
	{"internal/cli", "internal/auth", "tokens are made, listed and revoked by commands"},
	{"internal/cli", "internal/vfs", "token commands choose the real file system"},
}

// testEdges are what tests may import in addition to what their package may.
var testEdges = []edge{
	{"ingest", "query", "tests of the write APIs read the points back as clients do"},
	{"internal/deptest", "internal/config", "it compares the settings with what the command reads"},
}

// moduleEdges are the modules that may be used, and where. A library that only one package knows can be replaced.
var moduleEdges = []edge{
	{".", "go.uber.org/zap", "main makes the logger"},
	{"ingest", "go.uber.org/zap", "requests that fail are logged"},
	{"query", "go.uber.org/zap", "scans that fail midway are logged"},
	{"shard", "go.uber.org/zap", "the engine logs changes of its state"},
	{"segment", "go.uber.org/zap", "compaction and recovery log what they did"},
	{"wal", "go.uber.org/zap", "recovery logs what it cut off"},
	{"segment", "golang.org/x/sync", "outputs of a merge are verified side by side"},
	{"ingest", "github.com/influxdata/line-protocol/v2", "the one parser of line protocol"},
	{"ingest", "github.com/influxdata/influxql", "the one parser of statements"},
	{"ingest", "github.com/go-chi/chi/v5", "routes of writing"},
	{"ingest", "github.com/klauspost/compress", "bodies and payloads are compressed"},
	{"ingest", "github.com/prometheus/client_golang", "metrics of requests and of the engine are exported over HTTP"},
	{"shard", "github.com/cespare/xxhash/v2", "series are spread over shards by their hash"},
	{"segment", "github.com/parquet-go/parquet-go", "the one codec of Parquet"},
	{"segment", "github.com/cespare/xxhash/v2", "names too long for a directory are hashed"},
	{"pagecache", "github.com/dgraph-io/ristretto/v2", "the one cache"},
	{"load", "github.com/HdrHistogram/hdrhistogram-go", "times of a run with known precision in bounded memory"},
	{"load", "github.com/influxdata/line-protocol/v2", "lines of files and of scans are read"},
	{"load", "github.com/klauspost/compress", "bodies are compressed"},
	{"internal/cli", "github.com/alecthomas/kong", "the grammar of the command line"},
	{"internal/auth", "go.uber.org/zap", "what becomes of the token file is logged once, not for each request"},
	{"internal/config", "github.com/knadh/koanf", "layers of settings are merged"},
	{"internal/config", "go.yaml.in/yaml/v3", "the configuration file"},
	{"internal/config", "golang.org/x/sys", "how much memory the machine has"},
	{"internal/vfs", "golang.org/x/sys", "file locks, fdatasync and free space"},
}

func TestImportsRunOneWay(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.isTest() {
			continue
		}
		for _, spec := range file.syntax.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			inside, ours := strings.CutPrefix(path, module+"/")
			allowed := ours && allows(projectEdges, file.directory, inside) ||
				!ours && (isStandard(path) || allows(moduleEdges, file.directory, path))
			if !allowed {
				t.Errorf("%s imports %s: no rule allows this", file.path, path)
			}
		}
	}
}

// allows tells whether an edge leads from directory to path or to something above it.
func allows(edges []edge, directory, path string) bool {
	return slices.ContainsFunc(edges, func(e edge) bool {
		return e.from == directory && (path == e.to || strings.HasPrefix(path, e.to+"/"))
	})
}

// isStandard tells whether an import is of the standard library: its first element is no domain. Cgo is refused.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && path != "C"
}

// So a layer is tested without those above it and beside it. The file system is open to all tests, because they
// inject its faults.
func TestTestsStayInTheirLayer(t *testing.T) {
	edges := slices.Concat(projectEdges, testEdges)
	for _, file := range goFiles(t) {
		if !file.isTest() || file.directory == "." {
			continue
		}
		for _, spec := range file.syntax.Imports {
			inside, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			if ours && inside != file.directory && inside != "internal/vfs" && !allows(edges, file.directory, inside) {
				t.Errorf("%s imports %s: no rule allows this, not even to a test", file.path, inside)
			}
		}
	}
}

func TestEveryEdgeHasItsReason(t *testing.T) {
	seen := make(map[[2]string]bool)
	for _, e := range slices.Concat(projectEdges, testEdges, moduleEdges) {
		if e.reason == "" {
			t.Errorf("%s → %s has no reason", e.from, e.to)
		}
		if seen[[2]string{e.from, e.to}] {
			t.Errorf("%s → %s is listed twice", e.from, e.to)
		}
		seen[[2]string{e.from, e.to}] = true
	}
}

// Edges that are all data can still form a circle; the compiler would notice only once all of them are used.
func TestEdgesFormNoCircle(t *testing.T) {
	var visit func(name string, above []string)
	visit = func(name string, above []string) {
		if slices.Contains(above, name) {
			t.Fatalf("a circle: %s", strings.Join(append(above, name), " → "))
		}
		for _, e := range projectEdges {
			if e.from == name {
				visit(e.to, append(slices.Clone(above), name))
			}
		}
	}
	visit(".", nil)
}
