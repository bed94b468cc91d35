package ingest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

func TestTheHistoryIsBounded(t *testing.T) {
	for _, count := range []int{0, 1, historyMax - 1, historyMax, historyMax + 1, 2*historyMax + 3} {
		h := new(history)
		for i := range count {
			h.add(sample{int64(i + 1)})
		}
		got := h.after(0)
		if len(got) != min(count, historyMax) || !slices.IsSortedFunc(got, func(a, b sample) int {
			return int(a.timeMs() - b.timeMs())
		}) {
			t.Errorf("after %d samples there are %d, or not in order", count, len(got))
		}
		if len(got) > 0 && got[len(got)-1].timeMs() != int64(count) {
			t.Errorf("the last of %d samples is %d", count, got[len(got)-1].timeMs())
		}
		if later := h.after(int64(count) - 2); len(later) != min(count, 2) {
			t.Errorf("%d samples are later than the last but two of %d", len(later), count)
		}
	}
}

func TestASampleIsTakenEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := new(history)
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.record(ctx, func() sample { return sample{time.Now().UnixMilli()} })
		}()
		time.Sleep(20*time.Minute + time.Millisecond)
		cancel()
		<-done
		got := h.after(0)
		if len(got) != historyMax {
			t.Fatalf("%d samples after 20 minutes, want those of the last 15", len(got))
		}
		for i := 1; i < len(got); i++ {
			if step := got[i].timeMs() - got[i-1].timeMs(); step != 1000 {
				t.Errorf("%d ms lie between samples", step)
			}
		}
	})
}

func TestHistoryIsAnswered(t *testing.T) {
	h := newTestHandler(t)
	if answer := post(t, h, "/write?db=d", "m v=1i 1\nm v=2i 2"); answer.Code != http.StatusNoContent {
		t.Fatalf("got %d", answer.Code)
	}
	h.history.add(h.sample())
	body := historyOf(t, h, "/api/history")
	if len(body.Samples) != 1 || body.IntervalSeconds != 1 {
		t.Fatalf("got %+v, want a sample", body)
	}
	figure := func(name string) int64 { return body.Samples[0][slices.Index(body.Columns, name)] }
	tier := h.engine.Status().Tier
	if figure("points") != 2 || figure("text_bytes") != 17 || figure("capacity_bytes") != tier.CapacityBytes ||
		figure("soft_bytes") != tier.SoftBytes || figure("wal_bytes") == 0 || figure("active_bytes") == 0 {
		t.Errorf("got %v of %v", body.Samples[0], body.Columns)
	}
	if later := historyOf(t, h, "/api/history?after=9000000000000"); len(later.Samples) != 0 || later.Samples == nil {
		t.Errorf("got %v after the far future, want an empty list", later.Samples)
	}
	if answer := do(t, h, http.MethodGet, "/api/history?after=noon", nil); answer.Code != http.StatusBadRequest {
		t.Errorf("got %d for a time that is none, want 400", answer.Code)
	}
}

func historyOf(t *testing.T, h *Handler, url string) (body historyBody) {
	t.Helper()
	answer := do(t, h, http.MethodGet, url, nil)
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("got %d %s: %v", answer.Code, answer.Body, err)
	}
	return body
}

// TestAServerRecordsItsHistory ends the recording with the server; goleak would find it.
func TestAServerRecordsItsHistory(t *testing.T) {
	options := DefaultServerOptions()
	options.Handler, options.Logger = newTestHandler(t), zap.NewNop()
	server, err := NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	deadline := time.Now().Add(time.Minute)
	for len(options.Handler.history.after(0)) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no sample within a minute")
		}
		time.Sleep(time.Millisecond)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Errorf("got %v", err)
	}
}
