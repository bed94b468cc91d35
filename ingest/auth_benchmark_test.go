package ingest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAccess shows what a request costs before its endpoint runs: authentication off, a good token in each form,
// and refusals.
func BenchmarkAccess(b *testing.B) {
	made := newTokens(b)
	secret := made.secrets["write-all"]
	for _, tc := range []struct {
		name, query, header string
		change              func(*Options)
		status              int
	}{
		{"off", "", "", func(*Options) {}, 204},
		{"token", "", "Token " + secret, made.use, 204},
		{"p", "&p=" + secret, "", made.use, 204},
		{"unknown", "", "Token lw_unknown", made.use, 401},
		{"none", "", "", made.use, 401},
	} {
		b.Run(tc.name, func(b *testing.B) {
			h := newTestHandler(b, tc.change)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/write?db=d"+tc.query, http.NoBody)
				r.Header.Set("Authorization", tc.header)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != tc.status {
					b.Fatalf("got %d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// BenchmarkWriteBesideAFlood writes with a good token over loopback, while other clients send as many requests as they
// can: nothing, pings, or writes with bad tokens. A flood of bad tokens should cost no more than one of pings.
func BenchmarkWriteBesideAFlood(b *testing.B) {
	made := newTokens(b)
	for _, tc := range []struct{ name, method, path, header string }{
		{"alone", "", "", ""},
		{"pings", http.MethodGet, "/ping", ""},
		{"bad tokens", http.MethodPost, "/write?db=d", "Token lw_bad"},
	} {
		b.Run(tc.name, func(b *testing.B) {
			server := httptest.NewServer(newTestHandler(b, made.use))
			defer server.Close()
			var sent atomic.Int64
			ctx, cancel := context.WithCancel(b.Context())
			var group sync.WaitGroup
			for range 4 {
				if tc.path == "" {
					break
				}
				group.Go(func() {
					for ctx.Err() == nil {
						sendAs(ctx, tc.method, server.URL+tc.path, tc.header, "m v=1i 1")
						sent.Add(1)
					}
				})
			}
			for b.Loop() {
				status := sendAs(ctx, http.MethodPost, server.URL+"/write?db=d", "Token "+made.secrets["write"], "m v=1i 1")
				if status != http.StatusNoContent {
					b.Fatalf("got %d", status)
				}
			}
			b.ReportMetric(float64(sent.Load())/b.Elapsed().Seconds(), "others/s")
			cancel()
			group.Wait()
		})
	}
}

// sendAs sends a request and returns its status, 0 for none.
func sendAs(ctx context.Context, method, url, header, body string) int {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", header)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}
