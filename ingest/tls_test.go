package ingest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// keyPair is a certificate that signs itself, and its key, both PEM.
type keyPair struct{ certificate, key []byte }

func newKeyPair(t testing.TB, serial int64) keyPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "lineweir"}, DNSNames: []string{"lineweir.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// keyFiles are the files of a server's certificate.
type keyFiles struct{ certificate, key string }

func newKeyFiles(t testing.TB, pair keyPair) keyFiles {
	t.Helper()
	dir := t.TempDir()
	files := keyFiles{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	replaceFile(t, files.certificate, pair.certificate)
	replaceFile(t, files.key, pair.key)
	return files
}

// replaceFile puts a new file in the place of one, as those do who renew certificates.
func replaceFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func (f keyFiles) use(o *ServerOptions) { o.CertificateFile, o.KeyFile = f.certificate, f.key }

// newSecureClient returns a client that trusts a certificate and speaks HTTP/2 or HTTP/1.1.
func newSecureClient(t *testing.T, pair keyPair, http2 bool) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pair.certificate) {
		t.Fatal("the certificate can't be read")
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "lineweir.test"}, Protocols: protocols,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

func TestWritesOverTLS(t *testing.T) {
	pair := newKeyPair(t, 1)
	for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		made := newTokens(t)
		h := newTestHandler(t, made.use)
		listener := loopback(t)
		serve(t, h, listener, newKeyFiles(t, pair).use)
		client := newSecureClient(t, pair, http2)
		for i, url := range writeURLs() {
			line := strings.Repeat("#", 100_000*i) + "\nm v=1i " + string(rune('1'+i))
			address := "https://" + listener.Addr().String() + url
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, chunked(line))
			if err != nil {
				t.Fatal(err)
			}
			request.SetBasicAuth("anybody", made.secrets["write"])
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusNoContent || response.Proto != protocol {
				t.Errorf("%s: got %s %d, want %s 204", url, response.Proto, response.StatusCode, protocol)
			}
		}
		if got := points(t, h, "d", "m"); len(got) != 3 {
			t.Errorf("%s: got points %q, want 3", protocol, got)
		}
	}
}

// TestABrokenStreamBreaksNoOther lets one request of a connection stall, and sends others meanwhile and afterwards.
func TestABrokenStreamBreaksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := newKeyPair(t, 1)
		h := newTestHandler(t)
		listener := newPipeListener()
		serve(t, h, listener, newKeyFiles(t, pair).use)
		client := newSecureClient(t, pair, true)
		dialed := 0
		client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			dialed++
			return listener.dial(t), nil
		}
		post := func(body io.Reader) *http.Response {
			response, err := client.Post("https://lineweir.test/write?db=d", "text/plain", body)
			if err != nil {
				t.Error(err)
				return &http.Response{Body: http.NoBody}
			}
			_ = response.Body.Close()
			return response
		}
		body, writer := io.Pipe()
		stalled := make(chan *http.Response)
		start := time.Now()
		go func() { stalled <- post(body) }()
		if _, err := io.WriteString(writer, "m v=1i 1\nm v="); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if got := post(strings.NewReader("m v=2i 2")).StatusCode; got != http.StatusNoContent {
				t.Errorf("beside the stalled request: got %d, want 204", got)
			}
		}
		if took := time.Since(start); took >= h.options.Limits.BodyTimeout {
			t.Errorf("the others waited for the stalled request, %s", took)
		}
		if got := (<-stalled); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
			t.Errorf("the stalled request: got %d %v, want 503", got.StatusCode, got.Header)
		}
		_ = writer.Close()
		if got := post(strings.NewReader("m v=3i 3")).StatusCode; got != http.StatusNoContent {
			t.Errorf("after the stalled request: got %d, want 204", got)
		}
		if open := h.connections.open.Load(); open != 1 || dialed != 1 {
			t.Errorf("%d connections of %d are open, want the one", open, dialed)
		}
		if got := points(t, h, "d", "m"); len(got) != 2 {
			t.Errorf("got points %q, want two, and none of the stalled request", got)
		}
	})
}

// TestConnectionsBeyondTheLimitAreAnsweredOverTLS is TestConnectionsBeyondTheLimitAreAnswered for both protocols.
func TestConnectionsBeyondTheLimitAreAnsweredOverTLS(t *testing.T) {
	pair := newKeyPair(t, 1)
	h := newTestHandler(t, limitConnections(1))
	listener := loopback(t)
	serve(t, h, listener, newKeyFiles(t, pair).use)
	address := "https://" + listener.Addr().String()
	get := func(client *http.Client, path string) (*http.Response, string) {
		t.Helper()
		response, err := client.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(body)
	}
	first := newSecureClient(t, pair, true)
	get(first, "/ping")
	for _, http2 := range []bool{false, true} {
		client := newSecureClient(t, pair, http2)
		response, body := get(client, "/api/status")
		if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, reasonConnections) ||
			!strings.HasPrefix(response.Proto, map[bool]string{true: "HTTP/2", false: "HTTP/1"}[http2]) {
			t.Errorf("got %s %d %s, want 503", response.Proto, response.StatusCode, body)
		}
		client.CloseIdleConnections()
	}
	if response, _ := get(first, "/api/status"); response.StatusCode != http.StatusOK {
		t.Errorf("the first connection: got %d, want 200", response.StatusCode)
	}
}

