package ingest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/shard"
)

// TestProbes covers A-35.
func TestProbes(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct {
		method, path string
		status       int
		want         string // part of the body; "": none
	}{
		{"GET", "/ping", 204, ""},
		{"HEAD", "/ping", 204, ""},
		{"GET", "/ping?verbose=false", 204, ""},
		{"GET", "/ping?verbose=true", 200, `{"version":"1.8.10-lineweir-test"}`},
		{"GET", "/health", 200, `"status":"pass"`},
		{"HEAD", "/health", 200, `"name":"lineweir"`},
		{"GET", "/ready", 200, `"status":"ready"`},
		{"GET", "/", 200, `"path":"/api/v3/write_lp"`},
		{"GET", "/metrics", 200, "lineweir_tier_capacity_bytes"},
		{"GET", "/api/status", 200, `"in_flight":{"bytes":0,"max_bytes":268435456}`},
	} {
		answer := do(t, h, tc.method, tc.path, nil)
		body := answer.Body.String()
		if answer.Code != tc.status || !strings.Contains(body, tc.want) || tc.want == "" && body != "" {
			t.Errorf("%s %s: got %d %s, want %d with %q", tc.method, tc.path, answer.Code, body, tc.status, tc.want)
		}
	}
}

func TestIndexListsEveryRoute(t *testing.T) {
	h := newTestHandler(t)
	body := do(t, h, http.MethodGet, "/", nil).Body.String()
	for _, route := range h.router.Routes() {
		if !strings.Contains(body, `"path":"`+route.Pattern+`"`) {
			t.Errorf("GET / does not list %s", route.Pattern)
		}
	}
}

func TestNotReadyWhileNothingIsWritten(t *testing.T) {
	for _, tc := range []struct {
		cause  string
		health int
	}{
		{shard.CauseRecovering, 200}, {shard.CauseDraining, 200}, {shard.CauseDiskLow, 200}, {shard.CauseReadOnly, 503},
	} {
		h := newTestHandler(t)
		fake(h).unavailable = busy(tc.cause)
		answer := do(t, h, http.MethodGet, "/ready", nil)
		body := object(t, answer.Body.Bytes())
		if answer.Code != http.StatusServiceUnavailable || body["cause"] != tc.cause || body["status"] != "not ready" ||
			body["recovery"] == nil || answer.Header().Get("Retry-After") != "7" {
			t.Errorf("%s: ready: got %d %v %v", tc.cause, answer.Code, answer.Header(), body)
		}
		if answer = do(t, h, http.MethodGet, "/health", nil); answer.Code != tc.health {
			t.Errorf("%s: health: got %d, want %d", tc.cause, answer.Code, tc.health)
		}
	}
}

func TestADrainingEngineRefuses(t *testing.T) {
	h := newTestHandler(t)
	h.engine.Drain()
	for _, path := range []string{"/write?db=d", "/api/v2/write?bucket=d", "/api/v3/write_lp?db=d", "/api/seal"} {
		answer := post(t, h, path, "m v=1i 1")
		body := object(t, answer.Body.Bytes())
		if answer.Code != http.StatusServiceUnavailable || body["cause"] != "draining" {
			t.Errorf("%s: got %d %v, want 503 while draining", path, answer.Code, body)
		}
	}
}

func TestSeal(t *testing.T) {
	h := newTestHandler(t)
	if answer := post(t, h, "/write?db=d", "m v=1i 1"); answer.Code != http.StatusNoContent {
		t.Fatalf("got %d", answer.Code)
	}
	for _, tc := range []struct {
		path   string
		status int
		want   map[string]any
	}{
		{"/api/seal?wait=true", 200, map[string]any{"flushes": 1.0, "done": true}},
		{"/api/seal", 202, map[string]any{"flushes": 0.0, "done": false}},
		{"/api/seal?wait=1", 200, map[string]any{"flushes": 0.0, "done": true}},
	} {
		answer := post(t, h, tc.path, "")
		if diff := cmp.Diff(tc.want, object(t, answer.Body.Bytes())); diff != "" || answer.Code != tc.status {
			t.Errorf("%s: got %d (-want +got):\n%s", tc.path, answer.Code, diff)
		}
	}
	if answer := post(t, h, "/api/seal?wait=perhaps", ""); answer.Code != http.StatusBadRequest {
		t.Errorf("got %d, want 400", answer.Code)
	}
	if got := points(t, h, "d", "m"); !cmp.Equal(got, []string{"1 v=1"}) {
		t.Errorf("got points %q after the flush", got)
	}
}

func TestCompactionIsChangedInParts(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct {
		body   string
		status int
		want   map[string]any // nil: an error
	}{
		{`{"max_bytes_per_second":1000000}`, 200, map[string]any{"max_bytes_per_second": 1e6, "paused": false}},
		{`{"paused":true}`, 200, map[string]any{"max_bytes_per_second": 1e6, "paused": true}},
		{`{}`, 200, map[string]any{"max_bytes_per_second": 1e6, "paused": true}},
		{` {"paused":false,"max_bytes_per_second":0} `, 200,
			map[string]any{"max_bytes_per_second": 0.0, "paused": false}},
		{`{"max_bytes_per_second":-1}`, 400, nil},
		{`{"max_bytes":1}`, 400, nil},
		{`{"paused":"yes"}`, 400, nil},
		{`{"paused":true}{}`, 400, nil},
		{``, 400, nil},
		{strings.Repeat(" ", compactionBodyBytesMax) + `{}`, 400, nil},
	} {
		answer := do(t, h, http.MethodPut, "/api/compaction", strings.NewReader(tc.body))
		if answer.Code != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.body, answer.Code, answer.Body, tc.status)
		}
		if tc.want == nil {
			message(t, "/api/compaction", answer)
			continue
		}
		if diff := cmp.Diff(tc.want, object(t, answer.Body.Bytes())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.body, diff)
		}
	}
}
