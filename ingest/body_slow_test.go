package ingest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lineweir/shard"
)

// step is a part of a body that a client sends, and how long it waits before it.
type step struct {
	after time.Duration
	bytes int
}

// sendSteps writes a chunked body of comments that ends with a point.
func sendSteps(w io.Writer, steps []step) {
	_, err := io.WriteString(w, "POST /write?db=d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, s := range steps {
		time.Sleep(s.after)
		if err != nil {
			return
		}
		_, err = fmt.Fprintf(w, "%x\r\n%s\r\n", s.bytes, strings.Repeat("#", s.bytes))
	}
	if err == nil {
		_, _ = io.WriteString(w, "9\r\n\nm v=1i 1\r\n0\r\n\r\n")
	}
}

// repeat returns a step many times, after the first ones.
func repeat(n int, s step, first ...step) []step {
	for range n {
		first = append(first, s)
	}
	return first
}

// TestSlowBodies sends bodies at several paces to a server that gives a body 10 seconds, and a second for each 4 KiB.
func TestSlowBodies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		steps  []step
		status int
		after  time.Duration
	}{
		{"at once", []step{{0, 100_000}}, 204, 0},
		{"just in time", []step{{9 * time.Second, 1}}, 204, 9 * time.Second},
		{"fast enough for a minute", repeat(60, step{time.Second, 5 << 10}), 204, time.Minute},
		{"in lumps", repeat(6, step{9 * time.Second, 40 << 10}), 204, 54 * time.Second},
		{"never", []step{{11 * time.Second, 1}}, 503, 10 * time.Second},
		{"a byte a second", repeat(60, step{time.Second, 1}), 503, 10 * time.Second},
		{"much, then nothing", []step{{0, 20_000_000}, {11 * time.Second, 1}}, 503, 10 * time.Second},
		{"much, then a byte a second", repeat(60, step{time.Second, 1}, step{0, 20_000_000}), 503, 10 * time.Second},
		{"lumps too far apart", repeat(6, step{11 * time.Second, 1 << 20}), 503, 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestHandler(t)
				listener := newPipeListener()
				serve(t, h, listener)
				c, start := listener.dial(t), time.Now()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					sendSteps(c, tc.steps)
				}()
				response, err := http.ReadResponse(c.answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				after := time.Since(start)
				if response.StatusCode != tc.status || after < tc.after || after > tc.after+50*time.Millisecond ||
					response.Close != (tc.status == http.StatusServiceUnavailable) {
					t.Errorf("got %d after %s, close %v; want %d after %s",
						response.StatusCode, after, response.Close, tc.status, tc.after)
				}
				_ = c.Close()
				<-sent
			})
		})
	}
}

// TestSlowBodiesYieldUnderPressure gives half of the budget to those that are done with it soon.
func TestSlowBodiesYieldUnderPressure(t *testing.T) {
	for _, tc := range []struct {
		name   string
		free   int64 // below half of the budget
		steps  []step
		status int
	}{
		{"half is free", 1 << 20, repeat(20, step{time.Second, 5 << 10}), 204},
		{"less than half is free", 0, repeat(20, step{time.Second, 5 << 10}), 503},
		{"less than half is free, a quick body", 0, repeat(9, step{time.Second, 5 << 10}), 204},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestHandler(t)
				others := claim{budget: h.budget}
				if err := others.grow(h.budget.limitBytes/2 - tc.free); err != nil {
					t.Fatal(err)
				}
				defer others.release()
				listener := newPipeListener()
				serve(t, h, listener)
				c, sent := listener.dial(t), make(chan struct{})
				go func() {
					defer close(sent)
					sendSteps(c, tc.steps)
				}()
				response, err := http.ReadResponse(c.answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(io.LimitReader(response.Body, response.ContentLength))
				if response.StatusCode != tc.status || tc.status == http.StatusServiceUnavailable &&
					object(t, body)["cause"] != shard.CauseMemory {
					t.Errorf("got %d %s, want %d", response.StatusCode, body, tc.status)
				}
				_ = c.Close()
				<-sent
			})
		})
	}
}
