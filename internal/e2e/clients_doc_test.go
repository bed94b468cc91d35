package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCLIENTSNamesTheVersions requires that docs/CLIENTS.md names every client that the tests pin, in its version, and
// tests that exist.
func TestCLIENTSNamesTheVersions(t *testing.T) {
	text := readFile(t, filepath.Join(repository, "docs", "CLIENTS.md"))
	for client, version := range pinnedClients(t) {
		row := regexp.MustCompile(`(?m)^\|[^|\n]*` + regexp.QuoteMeta(client) + `[^|\n]*\| ` + regexp.QuoteMeta(version) + ` \|`)
		if !row.MatchString(text) {
			t.Errorf("docs/CLIENTS.md has no row of %s %s", client, version)
		}
	}
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, path := range paths {
		sources.WriteString(readFile(t, path))
	}
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(text, -1) {
		if !strings.Contains(sources.String(), "\nfunc "+name+"(t ") {
			t.Errorf("docs/CLIENTS.md names %s, which does not exist", name)
		}
	}
}

// pinnedClients returns the versions of the clients, by name.
func pinnedClients(t *testing.T) map[string]string {
	t.Helper()
	pinned := map[string]string{}
	modules := filepath.Join(repository, "testdata")
	direct := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`) // not the indirect ones
	for _, match := range direct.FindAllStringSubmatch(readFile(t, filepath.Join(modules, "clients", "go", "go.mod")), -1) {
		pinned["`"+match[1]+"`"] = match[2]
	}
	agent := regexp.MustCompile(regexp.QuoteMeta(telegrafModule) + ` (v\S+)`)
	version := agent.FindStringSubmatch(readFile(t, filepath.Join(modules, "telegraf", "go.mod")))
	if version == nil {
		t.Fatal("testdata/telegraf/go.mod does not require Telegraf")
	}
	for _, output := range []string{"influxdb", "influxdb_v2", "influxdb_v3"} {
		pinned["Telegraf `outputs."+output+"`"] = version[1]
	}
	var lock struct {
		Packages map[string]struct {
			Version      string            `json:"version"`
			Dependencies map[string]string `json:"dependencies"`
		} `json:"packages"`
	}
	text := readFile(t, filepath.Join(modules, "clients", "node", "package-lock.json"))
	if err := json.Unmarshal([]byte(text), &lock); err != nil {
		t.Fatal(err)
	}
	for name := range lock.Packages[""].Dependencies {
		pinned["npm `"+name+"`"] = lock.Packages["node_modules/"+name].Version
	}
	if len(pinned) != 8 {
		t.Errorf("%d clients are pinned: %v", len(pinned), pinned)
	}
	return pinned
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
