package wal

import (
	"errors"
	"fmt"
	"io/fs"

	"lineweir/internal/vfs"
)

// FileReport is what Check found in one file.
type FileReport struct {
	Path          string
	SizeBytes     int64
	UsedBytes     int64 // header and intact groups
	Groups        int
	Frames        int
	FirstSequence uint64 // of the first frame, or of the one that would be it
	LastSequence  uint64 // FirstSequence - 1 if the file has no frame
	Sealed        bool
}

// Report is what Check found in a log.
type Report struct {
	Files []FileReport
	// Torn says where the next Open will cut off a group that was never acknowledged. It is empty if there is none.
	Torn string
	// Damage is empty if Open would succeed. Files below the floor count too.
	Damage []*CorruptionError
}

// Check reads all files of a log and changes nothing. The error is one of the file system; damage is in the report.
func Check(fsys vfs.FS, dir string, known Known) (Report, error) {
	found, err := listDir(fsys, dir)
	if err != nil {
		return Report{}, err
	}
	states, err := scanFiles(fsys, dir, found.numbers, nil)
	if err != nil {
		return Report{}, err
	}
	v, damage := judge(states)
	report := Report{Damage: append(damage, known.missing(dir, states)...)}
	if found.repaired {
		report.Damage = append(report.Damage, interruptedRepair(dir))
	}
	if len(damage) == 0 && len(states) > 0 {
		report.Damage = append(report.Damage, known.contradictions(states[v.current])...)
	}
	for _, st := range states {
		report.Files = append(report.Files, FileReport{
			Path: st.path, SizeBytes: st.sizeBytes, UsedBytes: st.end, Groups: st.groups, Frames: st.frames,
			FirstSequence: st.header.FirstSequence, LastSequence: st.sequence - 1, Sealed: st.sealed != nil,
		})
	}
	if v.torn != nil {
		report.Torn = fmt.Sprintf("%s: %v", states[v.current].path, v.torn)
	}
	return report, nil
}

// Read calls fn for each frame above the floor, in order, and changes nothing. It refuses what Open refuses, by a
// *CorruptionError, though after it has called fn for what could be read. An error of fn ends it and is returned as it
// is. The payload is valid during the call.
func Read(fsys vfs.FS, dir string, known Known, fn func(Frame) error) error {
	found, err := listDir(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	states, err := scanFiles(fsys, dir, found.numbers, func(_ string, _ int64, f Frame) error {
		if f.Sequence <= known.Floor {
			return nil
		}
		return fn(f)
	})
	if err != nil {
		return err
	}
	v, damage := judge(states)
	damage = append(damage, known.missing(dir, states)...)
	if len(damage) == 0 && len(states) > 0 {
		damage = known.contradictions(states[v.current])
	}
	if len(damage) > 0 {
		return damage[0]
	}
	return nil
}

// missing reports what a log of these files lacks at its beginning.
func (k Known) missing(dir string, states []fileState) []*CorruptionError {
	if k.Floor == UnknownFloor {
		return nil
	}
	if written := max(k.Floor, k.Written); len(states) == 0 && written > 0 {
		return []*CorruptionError{noFile(dir, written)}
	}
	if len(states) == 0 || states[0].damage != nil || states[0].header.FirstSequence <= k.Floor+1 {
		return nil
	}
	return []*CorruptionError{firstMissing(dir, states[0].number, states[0].header, k.Floor)}
}

// Dump calls fn for each frame that can be read, in order, and changes nothing. It goes on behind damage with the next
// file, and then returns the first *CorruptionError. Without any file it fails with ErrNoLog. An error of fn ends it
// and is returned as it is.
func Dump(fsys vfs.FS, dir string, fn func(file string, offset int64, f Frame) error) error {
	states, err := scanDir(fsys, dir, fn)
	if err != nil {
		return err
	}
	if len(states) == 0 {
		return fmt.Errorf("%s: %w", dir, ErrNoLog)
	}
	if _, damage := judge(states); len(damage) > 0 {
		return damage[0]
	}
	return nil
}

func scanDir(fsys vfs.FS, dir string, visit func(string, int64, Frame) error) ([]fileState, error) {
	found, err := listDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	return scanFiles(fsys, dir, found.numbers, visit)
}
