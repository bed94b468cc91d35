package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/load"
)

// acceptingServer takes every write.
func acceptingServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestLoadRunsAndReports(t *testing.T) {
	t.Chdir(t.TempDir())
	server := acceptingServer(t)
	got := run(t, nil, "load", "--url", server.URL, "--points", "2k", "--series", "100", "--batch", "500",
		"--label", "one", "--json", "one.json", "--html", "one.html")
	if got.Status != 0 || got.Stderr != "" || !strings.Contains(got.Stdout, "204 ") {
		t.Errorf("got %+v", got)
	}
	report, err := load.ReadReport("one.json")
	if err != nil {
		t.Fatal(err)
	}
	if report.Totals.Acknowledged != 2000 || report.Label != "one" || !strings.HasPrefix(report.Run.Tester, "lineweir ") {
		t.Errorf("got %+v", report)
	}
	page, err := os.ReadFile("one.html")
	if err != nil || !strings.HasPrefix(string(page), "<!doctype html>") {
		t.Errorf("got the page %.20q, %v", page, err)
	}
	beside := run(t, nil, "load", "report", "one.json", "one.json", "--html", "both.html")
	if beside.Status != 0 || strings.Count(beside.Stdout, "one\n") != 1 || !strings.Contains(beside.Stdout, "seed") {
		t.Errorf("got %+v", beside)
	}
	markdown := run(t, nil, "load", "report", "--format", "markdown", "one.json")
	if !strings.HasPrefix(markdown.Stdout, "|  | one |\n|---|---|\n") {
		t.Errorf("got %+v", markdown)
	}
	files, err := os.ReadDir(".")
	if err != nil || len(files) != 3 {
		t.Errorf("got the files %v, %v", files, err)
	}
}

func TestLoadRefusals(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("no.json", []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := acceptingServer(t)
	for _, test := range []struct {
		args   string
		status int
		stderr string
	}{
		{"load --url http://192.0.2.1:8086", 1, "lineweir: load: 192.0.2.1: the target is not on this machine"},
		{"load --url http://127.0.0.1:1", 1, "lineweir: load: the target does not answer"},
		{"load --profile 1x", 1, "lineweir: load: step \"1x\" of the profile"},
		{"load --rate 5 --profile 1x:1s --duration 1s", 1, "lineweir: load: --duration and --profile"},
		{"load --memory 5", 1, "lineweir: load: the memory is 5 bytes"},
		{"load --memory 5X --start soon --source here --token @missing", 1, "lineweir: load: --token: open missing"},
		{"load --rate fast", 2, "lineweir: --rate"},
		{"load --shape cube", 2, "lineweir: --shape must be one of"},
		// What could not be written is said before anything is sent.
		{"load --url " + server.URL + " --points 10 --series 10 --json missing/a.json", 1, "lineweir: open missing"},
		{"load --url " + server.URL + " --points 10 --series 10 --json a --html b/a", 1, "lineweir: open b"},
		{"load report no.json missing.json", 1, "lineweir: no.json: this is no report of lineweir load"},
	} {
		got := run(t, nil, strings.Fields(test.args)...)
		if got.Status != test.status || !strings.HasPrefix(got.Stderr, test.stderr) || got.Stdout != "" {
			t.Errorf("%s: got %+v", test.args, got)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) != 1 {
		t.Errorf("got the files %v, %v", files, err)
	}
}

// The defaults of the flags are those of the package, and every flag reaches its option.
func TestLoadOptions(t *testing.T) {
	parse := func(args ...string) load.Options {
		var parsed grammar
		parser := newParser(&parsed, t.Output(), t.Output(), func(int) {})
		if _, err := parser.Parse(append([]string{"load"}, args...)); err != nil {
			t.Fatal(err)
		}
		options, err := parsed.Load.Run.options()
		if err != nil {
			t.Fatal(err)
		}
		return options
	}
	want := load.DefaultOptions()
	want.Version = "lineweir " + Version()
	if diff := cmp.Diff(encoded(t, want), encoded(t, parse())); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"f.lp": "m f=1\n", "token": "secret\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := parse("--url", "http://127.0.0.1:1/w", "--api", "v2", "--db", "d", "--org", "o", "--token", "@token",
		"--create-db", "--gzip", "--timeout", "2s", "--source", "127.0.0.9", "--one-source", "--allow-remote",
		"--shape", "cardinality", "--file", "f.lp", "--file-precision", "ms", "--batch", "7", "--seed", "3",
		"--start", "2027-01-01T00:00:00Z", "--interval", "1s", "--writers", "5", "--rate", "1.5M",
		"--profile", "2x:1s", "--points", "9k", "--on-refusal", "drop", "--retry-delay", "1s", "--buffer", "3",
		"--label", "l", "--note", "n", "--server-pid", "11", "--verify", "--memory", "32MiB")
	start := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	want = load.Options{
		Label: "l", Note: "n", Version: want.Version, ServerPID: 11, Verify: true, MemoryBytes: 32 << 20,
		Target: load.Target{
			URL: "http://127.0.0.1:1/w", API: load.APIV2, Database: "d", Org: "o", Token: "secret", Gzip: true,
			Create: true, AllowRemote: true, Timeout: 2 * time.Second, Source: got.Target.Source, OneSource: true,
		},
		Workload: load.Workload{
			Shape: load.ShapeCardinality, File: got.Workload.File, FilePrecision: time.Millisecond, Series: 1_000_000,
			Batch: 7, Seed: 3, Start: start, Interval: time.Second,
		},
		Pace:     load.Pace{Writers: 5, Rate: 1.5e6, Points: 9000, Profile: load.Profile{{Factor: 2, Duration: time.Second}}},
		Refusals: load.Refusals{Policy: load.Drop, Delay: time.Second, Buffer: 3},
	}
	if diff := cmp.Diff(encoded(t, want), encoded(t, got)); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if got.Target.Source.String() != "127.0.0.9" || !strings.HasSuffix(got.Workload.File, "f.lp") {
		t.Errorf("got %+v", got)
	}
	if got := parse("--points", "5").Pace.Duration; got != time.Hour {
		t.Errorf("a number of points may take %v, want an hour", got)
	}
	if got := parse("--start", "now").Workload.Start; time.Since(got) > time.Minute {
		t.Errorf("now is %v", got)
	}
}

// encoded makes options comparable.
func encoded(t *testing.T, o load.Options) string {
	t.Helper()
	o.Progress = nil
	text, err := json.MarshalIndent(struct{ A, B, C, D, E any }{
		o.Target, o.Workload, o.Pace, o.Refusals, []any{o.Label, o.Note, o.Version, o.ServerPID, o.Verify, o.MemoryBytes},
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestLoadAmounts(t *testing.T) {
	for text, want := range map[string]loadAmount{"0": 0, "5000": 5000, "5k": 5000, "1.5M": 1_500_000, "2G": 2e9} {
		var got loadAmount
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "k", "-1", "1kk", "NaN", "Inf", "1e99", "1K"} {
		var got loadAmount
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// Progress is for eyes: what is no terminal gets none.
func TestProgressNeedsATerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, w := range []io.Writer{io.Discard, file} {
		line := newProgressLine(w)
		line.show(load.Progress{})
		line.clear()
		if line.terminal != nil {
			t.Errorf("%T is taken for a terminal", w)
		}
	}
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("got %v, %v", info, err)
	}
}
