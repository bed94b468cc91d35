package ingest

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lineweir/internal/auth"
	"lineweir/internal/vfs"
)

// countedFS counts what is asked of a file system, and may let each file look changed at each look.
type countedFS struct {
	vfs.FS
	restless     bool
	stats, opens atomic.Int64
}

func (f *countedFS) Stat(name string) (fs.FileInfo, error) {
	n := f.stats.Add(1)
	info, err := f.FS.Stat(name)
	if err == nil && f.restless {
		info = changedInfo{info, time.Unix(n, 0)}
	}
	return info, err
}

func (f *countedFS) OpenFile(name string, flag int, mode os.FileMode) (vfs.File, error) {
	f.opens.Add(1)
	return f.FS.OpenFile(name, flag, mode)
}

// changedInfo describes a file with another time.
type changedInfo struct {
	fs.FileInfo
	at time.Time
}

func (i changedInfo) ModTime() time.Time { return i.at }

// floodWork is what a flood of bad passwords made the server do.
type floodWork struct {
	requests     int64 // all of them
	stats, opens int64 // of the token file
	wireBytes    int64 // of bodies that were read
	logEntries   int
	frames       int64 // of the log
	used         int64 // of the budget, at the end
	good         map[int]int
}

const (
	floodGood = 40
	floodBad  = 1000
	goodLine  = "m v=1i 1"
)

// flood sends writes with a good token between ten times as many with bad ones, given in every way.
func flood(t *testing.T, restless bool) floodWork {
	made := newTokens(t)
	files := &countedFS{FS: vfs.OS, restless: restless}
	core, logs := observer.New(zap.DebugLevel)
	h := newTestHandler(t, func(o *Options) {
		o.Logger = zap.New(core)
		o.Tokens = auth.NewVerifier(files, made.dataDir, o.Logger)
	})
	server := httptest.NewServer(h)
	defer server.Close()
	before := floodWork{stats: files.stats.Load(), opens: files.opens.Load(), logEntries: logs.Len()}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			all := ways()
			for i := range floodBad / 4 {
				secret := fmt.Sprintf("lw_bad_%d_%d", worker, i)
				header, parameters := all[i%len(all)].give(secret)
				path := writeURLs()[i%3] + "&" + parameters
				if status := sendWith(client, server.URL+path, header, strings.Repeat("x", 1000)); status != 401 {
					t.Errorf("%s %s: got %d, want 401", path, header, status)
				}
			}
		})
	}
	work := floodWork{requests: floodGood + floodBad, good: map[int]int{}}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range floodGood {
		work.good[sendWith(client, server.URL+"/write?db=d", "Token "+made.secrets["write"], goodLine)]++
	}
	group.Wait()
	work.stats, work.opens = files.stats.Load()-before.stats, files.opens.Load()-before.opens
	work.wireBytes, work.logEntries = wireBytes(t, h, made), logs.Len()-before.logEntries
	work.frames = h.engine.Status().WAL.Frames
	work.used = h.budget.usedBytes.Load()
	if got := points(t, h, "d", "m"); len(got) != 1 {
		t.Errorf("got points %q, want the one", got)
	}
	return work
}

// wireBytes is how much of bodies was read.
func wireBytes(t *testing.T, h *Handler, made *tokens) int64 {
	t.Helper()
	text := do(t, h, http.MethodGet, "/metrics", nil, made.header("admin")...).Body.String()
	_, rest, found := strings.Cut(text, `lineweir_write_body_bytes_total{form="wire"} `)
	value, _, _ := strings.Cut(rest, "\n")
	bytes, err := strconv.ParseFloat(value, 64)
	if !found || err != nil {
		t.Fatalf("the metrics have no bytes of bodies: %v", err)
	}
	return int64(bytes)
}

// sendWith sends a write and returns the status of its answer, 0 for none.
func sendWith(client *http.Client, address, header, body string) int {
	request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0
	}
	if header != "" {
		request.Header.Set("Authorization", header)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}

// TestAFloodOfBadPasswordsHoldsNobodyUp counts what bad passwords cost: a look at the description of the token file, and
// nothing that a good client would have to wait for. No body of theirs is read, no file opened, no line logged, and
// nothing of the budget or of the log taken.
func TestAFloodOfBadPasswordsHoldsNobodyUp(t *testing.T) {
	work := flood(t, false)
	if work.good[http.StatusNoContent] != floodGood {
		t.Errorf("the good client got %v, want %d times 204", work.good, floodGood)
	}
	if work.opens != 0 || work.stats > 2*work.requests {
		t.Errorf("the token file was opened %d times and looked at %d times for %d requests",
			work.opens, work.stats, work.requests)
	}
	if want := int64(floodGood * len(goodLine)); work.wireBytes != want {
		t.Errorf("%d bytes of bodies were read, want the %d of the good client", work.wireBytes, want)
	}
	if work.logEntries != 0 || work.frames != floodGood || work.used != 0 {
		t.Errorf("got %d log entries, %d frames and %d bytes of the budget, want 0, %d and 0",
			work.logEntries, work.frames, work.used, floodGood)
	}
}

// TestTheCountOfAFloodCounts is the other side: where the token file looks changed at each look, the same flood reads it
// again and again, and the good client is still served.
func TestTheCountOfAFloodCounts(t *testing.T) {
	work := flood(t, true)
	if work.opens < floodBad/10 || work.logEntries < floodBad/10 {
		t.Errorf("the token file was opened %d times, with %d log entries; want many", work.opens, work.logEntries)
	}
	if work.good[http.StatusNoContent] != floodGood {
		t.Errorf("the good client got %v, want %d times 204", work.good, floodGood)
	}
}
