package ingest

import (
	"net/http"
	"strings"
	"testing"
)

// TestBrowsersGetThePage: whoever names HTML gets the page, all others the list, as before there was a page.
func TestBrowsersGetThePage(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct {
		accept string
		page   bool
	}{
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", true},
		{"TEXT/HTML", true},
		{"application/json, text/html;q=0.1", true},
		{"*/*", false},
		{"", false},
		{"application/json", false},
		{"text/html;q=0, */*", false},
		{"text/html;q=0.000", false},
		{"text/htmlx", false},
		{"text/plain, text/*", false},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			answer := do(t, h, method, "/", nil, "Accept", tc.accept)
			body := answer.Body.String()
			if got := strings.HasPrefix(body, "file "); got != tc.page || answer.Code != http.StatusOK ||
				answer.Header().Get("Vary") != "Accept" || !got && !strings.Contains(body, `"path":"/write"`) {
				t.Errorf("%s, Accept %q: got %d %v %s", method, tc.accept, answer.Code, answer.Header(), body)
			}
		}
	}
}

func TestAssets(t *testing.T) {
	h := newTestHandler(t, func(o *Options) {
		o.Page = func(w http.ResponseWriter, _ *http.Request, name string) bool {
			if name != "page.js" {
				return false
			}
			_, _ = w.Write([]byte("script"))
			return true
		}
	})
	for path, status := range map[string]int{
		"/web/page.js": 200, "/web/nope.js": 404, "/web/": 404, "/web/a/page.js": 404, "/web/..": 404,
	} {
		if answer := do(t, h, http.MethodGet, path, nil); answer.Code != status {
			t.Errorf("%s: got %d %s, want %d", path, answer.Code, answer.Body, status)
		}
	}
}

// TestThePageNeedsRead: a browser without a token is asked for one.
func TestThePageNeedsRead(t *testing.T) {
	h := newTestHandler(t, newTokens(t).use)
	for _, path := range []string{"/", "/web/page.js", "/api/history"} {
		answer := do(t, h, http.MethodGet, path, nil, "Accept", "text/html")
		if answer.Code != http.StatusUnauthorized || !strings.HasPrefix(answer.Header().Get("WWW-Authenticate"), "Basic") {
			t.Errorf("%s: got %d %v, want 401 that asks for Basic", path, answer.Code, answer.Header())
		}
	}
}
