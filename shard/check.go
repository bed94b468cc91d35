package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"lineweir/internal/vfs"
	"lineweir/segment"
	"lineweir/wal"
)

// DumpLog calls write for the payload of every write that the log in dir holds, and drop for every drop, in order. A
// drop without a measurement is of whole databases. It changes nothing, and fails where the log is damaged or holds a
// frame that this program does not know.
func DumpLog(
	ctx context.Context, fs vfs.FS, dir string,
	write func(payload []byte) error, drop func(databases []string, measurement string) error,
) error {
	return wal.Dump(fs, dir, func(file string, offset int64, f wal.Frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch f.Type {
		case frameWrite:
			return write(f.Payload)
		case frameDrop:
			d, err := parseDrop(f.Payload)
			if err != nil {
				return fmt.Errorf("%w: frame %d at byte %d of %s: %w", ErrCorrupt, f.Sequence, offset, file, err)
			}
			return drop(d.databases, d.measurement)
		default:
			return fmt.Errorf("%w: frame %d at byte %d of %s has the unknown type %d",
				ErrCorrupt, f.Sequence, offset, file, f.Type)
		}
	})
}

// Check verifies the log, the manifest and every live segment of a data directory that no process uses, and reports
// what it found. It changes nothing. An error names each thing that is damaged.
func Check(fs vfs.FS, dataDir string, w io.Writer) error {
	if err := refuseIncomplete(fs, dataDir); err != nil {
		return err
	}
	lock, err := lockToRead(fs, dataDir)
	if err != nil {
		return err
	}
	var pending error
	if found, err := exists(fs, filepath.Join(dataDir, repairMark)); err != nil || found {
		pending = cmp.Or(err, ErrRepairPending)
	}
	known, segments := checkSegments(fs, dataDir, w)
	return errors.Join(checkLog(fs, dataDir, known, w), segments, pending, lock.Close())
}

func checkLog(fs vfs.FS, dataDir string, known wal.Known, w io.Writer) error {
	report, err := wal.Check(fs, filepath.Join(dataDir, "wal"), known)
	if err != nil {
		return fmt.Errorf("check the write-ahead log: %w", err)
	}
	for _, f := range report.Files {
		_, err := fmt.Fprintf(w, "%s: %d frames with sequences %d to %d in %d of %d bytes\n",
			f.Path, f.Frames, f.FirstSequence, f.LastSequence, f.UsedBytes, f.SizeBytes)
		if err != nil {
			return err
		}
	}
	if report.Torn != "" {
		if _, err := fmt.Fprintf(w, "log: a torn group that was never acknowledged: %s\n", report.Torn); err != nil {
			return err
		}
	}
	var damage []error
	for _, d := range report.Damage {
		damage = append(damage, d)
	}
	return errors.Join(damage...)
}

// checkSegments returns what the manifest tells about the log.
func checkSegments(fs vfs.FS, dataDir string, w io.Writer) (known wal.Known, err error) {
	report, err := segment.Check(fs, dataDir)
	if err != nil {
		return wal.Known{Floor: wal.UnknownFloor}, fmt.Errorf("check the segments: %w", err)
	}
	known = knownOfLog(report.Recorded)
	for _, path := range report.Unnamed {
		if _, err := fmt.Fprintf(w, "not in the manifest, goes to quarantine at the next start: %s\n", path); err != nil {
			return known, err
		}
	}
	_, err = fmt.Fprintf(w, "segments: %d with %d rows in %d bytes, %d damaged\n",
		report.Segments, report.Rows, report.SizeBytes, len(report.Problems))
	return known, errors.Join(append(report.Problems, err)...)
}
