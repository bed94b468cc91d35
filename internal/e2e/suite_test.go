package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// suiteLimit is far above what the short suite takes on a machine that is ten times slower.
const suiteLimit = 6 * time.Minute

// suiteScenarios are those that lineweir load suite has.
var suiteScenarios = []string{
	"maximum", "overload", "fits", "recovery", "metastability", "fairness", "refusals", "memory",
}

// startSuite runs lineweir load suite --short with a temporary directory of its own.
func startSuite(t *testing.T, arguments ...string) (*process, string) {
	t.Helper()
	path, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	cmd := exec.Command(path, append([]string{"load", "suite", "--short"}, arguments...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(foreignEnvironment(), "TMPDIR="+tmp)
	return startProcess(t, cmd), tmp
}

// The short suite judges only what no busy machine can spoil: the bound, memory, what was acknowledged, and that
// refusals say why and until when. Every scenario yields its figures, and nothing is left behind.
func TestSuiteInShort(t *testing.T) {
	outside(t)
	records := t.TempDir()
	suite, tmp := startSuite(t, "--json", records)
	if code := suite.wait(t, suiteLimit); code != 0 {
		t.Errorf("the suite exited with status %d", code)
	}
	for _, name := range suiteScenarios {
		text, err := os.ReadFile(filepath.Join(records, "suite-"+name+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		var record struct {
			Figures map[string]float64
			Failure string
		}
		if err := json.Unmarshal(text, &record); err != nil || len(record.Figures) == 0 || record.Failure != "" {
			t.Errorf("%s: got %v, %q, %v", name, record.Figures, record.Failure, err)
		}
	}
	leftNothing(t, tmp)
}

// A suite that is interrupted stops its server and removes its files.
func TestAnInterruptedSuiteLeavesNothing(t *testing.T) {
	outside(t)
	suite, tmp := startSuite(t, "--only", "maximum")
	eventually(t, readyLimit, "a server has its data directory", func() bool {
		found, err := filepath.Glob(filepath.Join(tmp, "*", "server-*", "data", "LOCK"))
		return err == nil && len(found) > 0
	})
	suite.signal(t, syscall.SIGTERM)
	if code := suite.wait(t, 2*stopLimit); code != 1 {
		t.Errorf("the suite exited with status %d, want 1", code)
	}
	leftNothing(t, tmp)
}

// leftNothing fails the test if a directory isn't empty.
func leftNothing(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
