package ingest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeaderAndIdleTimeouts lets clients say too little. Whoever takes longer for a header than ReadHeaderTimeout, or
// says nothing for longer than IdleTimeout, loses the connection and nothing else; a flush once a minute does not.
func TestHeaderAndIdleTimeouts(t *testing.T) {
	options := DefaultServerOptions()
	const request = "POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nm v=1i 1"
	for _, tc := range []struct {
		name  string
		steps []string // a second apart
		used  bool     // after a request
		after time.Duration
	}{
		{"nothing", nil, false, options.ReadHeaderTimeout},
		{"half a header", []string{request[:30]}, false, options.ReadHeaderTimeout},
		{"a header byte by byte", strings.Split(request, ""), false, options.ReadHeaderTimeout},
		{"nothing after a request", nil, true, options.IdleTimeout},
		{"half a header after a request", []string{request[:30]}, true, options.ReadHeaderTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newTestHandler(t)
			listener := newPipeListener()
			serve(t, h, listener)
			c := listener.dial(t)
			if tc.used {
				c.hold(t)
			}
			start := time.Now()
			go func() {
				for _, step := range tc.steps {
					if _, err := io.WriteString(c, step); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			answer, err := io.ReadAll(c.answers)
			if took := time.Since(start); err != nil || took < tc.after || took > tc.after+2*time.Second {
				t.Errorf("%s: got %v after %s, want the end after %s", tc.name, err, took, tc.after)
			}
			// net/http answers some headers that it has half of. They are not wrong.
			if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 503 Service Unavailable\r\n") {
				t.Errorf("%s: got %q, want nothing or 503", tc.name, answer)
			}
			synctest.Wait()
			if open := h.connections.open.Load(); open != 0 {
				t.Errorf("%s: %d connections are open", tc.name, open)
			}
			time.Sleep(2 * time.Second) // the sender notices
		})
	}
}

// TestAConnectionLivesBetweenFlushes writes once in a while over one connection.
func TestAConnectionLivesBetweenFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t)
		listener := newPipeListener()
		serve(t, h, listener)
		c := listener.dial(t)
		for n, pause := range []time.Duration{0, 10 * time.Second, time.Minute, 2 * time.Minute, 179 * time.Second} {
			time.Sleep(pause)
			line := fmt.Sprintf("m v=1i %d", n)
			response, _ := exchange(t, c, c.answers,
				fmt.Sprintf("POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(line), line))
			if response.StatusCode != http.StatusNoContent || response.Close {
				t.Errorf("after %s: got %d, close %v", pause, response.StatusCode, response.Close)
			}
		}
		if got := points(t, h, "d", "m"); len(got) != 5 {
			t.Errorf("got points %q, want 5", got)
		}
	})
}
