package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"lineweir/internal/vfs"
)

// A merge is about to make its inputs go, so its outputs are read back first: the footer must state what the writer
// counted, and so must what the pages say. All bytes are read with their checksums; the pages of small files are all
// decoded, of others one in some.
const (
	decodeAllBytes = 4 << 20
	decodeEvery    = 16
)

// verify reads a written file back.
func (p *PendingFile) verify() error {
	file, err := p.Open()
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	return errors.Join(p.verifyFile(file), file.Close())
}

func (p *PendingFile) verifyFile(file vfs.File) error {
	opened, err := OpenFile(p.path(), file, p.written.SizeBytes)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	every := 1
	if p.written.SizeBytes > decodeAllBytes {
		every = decodeEvery
	}
	found, err := opened.Verify(every)
	switch {
	case err != nil:
		return fmt.Errorf("read back: %w", err)
	case !opened.Info().equal(p.info):
		return p.differs("says that it is %+v, and was written as %+v", opened.Info(), p.info)
	case !opened.Written().Equal(p.written):
		return p.differs("says that it holds %+v, and was written with %+v", opened.Written(), p.written)
	case !found.Equal(p.written):
		return p.differs("holds %+v, and was written with %+v", found, p.written)
	}
	return nil
}

func (p *PendingFile) differs(format string, got, want any) error {
	return &CorruptionError{Path: p.path(), Reason: "read back, it " + fmt.Sprintf(format, got, want)}
}

func (i FileInfo) equal(other FileInfo) bool {
	return i.Database == other.Database && i.Measurement == other.Measurement && i.Level == other.Level &&
		i.Rank == other.Rank && i.MinSequence == other.MinSequence && i.MaxSequence == other.MaxSequence &&
		i.Mixed == other.Mixed && slices.Equal(i.Tags, other.Tags) && slices.Equal(i.Fields, other.Fields)
}

// CheckReport is what Check found in a data directory.
type CheckReport struct {
	Segments        int
	SizeBytes, Rows int64
	Unnamed         []string // segments that the next start moves to quarantine
	Problems        []error
	Recorded        Recorded // beside the segments
}

// Check reads all segments of a data directory that no process uses and decodes every page. It changes nothing. Its
// error says that there is nothing to check by: the manifest is damaged or can't be read.
func Check(fsys vfs.FS, dir string) (CheckReport, error) {
	r, err := replayManifest(fsys, filepath.Join(dir, manifestDirName))
	if err != nil {
		return CheckReport{}, err
	}
	found, err := takeInventory(fsys, dir)
	if err != nil {
		return CheckReport{}, err
	}
	if r == nil {
		return CheckReport{}, found.checkEmpty(dir)
	}
	var report CheckReport
	live := make(map[string]struct{})
	for _, m := range r.catalog.metas() {
		live[segmentPath(*m)] = struct{}{}
		report.Segments++
		report.SizeBytes += m.SizeBytes
		report.Rows += m.Rows
		if err := checkSegment(fsys, dir, m); err != nil {
			report.Problems = append(report.Problems, err)
		}
	}
	report.Recorded = r.recorded()
	report.Unnamed = found.unnamed(live, r.unlinked)
	return report, nil
}

// unnamed lists the segments that no edit knows, ascending.
func (v *inventory) unnamed(live map[string]struct{}, unlinked map[uint64]struct{}) []string {
	var paths []string
	for path, file := range v.segments {
		_, isLive := live[path]
		_, isUnlinked := unlinked[file.id]
		if !isLive && !isUnlinked {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// checkSegment compares all that a live segment holds with what the manifest says.
func checkSegment(fsys vfs.FS, dir string, m *Meta) (err error) {
	path := filepath.Join(dir, segmentPath(*m))
	file := &lazyFile{fs: fsys, path: path}
	defer func() { err = errors.Join(err, file.Close()) }()
	opened, err := OpenFile(path, file, m.SizeBytes)
	if err != nil {
		return err
	}
	if err := m.checkIdentity(path, opened.sums.footer); err != nil {
		return err
	}
	found, err := opened.Verify(1)
	if err != nil {
		return err
	}
	if !found.Equal(opened.Written()) {
		return &CorruptionError{Path: path, Reason: "its pages and its footer disagree"}
	}
	if found.Rows != m.Rows || found.MinTime != m.MinTime || found.MaxTime != m.MaxTime ||
		opened.Info().Database != m.Database || opened.Info().Measurement != m.Measurement {
		return &CorruptionError{Path: path, Reason: "it is not the segment that the manifest names"}
	}
	return nil
}
