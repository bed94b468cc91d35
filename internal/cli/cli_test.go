package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lineweir/internal/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// outcome is all that a call of the command line leaves behind.
type outcome struct {
	Status         int
	Stdout, Stderr string
}

// recordingCommands record what they were called with on standard output.
func recordingCommands(stdout io.Writer, failure error) Commands {
	return Commands{
		Serve: func(_ context.Context, loaded *config.Loaded) error {
			fmt.Fprintf(stdout, "serve %s %s %s\n", loaded.Origin, loaded.Config.HTTP.Listen, loaded.Config.DataDir)
			return failure
		},
		WALDump: func(_ context.Context, dir string, w io.Writer) error {
			fmt.Fprintf(w, "dump %s\n", dir)
			return failure
		},
		Check: func(_ context.Context, dir string, w io.Writer) error {
			fmt.Fprintf(w, "check %s\n", dir)
			return failure
		},
		Repair: func(_ context.Context, dir string, acceptLoss bool, w io.Writer) error {
			fmt.Fprintf(w, "repair %s %v\n", dir, acceptLoss)
			return failure
		},
		Scan: func(_ context.Context, dir string, parameters url.Values, w io.Writer) error {
			fmt.Fprintf(w, "scan %s %s\n", dir, parameters.Encode())
			return failure
		},
		Backup: func(_ context.Context, dir, dest string, w io.Writer) error {
			fmt.Fprintf(w, "backup %s %s\n", dir, dest)
			return failure
		},
	}
}

func run(t *testing.T, failure error, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := Run(t.Context(), args, &stdout, &stderr, recordingCommands(&stdout, failure))
	return outcome{status, stdout.String(), stderr.String()}
}

func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("LINEWEIR_DATA_DIR", "fromenvironment")
	if err := os.WriteFile("bad.yaml", []byte("shard: 2\nwal:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("good.yaml", []byte("http:\n  listen: :1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const usage = " (lineweir --help explains the usage)\n"
	for _, test := range []struct {
		args string
		want outcome
	}{
		{"", outcome{0, "serve built-in defaults 127.0.0.1:8086 fromenvironment\n", ""}},
		{"serve", outcome{0, "serve built-in defaults 127.0.0.1:8086 fromenvironment\n", ""}},
		{"--listen :2 --data-dir d", outcome{0, "serve built-in defaults :2 d\n", ""}},
		{"serve --data-dir d --set data_dir=e --set http.listen=:3", outcome{0, "serve built-in defaults :3 d\n", ""}},
		{"--config good.yaml", outcome{0, "serve good.yaml :1 fromenvironment\n", ""}},
		{"--config bad.yaml --listen=", outcome{1, "", "lineweir: bad.yaml:1: unknown key shard\n" +
			"lineweir: bad.yaml:2: the section wal is empty\n" +
			"lineweir: command line: http.listen: the value is empty\n"}},
		{"wal dump some/dir", outcome{0, "dump some/dir\n", ""}},
		{"repair some/dir", outcome{0, "repair some/dir false\n", ""}},
		{"repair --accept-loss some/dir", outcome{0, "repair some/dir true\n", ""}},
		{"scan some/dir --db d --measurement m --limit 3",
			outcome{0, "scan some/dir db=d&format=lp&limit=3&measurement=m\n", ""}},
		{"backup some/dir other/dir", outcome{0, "backup some/dir other/dir\n", ""}},
		{"check some/dir", outcome{0, "check some/dir\n", ""}},
		{"config check good.yaml", outcome{0, "good.yaml: nothing is wrong\n", ""}},
		{"config check bad.yaml", outcome{1, "", "lineweir: bad.yaml:1: unknown key shard\n" +
			"lineweir: bad.yaml:2: the section wal is empty\n"}},
		{"bogus", outcome{2, "", "lineweir: unexpected argument bogus" + usage}},
		{"--bogus", outcome{2, "", "lineweir: unknown flag --bogus" + usage}},
		{"wal", outcome{2, "", `lineweir: expected "dump"` + usage}},
		{"check", outcome{2, "", `lineweir: expected "<dir>"` + usage}},
	} {
		t.Run(test.args, func(t *testing.T) {
			if diff := cmp.Diff(test.want, run(t, nil, strings.Fields(test.args)...)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// What a command wrote before it failed is kept, and its error is one line.
func TestFailuresOfCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	failure := errors.New("listen on :1: permission denied")
	for args, stdout := range map[string]string{
		"--listen :1": "serve built-in defaults :1 ./data\n", "wal dump d": "dump d\n", "check d": "check d\n",
	} {
		want := outcome{1, stdout, "lineweir: listen on :1: permission denied\n"}
		if diff := cmp.Diff(want, run(t, failure, strings.Fields(args)...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestDefaultConfigurationIsAccepted(t *testing.T) {
	t.Chdir(t.TempDir())
	written := run(t, nil, "config", "default")
	if err := os.WriteFile("config.yaml", []byte(written.Stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	want := outcome{0, "serve ./config.yaml 127.0.0.1:8086 ./data\n", ""}
	if diff := cmp.Diff(want, run(t, nil)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestVersion(t *testing.T) {
	got := run(t, nil, "version")
	if got.Status != 0 || !strings.HasPrefix(got.Stdout, "lineweir "+Version()+" go") {
		t.Errorf("got %+v", got)
	}
}

// The golden files are what an operator reads: go test ./internal/cli -update writes them anew.
func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for name, args := range map[string][]string{
		"lineweir": {"--help"}, "scan": {"scan", "--help"}, "wal-dump": {"wal", "dump", "--help"},
		"token-create": {"token", "create", "--help"}, "token-revoke": {"token", "revoke", "--help"},
		"check": {"check", "--help"}, "backup": {"backup", "--help"}, "config-check": {"config", "check", "--help"},
		"load": {"load", "--help"}, "load-run": {"load", "run", "--help"}, "load-report": {"load", "report", "--help"},
	} {
		golden := filepath.Join("testdata", "help-"+name+".txt")
		got := run(t, nil, args...)
		if *update {
			if err := os.WriteFile(golden, []byte(got.Stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outcome{Stdout: string(text)}, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", args, diff)
		}
	}
}
