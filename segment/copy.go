package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"lineweir/internal/vfs"
)

// Snapshot is what the manifest of a data directory says at one moment. A server may use the directory meanwhile.
type Snapshot struct {
	fs       vfs.FS
	dir      string
	replayed *replayed
}

// CopiedSegments says what CopyFiles has put into the copy.
type CopiedSegments struct {
	Linked, Copied           int
	LinkedBytes, CopiedBytes int64
}

// manifestTriesMax is how often a manifest is looked for. Each new one lasts for at least 1 MiB of edits.
const manifestTriesMax = 100

// ReadSnapshot reads the manifest of a data directory. Errors: ErrNoManifest, and those of a damaged manifest.
func ReadSnapshot(fsys vfs.FS, dir string) (*Snapshot, error) {
	for tries := 1; ; tries++ {
		r, err := replayManifest(fsys, filepath.Join(dir, manifestDirName))
		switch {
		case errors.Is(err, fs.ErrNotExist) && tries < manifestTriesMax:
			continue // a newer one has replaced it since the directory was listed
		case err != nil:
			return nil, err
		case r == nil:
			return nil, fmt.Errorf("%w: %s", ErrNoManifest, dir)
		}
		return &Snapshot{fs: fsys, dir: dir, replayed: r}, nil
	}
}

// Recorded is what the manifest records beside segments.
func (s *Snapshot) Recorded() Recorded { return s.replayed.recorded() }

// CopyFiles puts every live segment into the data directory dest, and makes them durable: as a hard link, since no byte
// of a segment is ever changed, or as a copy where that can't be. Nobody may delete files of the snapshot meanwhile.
func (s *Snapshot) CopyFiles(ctx context.Context, dest string) (CopiedSegments, error) {
	var copied CopiedSegments
	dirs := map[string]struct{}{}
	for _, m := range s.replayed.catalog.metas() {
		if err := ctx.Err(); err != nil {
			return copied, err
		}
		path := filepath.Join(dest, segmentPath(*m))
		dir := filepath.Dir(path)
		if _, made := dirs[dir]; !made {
			dirs[dir] = struct{}{}
			if err := s.fs.MkdirAll(dir, 0o755); err != nil {
				return copied, fmt.Errorf("create directory %s: %w", dir, err)
			}
		}
		if err := s.copySegment(ctx, m, path, &copied); err != nil {
			return copied, fmt.Errorf("copy segment: %w", err)
		}
	}
	for dir := range dirs {
		if err := s.fs.SyncDir(dir); err != nil {
			return copied, fmt.Errorf("sync directory of segments: %w", err)
		}
	}
	return copied, nil
}

func (s *Snapshot) copySegment(ctx context.Context, m *Meta, path string, copied *CopiedSegments) error {
	from := filepath.Join(s.dir, segmentPath(*m))
	linked := s.fs.Link(from, path)
	if linked == nil {
		copied.Linked++
		copied.LinkedBytes += m.SizeBytes
		return nil
	}
	if errors.Is(linked, fs.ErrNotExist) {
		return linked
	}
	if err := vfs.CopyFile(ctx, s.fs, from, path, m.SizeBytes); err != nil {
		return errors.Join(err, linked)
	}
	copied.Copied++
	copied.CopiedBytes += m.SizeBytes
	return nil
}

// WriteManifest writes the snapshot as a checkpoint into the data directory dest, where CopyFiles has put its segments,
// makes it durable, and checks that each segment is there with its size.
func (s *Snapshot) WriteManifest(dest string) error {
	dir := filepath.Join(dest, manifestDirName)
	if err := s.fs.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create directory %s: %w", dir, err)
	}
	m, err := createManifest(s.fs, dir, s.replayed.number, s.replayed.catalog, nil)
	if err != nil {
		return err
	}
	if err := m.close(); err != nil {
		return fmt.Errorf("close manifest: %w", err)
	}
	_, _, err = inspect(s.fs, dest)
	return err
}
