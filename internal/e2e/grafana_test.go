package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// dashboard is the part of a Grafana dashboard that the test judges.
type dashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// notPlotted are metrics that the dashboard leaves out, and why. One that ends in * is for all that begin so.
var notPlotted = map[string]string{
	"go_*":                                 "memory, limit and goroutines are plotted; the rest of the runtime is for developers",
	"process_virtual_memory_bytes":         "a Go process reserves address space that it never uses",
	"process_virtual_memory_max_bytes":     "the bound of what isn't plotted",
	"promhttp_metric_handler_errors_total": "tells of scrapes, which Prometheus shows by itself as up",
}

// TestGrafanaDashboard compares docs/grafana.json with /metrics, both ways.
func TestGrafanaDashboard(t *testing.T) {
	outside(t)
	if runtime.GOOS != "linux" {
		t.Skip("a process has other metrics on " + runtime.GOOS)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board dashboard
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	checkPanels(t, &board)
	s := start(t, t.TempDir(), tinyTier...)
	exposed := metricKinds(s.must(t, http.MethodGet, "/metrics", "", http.StatusOK).body)
	plotted := map[string]bool{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			for name := range metricNames(target.Expr, exposed) {
				plotted[name] = true
				if exposed[name] == "" {
					t.Errorf("panel %q plots %s, which /metrics doesn't have", panel.Title, name)
				}
			}
		}
	}
	for name := range exposed {
		if reason := whyNotPlotted(name); plotted[name] == (reason != "") && !strings.HasPrefix(name, "go_") {
			t.Errorf("%s: plotted is %v, but notPlotted says %q; plot it in docs/grafana.json or say there why not",
				name, plotted[name], reason)
		}
	}
	if !plotted["go_goroutines"] || len(plotted) < 50 {
		t.Errorf("only %d metrics are plotted", len(plotted))
	}
}

// checkPanels finds panels that lie over one another, and those that show nothing.
func checkPanels(t *testing.T, board *dashboard) {
	t.Helper()
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, panel := range board.Panels {
		if ids[panel.ID] || panel.Title == "" || (panel.Type != "row") != (len(panel.Targets) > 0) {
			t.Errorf("panel %d %q has the id of another, no title, or plots nothing", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies over %q or beyond the grid", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}

// metricKinds returns the type of each metric of an exposition.
func metricKinds(exposition string) map[string]string {
	kinds := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(exposition, -1) {
		kinds[match[1]] = match[2]
	}
	return kinds
}

// metricNames returns the metrics of an expression. The series of a histogram have its name and a suffix.
func metricNames(expression string, exposed map[string]string) map[string]bool {
	names := map[string]bool{}
	for _, match := range regexp.MustCompile(`([a-z][a-z0-9_]*)\{`).FindAllStringSubmatch(expression, -1) {
		name := match[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); exposed[base] == "histogram" {
				name = base
			}
		}
		names[name] = true
	}
	return names
}

// whyNotPlotted returns the reason, empty if there is none.
func whyNotPlotted(name string) string {
	if reason := notPlotted[name]; reason != "" {
		return reason
	}
	for pattern, reason := range notPlotted {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(name, prefix) {
			return reason
		}
	}
	return ""
}
