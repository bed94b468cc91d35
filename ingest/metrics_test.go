package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lineweir/shard"
)

// exposed returns the lines of /metrics.
func exposed(t *testing.T, h *Handler) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for _, line := range strings.Split(do(t, h, http.MethodGet, "/metrics", nil).Body.String(), "\n") {
		if name, value, ok := strings.Cut(line, "} "); ok {
			lines[name+"}"] = value
		} else if name, value, ok = strings.Cut(line, " "); ok && name != "#" {
			lines[name] = value
		}
	}
	return lines
}

func TestCountersAreThereBeforeTheyCount(t *testing.T) {
	lines := exposed(t, newTestHandler(t))
	for _, cause := range shard.Causes() {
		if got := lines[fmt.Sprintf("lineweir_refused_total{cause=%q}", cause)]; got != "0" {
			t.Errorf("%s: got %q, want 0", cause, got)
		}
	}
	for _, api := range writeAPIs() {
		for _, outcome := range outcomes() {
			name := fmt.Sprintf("lineweir_write_requests_total{api=%q,outcome=%q}", api.path, outcome)
			if got := lines[name]; got != "0" {
				t.Errorf("%s: got %q, want 0", name, got)
			}
		}
	}
	for _, fault := range Faults() {
		if got := lines[fmt.Sprintf("lineweir_write_lines_refused_total{fault=%q}", fault)]; got != "0" {
			t.Errorf("%s: got %q, want 0", fault, got)
		}
	}
}

func TestMetricsCountWrites(t *testing.T) {
	h := newTestHandler(t)
	post(t, h, "/write?db=d", "m v=1i 1\nm v=2i 2")
	post(t, h, "/write?db=d", gzipped(t, "m v=3i 3\nm v=bad 4"), "Content-Encoding", "gzip")
	post(t, h, "/api/v2/write?bucket=d&precision=h", "m v=3i 3")
	fake(h).unavailable = busy(shard.CauseWALFull)
	post(t, h, "/api/v3/write_lp?db=d", "m v=1i 1")
	lines := exposed(t, h)
	for name, want := range map[string]string{
		`lineweir_write_requests_total{api="/write",outcome="accepted"}`:           "1",
		`lineweir_write_requests_total{api="/write",outcome="bad_lines"}`:          "1",
		`lineweir_write_requests_total{api="/api/v2/write",outcome="bad_request"}`: "1",
		`lineweir_write_requests_total{api="/api/v3/write_lp",outcome="wal_full"}`: "1",
		`lineweir_write_points_total`:                                              "3",
		`lineweir_write_lines_refused_total{fault="syntax"}`:                       "1",
		`lineweir_write_body_bytes_total{form="text"}`:                             "35",
		`lineweir_write_stage_seconds_count{stage="read"}`:                         "2",
		`lineweir_write_stage_seconds_count{stage="parse"}`:                        "2",
		`lineweir_write_stage_seconds_count{stage="write"}`:                        "2",
		`lineweir_write_stage_seconds_count{stage="whole"}`:                        "2",
		`lineweir_write_stage_seconds_count{stage="refused"}`:                      "2",
		`lineweir_write_in_flight_bytes`:                                           "0",
		`lineweir_admitted_total`:                                                  "2",
		`lineweir_state{state="ready"}`:                                            "1",
		`lineweir_shard_max_bytes{shard="1"}`:                                      "1.6777216e+07",
		`lineweir_tier_capacity_bytes`:                                             "1.34217728e+08",
	} {
		if got := lines[name]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
