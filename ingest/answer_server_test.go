package ingest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestWhatTheServerAnswersItselfIsJSON sends what net/http refuses before any endpoint of ours, on a new connection and
// on one that was used. An agent keeps what is refused in plain text for ever.
func TestWhatTheServerAnswersItselfIsJSON(t *testing.T) {
	h := newTestHandler(t)
	listener := loopback(t)
	serve(t, h, listener)
	const body = "Content-Length: 8\r\n\r\nm v=1i 1"
	for _, tc := range []struct {
		name, request string
		status        int
		text          string
	}{
		{"a header too long", "POST /write?db=d HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n" + body,
			431, "Request Header Fields Too Large"},
		{"a URL too long", "POST /write?db=" + strings.Repeat("x", 100<<10) + " HTTP/1.1\r\nHost: x\r\n" + body,
			431, "Request Header Fields Too Large"},
		{"no host", "POST /write?db=d HTTP/1.1\r\n" + body, 400, "missing required Host header"},
		{"a broken header", "POST /write?db=d HTTP/1.1\r\nHost: x\r\nA B\r\n" + body, 400, "Bad Request"},
		{"a broken URL", "POST /write?db=d\x01 HTTP/1.1\r\nHost: x\r\n" + body, 400, "Bad Request"},
		{"two lengths", "POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n" + body, 400, "Bad Request"},
		{"no HTTP", "m v=1i 1\n\n", 400, "Bad Request"},
		{"a framing of another kind", "POST /write?db=d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501,
			"Unsupported transfer encoding"},
		{"HTTP of another version", "POST /write?db=d HTTP/3.0\r\nHost: x\r\n" + body, 505, "unsupported protocol version"},
		{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404, "there is no"},
		{"an expectation of another kind", "POST /write?db=d HTTP/1.1\r\nHost: x\r\nExpect: y\r\n" + body, 417,
			"Expectation Failed"},
		{"OPTIONS of nothing", "OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404, "there is no"},
	} {
		for _, used := range []bool{false, true} {
			c := dialTCP(t, listener)
			if used {
				c.hold(t)
			}
			// The server may end the connection before it has read all of a request, which is its right.
			go func() { _, _ = io.WriteString(c, tc.request) }()
			response, err := http.ReadResponse(c.answers, nil)
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			answer, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != tc.status ||
				response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: got %d %v %q, %v; want %d and JSON", tc.name, response.StatusCode, response.Header, answer, err,
					tc.status)
				continue
			}
			if text, _ := object(t, answer)["error"].(string); !strings.Contains(text, tc.text) {
				t.Errorf("%s: got %q, want %q", tc.name, text, tc.text)
			}
			if tc.status != http.StatusNotFound && !response.Close {
				t.Errorf("%s: the connection stays open", tc.name)
			}
		}
	}
	if got := points(t, h, "d", "m"); len(got) != 0 {
		t.Errorf("got points %q, want none", got)
	}
}

// TestAnswersOfEndpointsAreNotTouched streams points that look like an answer of net/http.
func TestAnswersOfEndpointsAreNotTouched(t *testing.T) {
	const line = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad"
	h := newTestHandler(t, func(o *Options) {
		o.Scan = func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Length", fmt.Sprint(10*len(line)))
			for range 10 {
				_, _ = io.WriteString(w, line)
				_ = http.NewResponseController(w).Flush()
			}
			return nil
		}
	})
	listener := loopback(t)
	serve(t, h, listener)
	c := dialTCP(t, listener)
	for range 2 {
		if _, body := c.ask(t, http.MethodGet, "/api/scan"); body != strings.Repeat(line, 10) {
			t.Errorf("got %q", body)
		}
	}
}
