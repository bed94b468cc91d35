package ingest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// tlsWriter writes over TLS through a listener without a network.
type tlsWriter struct {
	*http.Client
	transport *http.Transport
}

func newTLSWriter(t *testing.T, l *pipeListener, http2 bool, trusted ...keyPair) *tlsWriter {
	roots := x509.NewCertPool()
	for _, pair := range trusted {
		roots.AppendCertsFromPEM(pair.certificate)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "lineweir.test"}, Protocols: protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l.connections <- there
			return here, nil
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &tlsWriter{&http.Client{Transport: transport}, transport}
}

// write sends a point of the time n, over a new connection if fresh, and returns the number of the server's certificate.
func (w *tlsWriter) write(t *testing.T, n int, fresh bool) int64 {
	t.Helper()
	if fresh {
		w.transport.CloseIdleConnections()
	}
	response, err := w.Post("https://lineweir.test/write?db=d", "text/plain", strings.NewReader(fmt.Sprintf("m v=1i %d", n)))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Errorf("point %d: got %d, want 204", n, response.StatusCode)
	}
	return response.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// TestWritesOverTLSWhileTheCertificateIsRenewed writes through every state in which a renewal can leave the two files.
// The old pair serves until there is a new one that fits together, connections that are open go on, and no write fails.
func TestWritesOverTLSWhileTheCertificateIsRenewed(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second := newKeyPair(t, 1), newKeyPair(t, 2)
			files := newKeyFiles(t, first)
			h := newTestHandler(t)
			listener := newPipeListener()
			serve(t, h, listener, files.use)
			fresh, lasting := newTLSWriter(t, listener, http2, first, second), newTLSWriter(t, listener, http2, first)
			written := 0
			expect := func(when string, serial int64) {
				t.Helper()
				time.Sleep(2 * certificateInterval)
				written += 2
				if got := fresh.write(t, written, true); got != serial {
					t.Errorf("%s: got certificate %d, want %d", when, got, serial)
				}
				if got := lasting.write(t, written+1, false); got != 1 {
					t.Errorf("%s: the open connection got certificate %d", when, got)
				}
			}
			expect("at first", 1)
			half := second.certificate[:len(second.certificate)/2]
			if err := os.WriteFile(files.certificate, half, 0o600); err != nil {
				t.Fatal(err)
			}
			expect("with half of a certificate", 1)
			replaceFile(t, files.certificate, second.certificate)
			expect("with the old key", 1)
			if err := os.WriteFile(files.key, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			expect("with an empty key", 1)
			if err := os.Remove(files.key); err != nil {
				t.Fatal(err)
			}
			expect("without a key", 1)
			replaceFile(t, files.key, second.key)
			expect("with the new pair", 2)
			if got := points(t, h, "d", "m"); len(got) != written {
				t.Errorf("got %d points, want %d", len(got), written)
			}
		})
	}
}
