package ingest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"lineweir/shard"
)

// BenchmarkHTTPRefusal sends requests over loopback to an engine whose tier is full and whose compaction is paused, one
// after the other: bodies long enough to be refused unread, and short ones, which are parsed before.
func BenchmarkHTTPRefusal(b *testing.B) {
	engine := newTestEngine(b, func(o *shard.Options) {
		o.Memtable.MaxBytes, o.Memtable.FrozenMax, o.Tier.CapacityBytes = 1<<20, 1, 4<<20
	})
	paused := true
	if err := engine.SetCompaction(nil, &paused); err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(newHandlerOf(b, engine))
	defer server.Close()
	url := server.URL + "/write?db=d"
	requests := cutRequests(benchmarkBodies[0].make(benchmarkRequests * benchmarkLines))
	unread := requests[0]
	short := unread[:1+bytes.LastIndexByte(unread[:min(len(unread), int(DefaultLimits().UnreadRefusalBytes))], '\n')]
	for sendRefused(b, url, short) != http.StatusServiceUnavailable {
	}
	for refused, series := 0, 0; refused < 100; series++ { // until every shard is full to its last row
		refused++
		if sendRefused(b, url, fmt.Appendf(nil, "filler,series=%d v=1\n", series)) != http.StatusServiceUnavailable {
			refused = 0
		}
	}
	for _, c := range []struct {
		name string
		body []byte
	}{{"unread", unread}, {"parsed", short}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if status := sendRefused(b, url, c.body); status != http.StatusServiceUnavailable {
					b.Fatalf("got %d, want 503", status)
				}
			}
		})
	}
}

// sendRefused writes one request and returns its status.
func sendRefused(b *testing.B, url string, lines []byte) int {
	response, err := http.Post(url, "text/plain", bytes.NewReader(lines))
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		b.Fatal(err)
	}
	return response.StatusCode
}
