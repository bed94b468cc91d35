package shard

import (
	"errors"
	"io"
	"path/filepath"
	"sync"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

// Names of the locks of a data directory that a backup takes. While it holds one, the server goes on, and deletes no
// file of that kind.
const (
	keepLogName      = "KEEP.wal"
	keepSegmentsName = "KEEP.segments"
)

// removalLock is the server's side of such a lock: held while files are deleted, by any number of its goroutines.
//
// A lock of the operating system is let go of when its holder ends, however that ends: no backup that was killed keeps
// a log from being trimmed. Rejected: a request to the server, which has then to be asked, trusted with a path and
// watched; and no lock at all, because a log under load trims and reuses its files faster than they can be copied.
type removalLock struct {
	fs     vfs.FS
	path   string
	logger *zap.Logger

	mu      sync.Mutex
	holders int
	lock    io.Closer // while there are holders
	refused bool      // the last time
}

func (e *Engine) newRemovalLock(name string) *removalLock {
	return &removalLock{fs: e.options.FS, path: filepath.Join(e.options.DataDir, name), logger: e.logger}
}

// acquire takes the lock or fails at once.
func (l *removalLock) acquire() (io.Closer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders == 0 {
		lock, err := l.fs.Lock(l.path)
		l.tell(err)
		if err != nil {
			return nil, err
		}
		l.lock = lock
	}
	l.holders++
	return closerFunc(l.release), nil
}

// tell logs the first of several refusals in a row.
func (l *removalLock) tell(err error) {
	if refused := err != nil; refused == l.refused {
		return
	}
	l.refused = err != nil
	switch {
	case err == nil:
		l.logger.Info("files are deleted again", zap.String("lock", l.path))
	case errors.Is(err, vfs.ErrLocked):
		l.logger.Info("a backup is being made; files stay until it has read them", zap.String("lock", l.path))
	default:
		l.logger.Warn("files can't be deleted without this lock; it is tried again",
			zap.String("lock", l.path), zap.Error(err))
	}
}

func (l *removalLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders--
	if l.holders > 0 {
		return nil
	}
	return l.lock.Close()
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }
