package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testMachine is the smallest machine that the defaults are made for.
var testMachine = Machine{CPUs: 2, MemoryBytes: 4 << 30}

// writeFile writes text into a file of the working directory, which it makes a fresh one.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t *testing.T, source Source) *Loaded {
	t.Helper()
	loaded, err := Load(source, testMachine)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestPrecedence(t *testing.T) {
	writeFile(t, "config.yaml", "data_dir: file\nshards: 3\nlog:\n  level: warn\n")
	source := Source{
		Environment: []string{"LINEWEIR_DATA_DIR=environment", "LINEWEIR_SHARDS=4", "HOME=/"},
		Settings:    []string{"data_dir=first", "data_dir=flag"},
	}
	got := mustLoad(t, source).Config
	if got.DataDir != "flag" || got.Shards != 4 || got.Log.Level != "warn" || got.HTTP.Listen != "127.0.0.1:8086" {
		t.Errorf("got data_dir %s, shards %d, log.level %s, http.listen %s, want flag, 4, warn and the default",
			got.DataDir, got.Shards, got.Log.Level, got.HTTP.Listen)
	}
}

func TestChoiceOfTheFile(t *testing.T) {
	writeFile(t, "config.yaml", "data_dir: standard\n")
	if err := os.WriteFile("other.yaml", []byte("data_dir: other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for _, test := range []struct{ directory, file, origin, dataDir string }{
		{".", "", "./config.yaml", "standard"},
		{".", "other.yaml", "other.yaml", "other"},
		{empty, "", "built-in defaults", "./data"},
	} {
		t.Run(test.origin, func(t *testing.T) {
			t.Chdir(test.directory)
			got := mustLoad(t, Source{File: test.file})
			if got.Origin != test.origin || got.Config.DataDir != test.dataDir {
				t.Errorf("got %s, %s, want %s, %s", got.Origin, got.Config.DataDir, test.origin, test.dataDir)
			}
		})
	}
}

func TestUnknownVariablesAreWarnedAbout(t *testing.T) {
	t.Chdir(t.TempDir())
	got := mustLoad(t, Source{Environment: []string{
		"LINEWEIR_TYPO=1", "LINEWEIR_HTTP_LISTENS=:1", "LINEWEIR_REQUIRE=telegraf,duckdb", "OTHER_VARIABLE=1",
	}}).Warnings
	want := []string{
		"the environment variable LINEWEIR_HTTP_LISTENS sets nothing",
		"the environment variable LINEWEIR_TYPO sets nothing",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestProblems(t *testing.T) {
	for _, test := range []struct {
		name     string
		file     string
		settings []string
		want     []string
	}{
		{name: "an empty file sets nothing"},
		{name: "comments set nothing", file: "# nothing\n"},
		{name: "an empty document sets nothing", file: "---\n"},
		{
			name: "all at once, each with its place",
			file: "http:\n  listen: nowhere\n  listening: 1\nwal:\nlimits: {}\ndisk: 5\ndata_dir:\nlog:\n  level: \"\"\n" +
				"shards: [1]\nshard: 2\nadmission:\n  max_wait: 1s\n  max_wait: 2s\n",
			settings: []string{"memtable.max_rows=many", "memtable=1", "verbose"},
			want: []string{
				`test.yaml:2: http.listen: "nowhere" is not an address such as 127.0.0.1:8086`,
				"test.yaml:3: unknown key http.listening",
				"test.yaml:4: the section wal is empty",
				"test.yaml:5: the section limits is empty",
				"test.yaml:6: disk is a section: its keys stand below it, indented",
				"test.yaml:7: data_dir: the value is empty",
				"test.yaml:9: log.level: the value is empty",
				"test.yaml:10: shards takes a single value",
				"test.yaml:11: unknown key shard",
				"test.yaml:14: admission.max_wait is set twice",
				`environment variable LINEWEIR_LOG_LEVEL: log.level: "loud" is none of debug, info, warn, error`,
				`command line: memtable.max_rows: "many" is not a whole number`,
				"--set memtable=1: unknown key memtable",
				"--set verbose: write it as key=value",
			},
		},
		{
			name: "broken YAML is one problem",
			file: "http:\n\tlisten: x\n",
			want: []string{
				"test.yaml: line 2: found character that cannot start any token",
				`environment variable LINEWEIR_LOG_LEVEL: log.level: "loud" is none of debug, info, warn, error`,
			},
		},
		{name: "not a mapping", file: "- shards\n", want: []string{`test.yaml:1: want settings written as "key: value"`}},
		{name: "two documents", file: "shards: 1\n---\nshards: 2\n",
			want: []string{"test.yaml: want one document, found a second"}},
		{name: "a dotted key is not a path", file: "wal.max_bytes: 1GiB\n",
			want: []string{"test.yaml:1: write wal.max_bytes as the key max_bytes in the section wal"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			writeFile(t, "test.yaml", test.file)
			source := Source{File: "test.yaml", Settings: test.settings}
			if len(test.want) > 1 {
				source.Environment = []string{"LINEWEIR_LOG_LEVEL=loud"}
			}
			_, err := Load(source, testMachine)
			if diff := cmp.Diff(test.want, problemsOf(t, err)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func problemsOf(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok {
		t.Fatalf("got %T %v, want *InvalidError", err, err)
	}
	return invalid.Problems
}

func TestMissingFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "missing.yaml")
	_, err := Load(Source{File: name, Settings: []string{"shards=x"}}, testMachine)
	want := []string{
		"read the configuration: open " + name + ": no such file or directory",
		`command line: shards: "x" is not a whole number`,
	}
	if diff := cmp.Diff(want, problemsOf(t, err)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// FuzzReadFile: no text of a file panics, and what is taken from it lies in its range.
func FuzzReadFile(f *testing.F) {
	for _, seed := range []string{
		"shards: 2\n", "wal: {max_bytes: 1GiB}\n", "a: &a\n  b: *a\n", "wal: &w\n  file_bytes: 1MiB\nhttp: *w\n", "? [x]\n: y\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var found problems
		for path, value := range readFile("fuzz.yaml", text, &found) {
			if k := findKey(path); !k.allows(value) {
				t.Errorf("took %s: %v", path, value)
			}
		}
	})
}
