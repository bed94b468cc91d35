package segment

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/vfs"
)

// StoreOptions says where a Store lives and whom it tells.
type StoreOptions struct {
	FS     vfs.FS // vfs.OS if nil
	Dir    string // the data directory
	Logger *zap.Logger
	// OpenL0 puts a page cache in front of the file of a segment of level 0; nil reads it directly.
	OpenL0 func(id uint64, r io.ReaderAt, sizeBytes int64) io.ReaderAt
	// Retired is told of each segment that was of level 0 and no longer is, exactly once, after readers that begin now
	// no longer see it there. It runs on the goroutine of Apply, under no lock. Its file may still be open or, if it
	// was promoted, be live.
	Retired func(Meta)
	// Approve, if set, is told what the manifest records, after that was found to be whole and before anything is changed.
	// Its error ends OpenStore: a manifest that is older than the rest of the directory must not decide what is moved.
	Approve func(Recorded) error
	// LockRemoval, if set, is called before files of removed segments are deleted, and its result closed behind it. While
	// it fails, for instance because a backup reads the directory, they stay. See Store.Reclaim.
	LockRemoval func() (io.Closer, error)
}

// Recorded is what a manifest records beside segments.
type Recorded struct {
	Floors      []uint64 // one per shard
	Horizon     uint64   // see Store.Horizon
	MaxSequence uint64   // the highest that any segment or floor ever had
	Log         uint64   // ID of the write-ahead log; 0: not known
}

// Validate returns every problem at once.
func (o StoreOptions) Validate() error {
	if o.Dir == "" {
		return errors.New("the segment store needs a directory")
	}
	return nil
}

func (o StoreOptions) withDefaults() StoreOptions {
	o.Dir = filepath.Clean(o.Dir)
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Retired == nil {
		o.Retired = func(Meta) {}
	}
	if o.Approve == nil {
		o.Approve = func(Recorded) error { return nil }
	}
	if o.LockRemoval == nil {
		o.LockRemoval = func() (io.Closer, error) { return io.NopCloser(nil), nil }
	}
	return o
}

// Store keeps the live set of segments. Edits are made durable one after the other; readers hold versions and wait for
// nobody but the one step that installs a version.
//
// Locks, in this order: applyMu, publishMu, reclaimer.mu. Only applyMu is held during I/O, and only edits take it.
type Store struct {
	options   StoreOptions
	writers   WriterPool
	syncSlots chan struct{} // one per segment file that is being synced
	nextID    atomic.Uint64
	current   atomic.Pointer[version]
	poison    atomic.Pointer[error] // set once an edit has an unknown outcome
	reclaimer reclaimer
	madeDirs  sync.Map // directories that exist, by path
	pending   sync.Map // ids of files that are on their way and that no edit has taken over

	applyMu  sync.Mutex
	closed   bool
	manifest *manifest
	catalog  *catalog

	publishMu sync.RWMutex // guards that current and what publish changes change together
}

// segmentSyncs bounds how many files are written back to the disk at the same time: enough for a journal to commit many
// of them together.
const segmentSyncs = 16

// OpenStore reads the manifest and makes the directory agree with it: temporary files go, files of removed segments go,
// segments that the manifest does not know are moved to quarantine. It refuses a damaged manifest, a missing manifest
// where there are segments, and a live segment whose file is missing or has another size, before it changes anything.
func OpenStore(o StoreOptions) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	replayed, found, err := inspect(o.FS, o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open segment store %s: %w", o.Dir, err)
	}
	if err := o.Approve(replayed.recorded()); err != nil {
		return nil, err
	}
	s := &Store{options: o, syncSlots: make(chan struct{}, segmentSyncs)}
	if err := s.open(replayed, found); err != nil {
		return nil, fmt.Errorf("open segment store %s: %w", o.Dir, err)
	}
	return s, nil
}

