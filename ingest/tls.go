package ingest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// certificateInterval is how often a handshake looks whether the files have changed.
const certificateInterval = time.Second

// certificate is the server's own. It is read again when its files change, for the handshakes that come after.
//
// The two files are replaced one after the other, so that for a moment they don't fit together. The pair that was good
// stays in use until there is another good one.
type certificate struct {
	certificateFile, keyFile string
	logger                   *zap.Logger
	started                  time.Time
	lookedAt                 atomic.Int64 // since started, in nanoseconds
	current                  atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // held by the handshake that looks
	files  [2]fs.FileInfo
	failed string // why the files as they are now can't be used
}

// newCertificate reads a certificate with its chain, and its key, both PEM.
func newCertificate(certificateFile, keyFile string, logger *zap.Logger) (*certificate, error) {
	c := &certificate{certificateFile: certificateFile, keyFile: keyFile, logger: logger, started: time.Now()}
	if err := c.loadLocked(); err != nil {
		return nil, fmt.Errorf("read the certificate of the server: %w", err)
	}
	return c, nil
}

// config is what a server needs.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// get returns the certificate for a handshake. It never waits for the files: one handshake looks, the others go on.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now, last := int64(time.Since(c.started)), c.lookedAt.Load()
	if now-last >= int64(certificateInterval) && c.lookedAt.CompareAndSwap(last, now) && c.mu.TryLock() {
		c.refreshLocked()
		c.mu.Unlock()
	}
	return c.current.Load(), nil
}

// refreshLocked reads the files if they have changed, or could not be read. What is wrong with them is logged once.
func (c *certificate) refreshLocked() {
	files, err := c.statLocked()
	if err == nil && c.failed == "" && sameFile(files[0], c.files[0]) && sameFile(files[1], c.files[1]) {
		return
	}
	err = c.loadLocked()
	switch {
	case err == nil:
		c.failed = ""
	case err.Error() != c.failed:
		c.failed = err.Error()
		c.logger.Warn("the changed certificate can't be used; the one before stays", zap.Error(err))
	}
}

// loadLocked reads both files. If they change meanwhile, the next look finds them changed.
func (c *certificate) loadLocked() error {
	files, err := c.statLocked()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.certificateFile, c.keyFile)
	if err != nil {
		return err
	}
	c.files = files
	c.current.Store(&pair)
	c.logger.Info("certificate read", zap.Strings("names", pair.Leaf.DNSNames),
		zap.Time("not_after", pair.Leaf.NotAfter), zap.Bool("expired", time.Now().After(pair.Leaf.NotAfter)))
	return nil
}

func (c *certificate) statLocked() ([2]fs.FileInfo, error) {
	certificateInfo, certificateErr := os.Stat(c.certificateFile)
	keyInfo, keyErr := os.Stat(c.keyFile)
	return [2]fs.FileInfo{certificateInfo, keyInfo}, errors.Join(certificateErr, keyErr)
}

// sameFile tells whether a file was neither replaced nor written to.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
