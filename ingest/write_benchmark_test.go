package ingest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"lineweir/shard"
)

// BenchmarkHTTPWrite sends requests of 5,000 lines over loopback to an engine with the default sizes, one after the
// other: each is parsed, committed, synced and applied before its answer. Flush and compaction run beside it.
func BenchmarkHTTPWrite(b *testing.B) {
	for _, body := range benchmarkBodies {
		b.Run(body.name, func(b *testing.B) {
			benchmarkHTTPWrite(b, cutRequests(body.make(benchmarkRequests*benchmarkLines)))
		})
	}
}

// benchmarkRequests is how many different requests there are, before the first one comes again.
const benchmarkRequests = 40

// cutRequests cuts a body into requests of benchmarkLines lines.
func cutRequests(body []byte) [][]byte {
	var requests [][]byte
	start, lines := 0, 0
	for i, c := range body {
		if c != '\n' {
			continue
		}
		if lines++; lines%benchmarkLines == 0 {
			requests = append(requests, body[start:i+1])
			start = i + 1
		}
	}
	return requests
}

func benchmarkHTTPWrite(b *testing.B, requests [][]byte) {
	engine := newTestEngine(b, func(o *shard.Options) {
		o.Memtable.MaxBytes, o.Tier.CapacityBytes = 64<<20, 512<<20
		o.WAL = shard.WALOptions{FileBytes: 64 << 20, MaxBytes: 4 << 30}
	})
	server := httptest.NewServer(newHandlerOf(b, engine))
	defer server.Close()
	size := int64(0)
	for _, request := range requests {
		size += int64(len(request))
	}
	b.SetBytes(size / int64(len(requests)))
	b.ReportAllocs()
	next := 0
	for b.Loop() {
		sendLines(b, server.URL+"/write?db=d", requests[next%len(requests)])
		next++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchmarkLines, "ns/line")
}

// sendLines writes one request, which must be accepted whole.
func sendLines(b *testing.B, url string, lines []byte) {
	response, err := http.Post(url, "text/plain", bytes.NewReader(lines))
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusNoContent {
		b.Fatalf("got %d %s, %v", response.StatusCode, text, err)
	}
	_ = response.Body.Close()
}
