package ingest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestUnknownPaths covers: JSON in the shape that the path suggests, and never a 200.
func TestUnknownPaths(t *testing.T) {
	h := newTestHandler(t)
	for _, path := range []string{
		"/nope", "/write/", "/api/v2/api/v2/write", "/api/v2/buckets", "/api/v3/write", "/api/scan/x", "//write",
	} {
		answer := post(t, h, path, "m v=1i 1")
		text := message(t, path, answer)
		if answer.Code != http.StatusNotFound || answer.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d %v, want 404 JSON", path, answer.Code, answer.Header())
		}
		for _, want := range []string{"/write?db=", "/api/v2/write?bucket=", "/api/v3/write_lp?db="} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q does not name %s", path, text, want)
			}
		}
	}
}

func TestWrongMethods(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct{ method, path, allow string }{
		{"GET", "/write?db=d", "POST"},
		{"PUT", "/write?db=d", "POST"},
		{"GET", "/api/v2/write?bucket=d", "POST"},
		{"DELETE", "/api/v3/write_lp", "POST"},
		{"POST", "/ping", "GET, HEAD"},
		{"PUT", "/query", "GET, POST"},
		{"POST", "/api/compaction", "PUT"},
		{"BREW", "/api/scan", "GET"},
	} {
		answer := do(t, h, tc.method, tc.path, strings.NewReader("m v=1i 1"))
		if answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != tc.allow {
			t.Errorf("%s %s: got %d, Allow %q, want 405 and %q", tc.method, tc.path, answer.Code,
				answer.Header().Get("Allow"), tc.allow)
		}
		if text := message(t, tc.path, answer); !strings.Contains(text, tc.method) {
			t.Errorf("%s %s: got %q", tc.method, tc.path, text)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct {
		headers []string
		want    string // "": a new one
	}{
		{nil, ""},
		{[]string{"X-Request-Id", "a-1"}, "a-1"},
		{[]string{"Request-Id", "b-2"}, "b-2"},
		{[]string{"Request-Id", "b-2", "X-Request-Id", "a-1"}, "a-1"},
		{[]string{"X-Request-Id", "bad\x01"}, ""},
		{[]string{"X-Request-Id", strings.Repeat("x", 129)}, ""},
	} {
		answer := do(t, h, http.MethodGet, "/ping", nil, tc.headers...)
		got := answer.Header().Get("Request-Id")
		if got != answer.Header().Get("X-Request-Id") || tc.want != "" && got != tc.want ||
			tc.want == "" && (got == "" || len(tc.headers) == 2 && got == tc.headers[1]) {
			t.Errorf("%q: got %q, want %q", tc.headers, got, tc.want)
		}
	}
}

func TestVersionHeadersAreOnEveryAnswer(t *testing.T) {
	h := newTestHandler(t)
	for _, path := range []string{"/ping", "/nope", "/write", "/api/status"} {
		header := do(t, h, http.MethodGet, path, nil).Header()
		want := http.Header{"X-Influxdb-Version": {"1.8.10-lineweir-test"}, "X-Influxdb-Build": {"lineweir"}}
		got := http.Header{
			"X-Influxdb-Version": header["X-Influxdb-Version"], "X-Influxdb-Build": header["X-Influxdb-Build"],
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestAPanicIsAnswered(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	h := newTestHandler(t, func(o *Options) {
		o.Logger = zap.New(core)
		o.Scan = func(http.ResponseWriter, *http.Request) error { panic("partial write") }
	})
	answer := do(t, h, http.MethodGet, "/api/scan", nil, "X-Request-Id", "r-1")
	if text := message(t, "/api/scan", answer); answer.Code != http.StatusInternalServerError ||
		strings.Contains(text, "partial write") {
		t.Errorf("got %d %q, want 500 without the panic's text", answer.Code, text)
	}
	entries := logs.All()
	if len(entries) != 1 || entries[0].ContextMap()["request_id"] != "r-1" ||
		!strings.Contains(entries[0].ContextMap()["error"].(string), "router_test.go") {
		t.Errorf("got log %v, want one entry with the request and the stack", entries)
	}
}

func TestAFailureBehindTheFirstByteCutsTheConnection(t *testing.T) {
	for name, scan := range map[string]func(w http.ResponseWriter){
		"abort": func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"panic": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("half"))
			panic("half-way")
		},
	} {
		h := newTestHandler(t, func(o *Options) {
			o.Scan = func(w http.ResponseWriter, _ *http.Request) error {
				scan(w)
				return nil
			}
		})
		server := httptest.NewServer(h)
		response, err := http.Get(server.URL + "/api/scan")
		if err == nil {
			_, err = response.Body.Read(make([]byte, 100))
			_ = response.Body.Close()
		}
		server.Close()
		if err == nil {
			t.Errorf("%s: got a whole answer, want an error", name)
		}
	}
}

func TestErrorsOfAScan(t *testing.T) {
	var scanError error
	h := newTestHandler(t, func(o *Options) {
		o.Scan = func(http.ResponseWriter, *http.Request) error { return scanError }
	})
	for _, tc := range scanErrors() {
		scanError = tc.err
		answer := do(t, h, http.MethodGet, "/api/scan", nil)
		if got := message(t, "/api/scan", answer); answer.Code != tc.status || !strings.Contains(got, tc.want) {
			t.Errorf("%v: got %d %q, want %d with %q", tc.err, answer.Code, got, tc.status, tc.want)
		}
	}
}

// TestUnknownMethodsOfUnknownPaths are as unknown as their paths.
func TestUnknownMethodsOfUnknownPaths(t *testing.T) {
	h := newTestHandler(t)
	for _, method := range []string{"BREW", "PROPFIND", http.MethodOptions} {
		if answer := do(t, h, method, "/nope", nil); answer.Code != http.StatusNotFound {
			t.Errorf("%s: got %d %s, want 404", method, answer.Code, answer.Body)
		}
	}
}
