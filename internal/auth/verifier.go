package auth

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

// lookInterval is how long a revoked token may go on: the file is looked at by the first request after it. A secret
// that is not known is looked up again at once, so that a new token is good from its first use.
const lookInterval = 100 * time.Millisecond

// Verifier tells the rights of clients, for a server. It is safe for concurrent use.
//
// A request costs one SHA-256 and a comparison with each stored hash, and takes no lock: neither a good secret nor a
// flood of bad ones. Only when the file has changed do requests wait for the one that reads it, because until then
// there is no verdict: letting them go by the old content would refuse a new token, which clients take as final.
type Verifier struct {
	fs       vfs.FS
	path     string
	logger   *zap.Logger
	started  time.Time
	lookedAt atomic.Int64 // since started, in nanoseconds
	current  atomic.Pointer[snapshot]

	mu sync.Mutex // held by the one that reads a changed file
}

// snapshot is what a file said. It is never changed.
type snapshot struct {
	info    fs.FileInfo // nil: there was no file
	err     error       // why there is no verdict; nothing else is set then
	on      bool
	digests []digest
	rights  []Rights
}

// NewVerifier reads the tokens of a data directory. A file that can't be read is logged, and read again at each look.
func NewVerifier(fsys vfs.FS, dataDir string, logger *zap.Logger) *Verifier {
	v := &Verifier{fs: fsys, path: tokensPath(dataDir), logger: logger, started: time.Now()}
	v.current.Store(&snapshot{})
	info, err := v.stat()
	v.read(v.current.Load(), info, err)
	return v
}

// On tells whether requests need a token. It is true while that can't be known.
func (v *Verifier) On() bool {
	s := v.look(lookInterval)
	return s.on || s.err != nil
}

// Ready returns ErrUnreadable while there are no verdicts.
func (v *Verifier) Ready() error { return v.look(lookInterval).err }

// Verify returns the rights of who sends the secret, "" for none; Anyone while authentication is off. The rights are
// shared, and not to be changed. Errors are ErrNoSecret, ErrUnknown and ErrUnreadable.
func (v *Verifier) Verify(secret string) (*Rights, error) {
	s := v.look(lookInterval)
	rights, err := s.verify(secret)
	if !errors.Is(err, ErrUnknown) {
		return rights, err
	}
	if now := v.look(0); now != s {
		return now.verify(secret)
	}
	return nil, err
}

var anyone = Anyone()

func (s *snapshot) verify(secret string) (*Rights, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case !s.on:
		return anyone, nil
	case secret == "":
		return nil, ErrNoSecret
	}
	sent, ok := digestOf(secret)
	if !ok {
		return nil, ErrUnknown
	}
	at := s.find(&sent)
	if at < 0 {
		return nil, ErrUnknown
	}
	return &s.rights[at], nil
}

// find compares with every digest, however early one is the same, so that its time tells nothing.
func (s *snapshot) find(sent *digest) int {
	at := -1
	for i := range s.digests {
		same := subtle.ConstantTimeCompare(sent[:], s.digests[i][:])
		at = subtle.ConstantTimeSelect(same, i, at)
	}
	return at
}

// look returns what the file says, as it was at most maxAge ago.
func (v *Verifier) look(maxAge time.Duration) *snapshot {
	s := v.current.Load()
	now, last := int64(time.Since(v.started)), v.lookedAt.Load()
	// What can't be read is not read more often than what can, whoever asks.
	if age := now - last; age < int64(maxAge) || s.err != nil && age < int64(lookInterval) {
		return s
	}
	// A flood of unknown secrets leaves lookedAt alone, which all requests read.
	if maxAge > 0 && !v.lookedAt.CompareAndSwap(last, now) {
		return s // another request looks
	}
	info, err := v.stat()
	if s.err == nil && err == nil && sameFile(s.info, info) {
		return s
	}
	return v.read(s, info, err)
}

// stat describes the file; nil if there is none.
func (v *Verifier) stat() (fs.FileInfo, error) {
	info, err := v.fs.Stat(v.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}

// sameFile tells whether the file was not replaced in between. A command replaces it by another inode, and syncs twice
// before the next one can bring the first inode back, so that its time is another.
func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read makes a snapshot of the file that info describes, unless another request has replaced the seen one meanwhile.
func (v *Verifier) read(seen *snapshot, info fs.FileInfo, err error) *snapshot {
	v.mu.Lock()
	if now := v.current.Load(); now != seen {
		v.mu.Unlock()
		return now
	}
	next := v.snapshot(seen, info, err)
	v.current.Store(next)
	v.mu.Unlock()
	v.report(seen, next)
	return next
}

// snapshot reads the file. Where none was before, none is good; where one was, a missing one is an error.
func (v *Verifier) snapshot(before *snapshot, info fs.FileInfo, err error) *snapshot {
	if err == nil && info == nil {
		if !before.on && before.err == nil {
			return &snapshot{}
		}
		err = ErrVanished
	}
	var tokens []Token
	if err == nil {
		tokens, err = readTokens(v.fs, v.path)
	}
	if err != nil {
		return &snapshot{info: info, err: fmt.Errorf("%w: %w", ErrUnreadable, err)}
	}
	s := &snapshot{info: info, on: true}
	for i := range tokens {
		s.digests = append(s.digests, tokens[i].digest)
		s.rights = append(s.rights, tokens[i].Rights)
	}
	return s
}

// report logs what has changed. The answers of requests tell the same, but not to the operator.
func (v *Verifier) report(before, now *snapshot) {
	switch {
	case now.err != nil && (before.err == nil || before.err.Error() != now.err.Error()):
		v.logger.Error("requests that need a token are answered 503", zap.Error(now.err))
	case now.err == nil && now.on:
		v.logger.Info("tokens read", zap.Int("tokens", len(now.digests)))
	}
}
