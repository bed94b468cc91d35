package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
	"lineweir/segment"
	"lineweir/wal"
)

// OfflineOptions say what OpenOffline reads.
type OfflineOptions struct {
	FS      vfs.FS
	DataDir string
	// Decode is that of Options.
	Decode func(payload []byte, newBatch func(database string) *Batch) (*Batch, error)
}

// OpenOffline opens a data directory that no process uses, for scans only, and changes nothing in it: the directory
// may be one that can't be written. What the log holds is replayed into memory, all of it. What a start refuses is
// refused. CloseOffline closes it.
func OpenOffline(ctx context.Context, o OfflineOptions) (*Engine, error) {
	if err := refuseIncomplete(o.FS, o.DataDir); err != nil {
		return nil, err
	}
	lock, err := lockToRead(o.FS, o.DataDir)
	if err != nil {
		return nil, err
	}
	e := &Engine{logger: zap.NewNop(), schema: newSchema(), lock: lock, offline: true}
	e.options = Options{
		FS: o.FS, DataDir: o.DataDir, Logger: e.logger, Decode: o.Decode,
		Limits:   Limits{ColumnsPerMeasurement: math.MaxInt, MeasurementsPerMemtable: math.MaxInt},
		Memtable: MemtableOptions{MaxBytes: math.MaxInt64, MaxRows: math.MaxInt64, MaxAge: time.Hour, FrozenMax: 1},
	}
	e.retention = newRetention(0)
	if err := e.loadOffline(ctx); err != nil {
		return nil, errors.Join(err, e.closeFiles())
	}
	return e, nil
}

func (e *Engine) loadOffline(ctx context.Context) error {
	if pending, err := exists(e.options.FS, filepath.Join(e.options.DataDir, repairMark)); err != nil || pending {
		return errors.Join(err, ErrRepairPending)
	}
	var known wal.Known
	var err error
	e.store, err = segment.OpenReadOnly(segment.StoreOptions{
		FS: e.options.FS, Dir: e.options.DataDir, Approve: func(r segment.Recorded) error {
			known = knownOfLog(r)
			return nil
		},
	})
	if err != nil {
		return err
	}
	e.learnSchema()
	if err := e.makeShards(max(e.store.Shards(), 1)); err != nil {
		return err
	}
	covered := e.covered()
	err = wal.Read(e.options.FS, filepath.Join(e.options.DataDir, "wal"), known, func(f wal.Frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return e.replayFrame(ctx, f, covered)
	})
	if err != nil {
		return fmt.Errorf("read the write-ahead log: %w", err)
	}
	e.recovery.batch = nil
	return nil
}

// ErrNoData refuses a directory in which no server has ever stored anything, so that a mistyped path is not found to be
// whole.
var ErrNoData = errors.New("this is no data directory: it holds neither manifest, log nor segments")

// refuseForeign tells a directory with something of a server from any other.
func refuseForeign(fsys vfs.FS, dir string) error {
	for _, name := range []string{"manifest", "wal", "l0", "l1"} {
		if found, err := exists(fsys, filepath.Join(dir, name)); err != nil || found {
			return err
		}
	}
	return fmt.Errorf("%s: %w", dir, ErrNoData)
}

// lockToRead makes sure that no process uses a data directory. One that can't be written has no lock to take, if none
// was ever taken, and nobody who could write it. What is no data directory gets no lock file. Errors: ErrNoData,
// vfs.ErrLocked.
func lockToRead(fsys vfs.FS, dataDir string) (io.Closer, error) {
	if err := refuseForeign(fsys, dataDir); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(filepath.Join(dataDir, "LOCK"))
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return io.NopCloser(nil), nil
	default:
		return nil, fmt.Errorf("lock the data directory %s: %w", dataDir, err)
	}
}

// CloseOffline closes what OpenOffline has opened.
func (e *Engine) CloseOffline() error { return e.closeFiles() }
