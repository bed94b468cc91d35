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

const formType = "application/x-www-form-urlencoded"

func TestAFormOfAQueryIsBoundedToTheByte(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct {
		excess, status int
	}{{0, http.StatusOK}, {1, http.StatusRequestEntityTooLarge}} {
		const rest = "&q=CREATE+DATABASE+x"
		form := "x=" + strings.Repeat("x", queryBodyBytesMax+tc.excess-len(rest)-len("x=")) + rest
		for _, body := range []io.Reader{strings.NewReader(form), chunked(form)} {
			answer := do(t, h, http.MethodPost, "/query?q=CREATE+DATABASE+y", body, "Content-Type", formType)
			if answer.Code != tc.status {
				t.Errorf("%d bytes: got %d %s, want %d", len(form), answer.Code, answer.Body, tc.status)
			}
		}
	}
	if got := h.engine.Databases(); len(got) != 1 {
		t.Errorf("got databases %q, want the one of the form that was taken", got)
	}
}

// TestAFormThatIsNotWholeDoesNothing cuts forms short: what is left of them would be other statements, or the same ones
// of another database.
func TestAFormThatIsNotWholeDoesNothing(t *testing.T) {
	const (
		urlencoded = "q=DROP+DATABASE+d&db=d"
		parts      = "--x\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nDROP DATABASE d\r\n--x"
	)
	for name, tc := range map[string]struct{ head, body string }{
		"less than announced":   {"Content-Type: " + formType + "\r\nContent-Length: 100\r\n\r\n", urlencoded},
		"a chunk is missing":    {"Content-Type: " + formType + "\r\nTransfer-Encoding: chunked\r\n\r\n", "16\r\n" + urlencoded + "\r\n"},
		"parts without an end":  {"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 100\r\n\r\n", parts},
		"parts of no form":      {fmt.Sprintf("Content-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n", len(parts)), parts},
		"an escape that is cut": {"Content-Type: " + formType + "\r\nContent-Length: 26\r\n\r\n", "q=DROP+DATABASE+d&db=abcd%"},
		"parts without a bound": {"Content-Type: multipart/form-data\r\nContent-Length: 4\r\n\r\n", "abcd"},
		"a cut URL, no form":    {"Content-Length: 0\r\n\r\n", ""},
	} {
		h := newTestHandler(t)
		write(t, h, "d", "m v=1i 1")
		listener := loopback(t)
		serve(t, h, listener)
		c := dialTCP(t, listener)
		path := "/query?q=DROP+DATABASE+d"
		if name == "a cut URL, no form" {
			path += "&db=%2"
		}
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s%s", path, tc.head, tc.body); err != nil {
			t.Fatal(err)
		}
		if half, ok := c.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			t.Fatal("the connection can't be closed half")
		}
		response, err := http.ReadResponse(c.answers, nil)
		if err != nil || response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %v, %v; want 400", name, response, err)
		}
		if got := points(t, h, "d", "m"); len(got) != 1 {
			t.Errorf("%s: got points %q, want the one", name, got)
		}
	}
}

// TestSlowFormsAreCountedAndEnd lets forms come as slowly as bodies of writes may not come: they hold little of the
// budget, and are told in the end that they were slow, not that they were wrong.
func TestSlowFormsAreCountedAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			clients   = 50
			sentBytes = 600_000
		)
		h := newTestHandler(t)
		listener := newPipeListener()
		serve(t, h, listener)
		done := make(chan struct{})
		for range clients {
			c := listener.dial(t)
			go func() {
				defer func() { done <- struct{}{} }()
				_, _ = fmt.Fprintf(c, "POST /query HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 1000000\r\n\r\nq=%s",
					formType, strings.Repeat("x", sentBytes-len("q=")))
				start := time.Now()
				response, err := http.ReadResponse(c.answers, nil)
				if err != nil || response.StatusCode != http.StatusServiceUnavailable || !response.Close ||
					time.Since(start) > h.options.Limits.BodyTimeout {
					t.Errorf("got %v, %v after %s; want 503 and close", response, err, time.Since(start))
				}
				_ = c.Close()
			}()
		}
		synctest.Wait()
		if used := h.budget.usedBytes.Load(); used < clients*sentBytes {
			t.Errorf("%d bytes are counted, want at least the %d that have come", used, clients*sentBytes)
		}
		for range clients {
			<-done
		}
		time.Sleep(time.Second) // net/http lets clients read their answers before it closes the connections
		if used := h.budget.usedBytes.Load(); used != 0 {
			t.Errorf("%d bytes are still counted", used)
		}
	})
}

// TestAFormFindsNoRoom fills the budget.
func TestAFormFindsNoRoom(t *testing.T) {
	h := newTestHandler(t)
	others := claim{budget: h.budget}
	if err := others.grow(h.budget.limitBytes - 1000); err != nil {
		t.Fatal(err)
	}
	answer := post(t, h, "/query", "q=CREATE+DATABASE+x", "Content-Type", formType)
	others.release()
	if body := object(t, answer.Body.Bytes()); answer.Code != http.StatusServiceUnavailable ||
		body["cause"] != shard.CauseMemory || answer.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v, want 503 with the cause %s", answer.Code, body, shard.CauseMemory)
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
	if answer = post(t, h, "/query", "q=CREATE+DATABASE+x", "Content-Type", formType); answer.Code != http.StatusOK {
		t.Errorf("with room: got %d %s, want 200", answer.Code, answer.Body)
	}
}
