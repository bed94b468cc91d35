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

// retryInterval is how often a file that can't be read is tried again while it looks the same.
const retryInterval = 100 * time.Millisecond

// Verifier tells the rights of clients, for a server. It is safe for concurrent use.
//
// A request costs a stat, which tells whether the file has changed, one SHA-256 and a comparison with each stored hash:
// about two microseconds. It takes no lock: neither a good secret nor a flood of bad ones. Requests that meet a changed
// file wait for the one that reads it, because until then there is no verdict, and clients take a refusal as final.
type Verifier struct {
	fs      vfs.FS
	path    string
	logger  *zap.Logger
	current atomic.Pointer[snapshot]

	mu sync.Mutex // held by the one that reads a changed file
}

// snapshot is what a file said. It is never changed.
type snapshot struct {
	info    fs.FileInfo // nil: there was no file
	at      time.Time   // when it was read
	err     error       // why there is no verdict; nothing below is set then
	on      bool
	digests []digest
	rights  []Rights
}

// NewVerifier reads the tokens of a data directory. A file that can't be read is logged, and read again at each look.
func NewVerifier(fsys vfs.FS, dataDir string, logger *zap.Logger) *Verifier {
	v := &Verifier{fs: fsys, path: tokensPath(dataDir), logger: logger}
	v.current.Store(&snapshot{})
	v.look()
	return v
}

// On tells whether requests need a token. It is true while that can't be known.
func (v *Verifier) On() bool {
	s := v.look()
	return s.on || s.err != nil
}

// Ready returns ErrUnreadable while there are no verdicts.
func (v *Verifier) Ready() error { return v.look().err }

// Verify returns the rights of who sends the secret, "" for none; Anyone while authentication is off. The rights are
// shared, and not to be changed. Errors are ErrNoSecret, ErrUnknown and ErrUnreadable.
func (v *Verifier) Verify(secret string) (*Rights, error) {
	return v.look().verify(secret)
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

// look returns what the file says now.
func (v *Verifier) look() *snapshot {
	s := v.current.Load()
	info, err := v.stat()
	if s.holds(info, err) {
		return s
	}
	return v.read(info, err)
}

// holds tells whether a snapshot is still what reading the file would make.
func (s *snapshot) holds(info fs.FileInfo, err error) bool {
	if s.err == nil {
		return err == nil && sameFile(s.info, info)
	}
	return (err != nil || sameFile(s.info, info)) && time.Since(s.at) < retryInterval
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

// read makes a snapshot of the file that info describes, unless another request has done so meanwhile.
func (v *Verifier) read(info fs.FileInfo, err error) *snapshot {
	v.mu.Lock()
	before := v.current.Load()
	if before.holds(info, err) {
		v.mu.Unlock()
		return before
	}
	now := v.snapshot(before, info, err)
	v.current.Store(now)
	v.mu.Unlock()
	v.report(before, now)
	return now
}

// snapshot reads the file. Where none was before, none is good; where one was, a missing one is an error.
func (v *Verifier) snapshot(before *snapshot, info fs.FileInfo, err error) *snapshot {
	if err == nil && info == nil {
		if !before.on && before.err == nil {
			return &snapshot{at: time.Now()}
		}
		err = ErrVanished
	}
	var tokens []Token
	if err == nil {
		tokens, err = readTokens(v.fs, v.path)
	}
	if err != nil {
		return &snapshot{info: info, at: time.Now(), err: fmt.Errorf("%w: %w", ErrUnreadable, err)}
	}
	s := &snapshot{info: info, at: time.Now(), on: true}
	for i := range tokens {
		s.digests = append(s.digests, tokens[i].digest)
		rights := tokens[i].Rights
		rights.Token = tokens[i].Name
		s.rights = append(s.rights, rights)
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
