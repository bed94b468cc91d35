package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shellErr says why the shell of InfluxDB 1 can't be had. Version 2 has another program of the same name.
func shellErr() error {
	if err := found("influx"); err != nil {
		return err
	}
	output, err := exec.Command("influx", "-version").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "shell version: 1.") {
		return fmt.Errorf("influx is not the shell of version 1: %s", output)
	}
	return nil
}

// shell runs the shell of InfluxDB 1 and returns what it printed.
func shell(t *testing.T, s *server, status int, flags ...string) string {
	t.Helper()
	host, port, _ := strings.Cut(s.address, ":")
	cmd := exec.Command("influx", append([]string{"-host", host, "-port", port}, flags...)...)
	cmd.Env = append(foreignEnvironment(), "HOME="+t.TempDir()) // it keeps a history
	if s.authority != "" {
		cmd.Args = append(cmd.Args, "-ssl")
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+s.authority)
	}
	return ends(t, cmd, status)
}

// says fails the test unless the text matches the regular expression.
func says(t *testing.T, what, text, pattern string) {
	t.Helper()
	if !regexp.MustCompile(`(?s)` + pattern).MatchString(text) {
		t.Errorf("%s printed %q, want %q", what, tail(text, 2000), pattern)
	}
}

func TestInfluxShell(t *testing.T) {
	outside(t)
	require(t, "clients", shellErr())
	t.Run("import", testShellImport)
	t.Run("execute", testShellExecute)
	t.Run("tokens over TLS", testShellTokens)
	t.Run("shut gate", testShellGate)
}

// testShellImport imports a dump, plain and compressed. Of a batch with a bad line the good ones are stored, though the
// shell reports all of it as not inserted.
func testShellImport(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	lines := knownLines(0, 300)
	for i, bad := range []string{"", `known,series=s1 f="text" 1` + "\n"} {
		database := fmt.Sprintf("imported%d", i)
		dump := "# DDL\nCREATE DATABASE " + database + "\n# DML\n# CONTEXT-DATABASE: " + database +
			"\n# CONTEXT-RETENTION-POLICY: autogen\n" + lines + bad
		plain, compressed := filepath.Join(t.TempDir(), "dump"), filepath.Join(t.TempDir(), "dump.gz")
		for path, text := range map[string][]byte{plain: []byte(dump), compressed: gzipped(t, dump)} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		status, prints := 0, `Failed 0 inserts`
		if bad != "" {
			status, prints = 1, `partial write: .*field type conflict.*dropped=1.*ERROR: 301 points were not inserted`
		}
		says(t, "import", shell(t, s, status, "-import", "-path", plain, "-precision", "ns"), prints)
		says(t, "import", shell(t, s, status, "-import", "-compressed", "-path", compressed), prints)
		want, err := parsePoints(lines)
		if err != nil {
			t.Fatal(err)
		}
		s.holds(t, database, database, want, "known")
	}
	s.stop(t)
}

func testShellExecute(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	for _, test := range []struct {
		flags  []string
		status int
		prints string
	}{
		{[]string{"-execute", `CREATE DATABASE weir`}, 0, `^$`},
		{[]string{"-execute", `INSERT known,a=b\ c f=1i,s="x y \" z",t=true 5`}, 0, `^$`},
		{[]string{"-execute", `INSERT known,a=b\ c f=2i 7`, "-precision", "s", "-consistency", "all"}, 0, `^$`},
		{[]string{"-execute", `INSERT INTO week known f=3i 9`}, 0, `^$`},
		{[]string{"-execute", `INSERT known f=1.5 6`}, 0, `^ERR: \{"error":"partial write: unable to parse .*field type conflict`},
		{[]string{"-execute", `SHOW MEASUREMENTS; SHOW FIELD KEYS`, "-format", "csv"}, 0, `known,f,integer\nknown,s,string\nknown,t,boolean`},
		{[]string{"-execute", `SHOW TAG VALUES WITH KEY = a`, "-format", "json"}, 0, `"values":\[\["a","b c"\]\]`},
		{[]string{"-execute", `SHOW DATABASES`}, 0, `^name: databases\nname\n----\nweir\nweir/week\n`},
		{[]string{"-execute", `SELECT * FROM known`}, 1, `^ERR: SELECT is not supported; read points with GET /api/scan\?db=weir&measurement=known`},
	} {
		says(t, strings.Join(test.flags, " "), shell(t, s, test.status, append(test.flags, "-database", "weir")...), test.prints)
	}
	want, err := parsePoints("known,a=b\\ c f=1i,s=\"x y \\\" z\",t=true 5\nknown,a=b\\ c f=2i 7000000000\n")
	if err != nil {
		t.Fatal(err)
	}
	s.holds(t, "INSERT", "weir", want, "known")
	if got := s.count(t, "weir/week", "known"); got != 1 {
		t.Errorf("the retention policy holds %d points, want 1", got)
	}
	s.stop(t)
}

func testShellTokens(t *testing.T) {
	t.Parallel()
	s := startGuarded(t)
	secret := s.createToken(t, "--write", "weir")
	insert := []string{"-username", "any", "-execute", `INSERT known f=1 5`}
	says(t, "an unknown token", shell(t, s, 0, append(insert, "-password", "lw_unknown", "-database", "weir")...),
		`^ERR: \{"error":"the token is not known`)
	says(t, "the wrong database", shell(t, s, 0, append(insert, "-password", secret, "-database", "other")...),
		`^ERR: \{"error":"the token may not write the database`)
	says(t, "the right one", shell(t, s, 0, append(insert, "-password", secret, "-database", "weir")...), `^$`)
	if got := s.count(t, "weir", "known"); got != 1 {
		t.Errorf("%d points are stored, want 1", got)
	}
	if stored := s.databases(t); slices.Contains(stored, "other") {
		t.Errorf("the server has the databases %v after what it refused", stored)
	}
	s.stop(t)
}

// testShellGate imports against a shut gate. The shell doesn't come back by itself.
func testShellGate(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), tinyTier...)
	s.drain(t, true)
	fillTier(t, s)
	lines := knownLines(100_000, 200)
	path := filepath.Join(t.TempDir(), "dump")
	dump := "# DML\n# CONTEXT-DATABASE: gate\n" + lines
	if err := os.WriteFile(path, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, "import", shell(t, s, 1, "-import", "-path", path), `"refused for now: .*"cause":"l0_full".*ERROR: 200 points were not`)
	s.drain(t, false)
	eventually(t, time.Minute, "a write is accepted after the gate opened", func() bool {
		got, err := s.send(t.Context(), http.MethodPost, "/write?db=probe", lines)
		return err == nil && got.status == http.StatusNoContent
	})
	says(t, "import", shell(t, s, 0, "-import", "-path", path), `Failed 0 inserts`)
	want, err := parsePoints(lines)
	if err != nil {
		t.Fatal(err)
	}
	s.holds(t, "after the gate opened", "gate", want, "known")
	s.stop(t)
}
