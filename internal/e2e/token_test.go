package e2e

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTokensWithoutRestart makes, lists and revokes tokens beside a running server, which heeds them at once.
func TestTokensWithoutRestart(t *testing.T) {
	outside(t)
	t.Parallel()
	dataDir := t.TempDir()
	s := start(t, dataDir)
	s.write(t, "weir", "open f=1 1") // as long as there is no token, anybody may
	answers := func(token, method, path string) int {
		t.Helper()
		s.token = token
		got, err := s.send(t.Context(), method, path, "open f=1 2")
		if err != nil {
			t.Fatal(err)
		}
		return got.status
	}
	becomes := func(token, method, path string, status int) {
		t.Helper()
		eventually(t, time.Minute, "the status of "+path+" changes", func() bool {
			return answers(token, method, path) == status
		})
	}
	const write, scan = "/write?db=weir", "/api/scan?db=weir&measurement=open"
	writer := s.createToken(t, "--write", "weir")
	becomes("", http.MethodPost, write, http.StatusUnauthorized)
	becomes(writer, http.MethodPost, write, http.StatusNoContent)
	reader := s.createToken(t, "--read", "*")
	becomes(reader, http.MethodGet, scan, http.StatusOK)
	for _, test := range []struct {
		token, method, path string
		status              int
	}{
		{writer, http.MethodGet, scan, http.StatusForbidden},
		{writer, http.MethodPost, "/write?db=other", http.StatusForbidden},
		{reader, http.MethodPost, write, http.StatusForbidden},
		{reader, http.MethodPost, "/api/seal", http.StatusForbidden},
		{"", http.MethodGet, "/ready", http.StatusOK},
	} {
		if got := answers(test.token, test.method, test.path); got != test.status {
			t.Errorf("%s %s is answered %d, want %d", test.method, test.path, got, test.status)
		}
	}
	listed := s.tokens(t, "list")
	if !regexp.MustCompile(`(?s)^NAME .*\na .*weir.*\nb .*\*`).MatchString(listed) || strings.Contains(listed, writer) {
		t.Errorf("the tokens are listed as\n%s", listed)
	}
	s.tokens(t, "revoke", "a")
	becomes(writer, http.MethodPost, write, http.StatusUnauthorized)
	if got := answers(reader, http.MethodGet, scan); got != http.StatusOK {
		t.Errorf("another token is answered %d after that, want 200", got)
	}
	s.stop(t)

	s = start(t, dataDir)
	if got := answers(writer, http.MethodPost, write); got != http.StatusUnauthorized {
		t.Errorf("the revoked token is answered %d after a restart, want 401", got)
	}
	if got := answers(reader, http.MethodGet, scan); got != http.StatusOK {
		t.Errorf("the other token is answered %d after a restart, want 200", got)
	}
	s.stop(t)
}

// TestCertificateIsReloaded replaces the certificate under a running server: new connections get the new one, those
// that stand go on, and a pair that doesn't fit changes nothing.
func TestCertificateIsReloaded(t *testing.T) {
	outside(t)
	t.Parallel()
	a := newAuthority(t)
	a.issue(t, 2)
	s := startWith(t, a)
	if got := s.handshake(t, nil); got.serial != 2 || got.protocol != "HTTP/2.0" {
		t.Errorf("a new connection got %+v, want certificate 2 and HTTP/2", got)
	}
	if got := s.handshake(t, []string{"http/1.1"}); got.protocol != "HTTP/1.1" {
		t.Errorf("a client without HTTP/2 got %s", got.protocol)
	}
	s.must(t, http.MethodGet, "/ready", "", http.StatusOK)
	a.issue(t, 3)
	eventually(t, time.Minute, "new connections get the new certificate", func() bool {
		return s.handshake(t, nil).serial == 3
	})
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	got, err := s.send(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "/write?db=weir", "known f=1 1")
	if err != nil || got.status != http.StatusNoContent || !reused {
		t.Errorf("a write gave %d, %v, over the connection that stood: %t", got.status, err, reused)
	}
	if err := os.WriteFile(a.path("key.pem"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the server logs that the pair can't be used", func() bool {
		return s.handshake(t, nil).serial == 3 && strings.Contains(s.printed(t), "certificate") &&
			regexp.MustCompile(`"level":"(warn|error)"[^\n]*certificate`).MatchString(s.printed(t))
	})
	if got := s.handshake(t, nil); got.serial != 3 {
		t.Errorf("after a bad pair a connection got certificate %d, want 3", got.serial)
	}
	a.issue(t, 4)
	eventually(t, time.Minute, "the next good pair is taken", func() bool { return s.handshake(t, nil).serial == 4 })
	s.stop(t)
}

// connection is what a new connection found out.
type connection struct {
	serial   int64
	protocol string
}

// handshake makes a connection of its own for one request.
func (s *server) handshake(t *testing.T, protocols []string) connection {
	t.Helper()
	transport := s.client.Transport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	if protocols != nil {
		transport.TLSClientConfig.NextProtos = protocols
		transport.ForceAttemptHTTP2 = false
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	response, err := (&http.Client{Transport: transport}).Get(s.url() + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	err = response.Body.Close()
	if err != nil || len(response.TLS.PeerCertificates) == 0 {
		t.Fatalf("%v: a handshake without a certificate", err)
	}
	return connection{response.TLS.PeerCertificates[0].SerialNumber.Int64(), response.Proto}
}
