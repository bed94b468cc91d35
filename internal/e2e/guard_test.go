package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for servers on the loopback address.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	dir         string // holds ca.pem, cert.pem and key.pem
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificateTemplate(1)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	template.Subject.CommonName = "authority of a test"
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key, certificate, t.TempDir()}
	a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func certificateTemplate(serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: "lineweir in a test"},
		NotBefore:    time.Now().Add(-24 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

// issue puts a new certificate of the serial number, and its key, where the server reads them.
func (a *authority) issue(t *testing.T, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificateTemplate(serial)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, "cert.pem", "CERTIFICATE", der)
	a.write(t, "key.pem", "PRIVATE KEY", private)
}

// write replaces a file at once, as those do who renew certificates.
func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	path := a.path(name)
	if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// startGuarded starts a server with TLS and tokens, whose own requests are sent with a token that may do everything.
func startGuarded(t *testing.T, settings ...string) *server {
	t.Helper()
	a := newAuthority(t)
	a.issue(t, 2)
	return startWith(t, a, settings...)
}

// startWith is startGuarded with the certificate of an authority.
func startWith(t *testing.T, a *authority, settings ...string) *server {
	t.Helper()
	settings = append(settings, "http.tls_cert="+a.path("cert.pem"), "http.tls_key="+a.path("key.pem"))
	s := launch(t, anyPort, t.TempDir(), settings...)
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	s.authority = a.path("ca.pem")
	s.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	s.awaitReady(t)
	s.token = s.createToken(t, "--admin")
	return s
}

// createToken makes a token with the rights and returns it. Tokens are called a, b, c and so on.
func (s *server) createToken(t *testing.T, rights ...string) string {
	t.Helper()
	name := string(rune('a' + strings.Count(s.tokens(t, "list"), "\n") - 1))
	return strings.TrimSpace(s.tokens(t, append([]string{"create", "--name", name}, rights...)...))
}

// tokens runs the command for tokens beside the server and returns what it printed.
func (s *server) tokens(t *testing.T, arguments ...string) string {
	t.Helper()
	path, err := lineweir()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"token"}, arguments...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(foreignEnvironment(), "LINEWEIR_DATA_DIR="+s.dataDir)
	return ends(t, cmd, 0)
}