func (s *Store) open(r *replayed, found *inventory) error {
	manifestDir := filepath.Join(s.options.Dir, manifestDirName)
	for _, dir := range []string{manifestDir, filepath.Join(s.options.Dir, l0DirName)} {
		if err := s.makeDir(dir); err != nil {
			return err
		}
	}
	// Nothing may rely on a manifest whose name can still be lost: the process that made it may have been killed.
	if err := s.options.FS.SyncDir(manifestDir); err != nil {
		return fmt.Errorf("sync %s: %w", manifestDir, err)
	}
	if err := s.openManifest(manifestDir, r, found); err != nil {
		return err
	}
	if err := s.sweep(r, found); err != nil {
		return errors.Join(err, s.manifest.close())
	}
	s.removeEmptyDirs(filepath.Join(s.options.Dir, l1DirName))
	s.nextID.Store(max(s.catalog.nextID, found.highestID+1))
	s.install(s.firstVersion(), nil)
	return nil
}

// openManifest opens the replayed manifest or creates the first one. Edits that were read are written anew as a
// checkpoint: if their sync failed before the last process ended, they may be in the page cache only, and marked clean.
func (s *Store) openManifest(dir string, r *replayed, found *inventory) (err error) {
	if r == nil {
		s.catalog = newCatalog()
		s.manifest, err = createManifest(s.options.FS, dir, 1, s.catalog, nil)
		return err
	}
	s.catalog = r.catalog
	if s.manifest, err = openManifest(s.options.FS, r); err != nil {
		return err
	}
	if r.tornBytes > 0 {
		s.options.Logger.Warn("the manifest ended in an edit that was cut short; it never took effect",
			zap.String("path", r.path), zap.Int64("bytes", r.tornBytes))
	}
	if r.validBytes > r.checkpointBytes {
		s.rotateLocked(found.present(r.unlinked))
	}
	return nil
}

// firstVersion is the version of a store that was just opened. Its segments count as registered now.
func (s *Store) firstVersion() *version {
	now := time.Now()
	var live []*Segment
	for _, m := range s.catalog.metas() {
		live = append(live, &Segment{meta: m, store: s, birth: 1, registered: now})
	}
	empty := newVersion(0, s.catalog)
	return empty.next(s.catalog, nil, live)
}

// Shards is the recorded number of shards; 0 until an edit sets it.
func (s *Store) Shards() int { return s.current.Load().shards }

// Floors returns the recorded floor of every shard.
func (s *Store) Floors() []uint64 { return slices.Clone(s.current.Load().floors) }

// Databases returns the recorded databases, ascending.
func (s *Store) Databases() []string { return slices.Clone(s.current.Load().databases) }

// MaxSequence is the highest sequence that any segment or floor ever had.
func (s *Store) MaxSequence() uint64 { return s.current.Load().maxSequence }

// Log is the recorded ID of the write-ahead log; 0 until an edit sets it.
func (s *Store) Log() uint64 { return s.current.Load().log }

// L0Bytes is the size of all live files of level 0.
func (s *Store) L0Bytes() int64 { return s.Level(0).SizeBytes }

// Level counts the live segments of level 0 or 1.
func (s *Store) Level(level int) LevelStats { return s.current.Load().levels[level] }

// ReadOnly returns why the store takes no edits any more, or nil while it does.
func (s *Store) ReadOnly() error {
	if cause := s.poison.Load(); cause != nil {
		return *cause
	}
	return nil
}

// Acquire runs pin and takes a view, both between two publications, so that what pin collects and what the view holds
// fit together. Pin must be short and must not call the store.
func (s *Store) Acquire(pin func()) *View {
	s.publishMu.RLock()
	defer s.publishMu.RUnlock()
	if pin != nil {
		pin()
	}
	v := s.current.Load()
	v.refs.Add(1)
	return &View{store: s, version: v}
}

// Close closes the manifest. Views may still be released afterwards; edits are refused.
func (s *Store) Close() error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.manifest == nil { // opened for reading
		return nil
	}
	if err := s.manifest.close(); err != nil {
		return fmt.Errorf("close manifest: %w", err)
	}
	return nil
}

// makeDir creates a directory below the data directory once in the life of the store. The entry of one that exists
// may be of a process that was killed before it had synced it, so it is synced too.
func (s *Store) makeDir(dir string) error {
	if _, made := s.madeDirs.Load(dir); made || dir == s.options.Dir {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := s.makeDir(parent); err != nil {
		return err
	}
	_, err := s.options.FS.Stat(dir)
	if err == nil {
		err = s.options.FS.SyncDir(parent)
	} else {
		err = s.options.FS.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("create directory %s: %w", dir, err)
	}
	s.madeDirs.Store(dir, struct{}{})
	return nil
}
