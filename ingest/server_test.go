package ingest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestOptionsNameEveryProblem(t *testing.T) {
	_, err := NewHandler(Options{Limits: Limits{UnreadRefusalBytes: -1}})
	for _, want := range []string{"Engine", "limit of a body", "timeout of a body", "unread refusal", "line bytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	limits := DefaultLimits()
	limits.InFlightBytesMax = inFlightBodiesMin*limits.BodyBytesMax - 1
	if err = (&Options{Limits: limits}).Validate(); err == nil || !strings.Contains(err.Error(), "in flight") {
		t.Errorf("got %v, want it to name the limit in flight", err)
	}
}

func TestServerOptions(t *testing.T) {
	_, err := NewServer(ServerOptions{})
	for _, want := range []string{"Handler", "timeout of a header", "idle timeout", "limit of a header"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
	options := DefaultServerOptions()
	options.Handler, options.Logger = newTestHandler(t), zap.NewNop()
	server, err := NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	// a client may flush once a minute and more seldom.
	if server.IdleTimeout < 3*time.Minute || server.ReadHeaderTimeout <= 0 || server.MaxHeaderBytes <= 0 {
		t.Errorf("got %+v", server)
	}
	if server.ReadTimeout != 0 || server.WriteTimeout != 0 {
		t.Errorf("whole requests have a timeout: %s, %s", server.ReadTimeout, server.WriteTimeout)
	}
}

// TestABodyThatTheWholeBudgetCannotHoldIsTooLarge writes bodies of full size through a budget of the least size. Where
// the batch of the shortest lines finds no room, no waiting helps.
func TestABodyThatTheWholeBudgetCannotHoldIsTooLarge(t *testing.T) {
	const size = 1 << 20
	for _, tc := range []struct {
		line   string
		status int
	}{
		{"m,host=a f=1.5,comment=\"" + strings.Repeat("x", 100) + "\" 1\n", http.StatusNoContent},
		{"m f=1\n", http.StatusRequestEntityTooLarge},
	} {
		for _, encoding := range []string{"", "gzip"} {
			h := newTestHandler(t, func(o *Options) {
				o.Limits.BodyBytesMax, o.Limits.InFlightBytesMax = size, inFlightBodiesMin*size
			})
			body := strings.Repeat(tc.line, (size-1)/len(tc.line))
			if encoding != "" {
				body = gzipped(t, body)
			}
			answer := post(t, h, "/write?db=d", body, "Content-Encoding", encoding)
			if answer.Code != tc.status {
				t.Errorf("%.10q, %q: got %d %s, want %d", tc.line, encoding, answer.Code, answer.Body, tc.status)
			}
		}
	}
}
