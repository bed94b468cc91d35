package load

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"time"
)

// sender makes one attempt to write a body.
type sender interface {
	send(ctx context.Context, wire []byte) answer
	close()
}

// httpSender writes over a connection of its own.
type httpSender struct {
	transport *http.Transport
	url       string
	header    http.Header
	timeout   time.Duration
}

func newHTTPSender(t *Target, source netip.Addr) *httpSender {
	return &httpSender{transport: t.transport(source), url: t.writeURL(), header: t.header(), timeout: t.Timeout}
}

// send returns when the answer was read. Redirects are not followed: they are answers.
func (s *httpSender) send(ctx context.Context, wire []byte) answer {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(wire))
	if err != nil {
		return failed(err)
	}
	request.Header = s.header // a transport does not change it
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return failed(err)
	}
	defer response.Body.Close()
	return newAnswer(response, time.Now())
}

func (s *httpSender) close() { s.transport.CloseIdleConnections() }
