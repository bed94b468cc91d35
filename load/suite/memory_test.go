package suite

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Slow clients are all there at once, send something, and go when they are told to.
func TestSlowClientsAreMany(t *testing.T) {
	const count = 20
	begun := make(chan struct{}, 10*count)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, len(slowLine))); err == nil {
			begun <- struct{}{}
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	slow := startSlowClients(t.Context(), server.URL, count)
	deadline := time.After(time.Minute)
	for range count {
		select {
		case <-begun:
		case <-deadline:
			t.Fatal("not all of them came within a minute")
		}
	}
	slow.stop()
	if got := slow.most.Load(); got != count {
		t.Errorf("there were %d at once, want %d", got, count)
	}
	if got := slow.now.Load(); got != 0 {
		t.Errorf("%d are still there", got)
	}
}

// The stated limit grows with every term that the configuration has.
func TestStatedMemory(t *testing.T) {
	base := long().flat
	for name, change := range map[string]func(*flatForm){
		"in flight":   func(f *flatForm) { f.inFlightBytes++ },
		"memtables":   func(f *flatForm) { f.memtableBytes++ },
		"page cache":  func(f *flatForm) { f.tierBytes += 16 },
		"connections": func(f *flatForm) { f.slowClients++ },
	} {
		changed := base
		change(&changed)
		if changed.statedMemory() <= base.statedMemory() {
			t.Errorf("%s: the limit does not grow", name)
		}
	}
}
