package ingest

import (
	"io"
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
	options.Handler, options.Logger = http.NotFoundHandler(), zap.NewNop()
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

// TestTheLargestBodyFitsTheBudget writes a body of full size through a budget of the least size that Validate takes.
func TestTheLargestBodyFitsTheBudget(t *testing.T) {
	const size = 1<<20 + 1 // just above a class of buffers, where they waste most
	line := "m,host=a f=1.5,g=2i,h=3i 1\n"
	body := strings.Repeat(line, size/len(line))
	for _, encoding := range []string{"", "gzip"} {
		h := newTestHandler(t, func(o *Options) {
			o.Limits.BodyBytesMax, o.Limits.InFlightBytesMax = size, inFlightBodiesMin*size
		})
		var source io.Reader = strings.NewReader(body)
		if encoding != "" {
			source = strings.NewReader(gzipped(t, body))
		}
		answer := do(t, h, http.MethodPost, "/write?db=d", source, "Content-Encoding", encoding)
		if answer.Code != http.StatusNoContent {
			t.Errorf("%q: got %d %s, want 204", encoding, answer.Code, answer.Body)
		}
	}
}