func TestPlainHTTPToATLSServerIsTold(t *testing.T) {
	listener := loopback(t)
	serve(t, newTestHandler(t), listener, newKeyFiles(t, newKeyPair(t, 1)).use)
	c := dialTCP(t, listener)
	response, body := c.ask(t, http.MethodPost, "/write?db=d")
	if text, _ := object(t, []byte(body))["error"].(string); response.StatusCode != http.StatusBadRequest ||
		!response.Close || !strings.Contains(text, "HTTPS") {
		t.Errorf("got %d %s, want 400 that says so", response.StatusCode, body)
	}
}

// serialOf returns the serial number of the certificate that a handshake would get.
func serialOf(t *testing.T, c *certificate) int64 {
	t.Helper()
	pair, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber.Int64()
}

// TestTheCertificateIsReadAgainWhenItChanges renews a certificate as it is renewed: one file after the other.
func TestTheCertificateIsReadAgainWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := newKeyPair(t, 1), newKeyPair(t, 2), newKeyPair(t, 3)
		files := newKeyFiles(t, first)
		core, logs := observer.New(zap.WarnLevel)
		c, err := newCertificate(files.certificate, files.key, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, serial int64, warnings int) {
			t.Helper()
			for range 3 {
				time.Sleep(certificateInterval)
				if got := serialOf(t, c); got != serial {
					t.Errorf("%s: got certificate %d, want %d", when, got, serial)
				}
			}
			if got := logs.Len(); got != warnings {
				t.Errorf("%s: got %d warnings, want %d", when, got, warnings)
			}
		}
		expect("at first", 1, 0)
		replaceFile(t, files.certificate, second.certificate)
		expect("with the key of the old one", 1, 1)
		replaceFile(t, files.key, second.key)
		expect("with its own key", 2, 1)
		if err = os.WriteFile(files.certificate, []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
		expect("with garbage in its file", 2, 2)
		if err = os.Remove(files.key); err != nil {
			t.Fatal(err)
		}
		expect("without a file", 2, 3)
		replaceFile(t, files.certificate, third.certificate)
		replaceFile(t, files.key, third.key)
		expect("with a good pair again", 3, 3)
	})
}

// TestHandshakesSeldomLook lets many handshakes meet a changed file within one interval.
func TestHandshakesSeldomLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := newKeyFiles(t, newKeyPair(t, 1))
		c, err := newCertificate(files.certificate, files.key, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(certificateInterval)
		serialOf(t, c)
		second := newKeyPair(t, 2)
		replaceFile(t, files.certificate, second.certificate)
		replaceFile(t, files.key, second.key)
		time.Sleep(certificateInterval - time.Nanosecond)
		if got := serialOf(t, c); got != 1 {
			t.Errorf("within an interval: got certificate %d, want 1", got)
		}
		time.Sleep(1 * time.Nanosecond)
		if got := serialOf(t, c); got != 2 {
			t.Errorf("after an interval: got certificate %d, want 2", got)
		}
	})
}

func TestAServerWithoutAGoodCertificateDoesNotStart(t *testing.T) {
	good := newKeyFiles(t, newKeyPair(t, 1))
	other := newKeyFiles(t, newKeyPair(t, 2))
	for name, files := range map[string]keyFiles{
		"no file": {"absent.pem", good.key}, "another key": {good.certificate, other.key},
		"swapped": {good.key, good.certificate}, "no key": {good.certificate, ""},
	} {
		options := DefaultServerOptions()
		options.Handler, options.Logger = newTestHandler(t), zap.NewNop()
		files.use(&options)
		if _, err := NewServer(options); err == nil {
			t.Errorf("%s: got a server, want an error", name)
		}
	}
}

// TestNothingBelowTLS12 offers old versions.
func TestNothingBelowTLS12(t *testing.T) {
	pair := newKeyPair(t, 1)
	files := newKeyFiles(t, pair)
	c, err := newCertificate(files.certificate, files.key, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for version, ok := range map[uint16]bool{
		tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true,
	} {
		here, there := net.Pipe()
		done := make(chan error)
		go func() {
			err := tls.Server(there, c.config()).Handshake()
			_ = there.Close()
			done <- err
		}()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bytes.Clone(pair.certificate))
		err := tls.Client(here, &tls.Config{
			RootCAs: roots, ServerName: "lineweir.test", MinVersion: tls.VersionTLS10, MaxVersion: version,
		}).Handshake()
		_ = here.Close()
		<-done
		if (err == nil) != ok {
			t.Errorf("%s: got %v", tls.VersionName(version), err)
		}
	}
}
