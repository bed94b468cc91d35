package suite

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/load"
)

// made is what WriteBenchmarks makes of a directory.
func made(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	if err := WriteBenchmarks(&b, dir); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// docs/BENCHMARKS.md says what the files say, and all of it is of the real suite.
func TestBenchmarksAreThoseOfTheFiles(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	got, err := os.ReadFile(filepath.Join(docs, "BENCHMARKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(docs, "benchmarks")
	if diff := cmp.Diff(made(t, dir), string(got)); diff != "" {
		t.Errorf("`lineweir load benchmarks docs/benchmarks` makes another text (-want +got):\n%s", diff)
	}
	evidence, err := readEvidence(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range evidence.records {
		if r.Short {
			t.Errorf("%s is of the short form", r.Scenario)
		}
	}
	for _, run := range evidence.runs {
		if len(run.reports) < 3 {
			t.Errorf("%s has %d servers, want lineweir and two others", run.name, len(run.reports))
		}
	}
}

// writeEvidence makes a directory with a record of each scenario and two reports of a run.
func writeEvidence(t *testing.T, figures Figures) string {
	t.Helper()
	dir := t.TempDir()
	for i := range scenarios {
		record := (&bench{form: long(), version: "lineweir test", maximum: 1}).newRecord(&scenarios[i])
		record.Figures = figures
		if err := record.writeInto(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"abacus", "lineweir"} {
		r := &load.Report{Format: 1, Label: name, Note: "on paper"}
		r.Run.Seconds, r.Totals.Acknowledged = 2, 100
		file, err := os.Create(filepath.Join(dir, "peer-flat-"+name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.WriteJSON(file), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A gate that is missed is the first thing that is said.
func TestAMissedGateIsSaid(t *testing.T) {
	figures := good()
	figures["unread_ratio"] = 2
	text := made(t, writeEvidence(t, figures))
	for _, part := range []string{
		"11 of 12 gates were passed", "\n- **MISSED: refusal cost, unread** (2.0 × (after parsing 3.0 ×); the gate is refusals/s",
		"| refusal cost, unread | 2.0 ×", "| jain | 0.95 |",
		"| lineweir | on paper | 50 | 0.0 ms | 0.0 ms | – | – | – | – |\n| abacus |",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("nothing says %q in:\n%s", part, text)
		}
	}
	if text = made(t, writeEvidence(t, good())); !strings.Contains(text, "12 of 12 gates") || strings.Contains(text, "MISSED") {
		t.Errorf("got:\n%s", text)
	}
}

func TestEvidenceThatIsNone(t *testing.T) {
	dir := writeEvidence(t, good())
	for name, text := range map[string]string{
		"suite-fits.json": "[]", "suite-memory.json": `{"format":9}`, "peer-rate-x.json": "{}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "suite-overload.json")); err != nil {
		t.Fatal(err)
	}
	err := WriteBenchmarks(io.Discard, dir)
	if !errors.Is(err, ErrRecord) || !errors.Is(err, load.ErrReport) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
