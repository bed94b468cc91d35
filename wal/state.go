package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"lineweir/internal/vfs"
)

// fileState is what a scan of one file found.
type fileState struct {
	path      string
	number    uint64 // by name
	sizeBytes int64
	header    fileHeader

	groups      int
	frames      int
	lastOffset  int64 // of the last intact group, 0 if there is none
	end         int64 // behind the last intact group
	group       uint64
	sequence    uint64 // group and sequence that would come next
	previousCRC uint32

	sealed *trailer         // nil: the file has no trailer
	bad    *badGroupError   // nil: zeros or nothing lie behind end
	damage *CorruptionError // nil: the file alone gives no proof of damage
}

// scanFile reads a file to its end or its first bad group. visit gets each frame of each intact group and may be nil.
// Damage is part of the state; the error is one of the file system or of visit. The buffer is used and replaced.
func scanFile(
	fsys vfs.FS, dir string, number uint64, buffer *[]byte, visit func(path string, offset int64, f Frame) error,
) (state fileState, err error) {
	state = fileState{path: filepath.Join(dir, fileName(number)), number: number}
	file, err := fsys.OpenFile(state.path, os.O_RDONLY, 0)
	if err != nil {
		return state, fmt.Errorf("open write-ahead log file: %w", err)
	}
	defer closeInto(&err, file)
	if state.sizeBytes, err = file.Size(); err != nil {
		return state, fmt.Errorf("size of %s: %w", state.path, err)
	}
	s, err := newScanner(file, state.sizeBytes, state.path, *buffer)
	if err != nil {
		return state, state.note(err)
	}
	defer func() { *buffer = s.data }()
	if s.header.Number != number {
		state.damage = corruption(state.path, 0, "its header is that of file %s", fileName(s.header.Number))
		return state, nil
	}
	err = state.note(state.scan(s, visit))
	return state, err
}

// scanFiles scans the files of the given numbers.
func scanFiles(
	fsys vfs.FS, dir string, numbers []uint64, visit func(path string, offset int64, f Frame) error,
) ([]fileState, error) {
	states := make([]fileState, 0, len(numbers))
	var buffer []byte
	for _, number := range numbers {
		state, err := scanFile(fsys, dir, number, &buffer, visit)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

// closeInto closes a file that was read, and keeps the first error.
func closeInto(err *error, file vfs.File) {
	if closeErr := file.Close(); *err == nil {
		*err = closeErr
	}
}

// note keeps damage in the state and returns every other error.
func (st *fileState) note(err error) error {
	if errors.As(err, &st.damage) {
		return nil
	}
	return err
}

func (st *fileState) scan(s *scanner, visit func(path string, offset int64, f Frame) error) error {
	st.header, st.end = s.header, fileHeaderBytes
	frame := func(offset int64, f Frame) error {
		st.frames++
		if visit == nil {
			return nil
		}
		return visit(st.path, offset, f)
	}
	for {
		st.group, st.sequence, st.previousCRC = s.group, s.sequence, s.previousCRC
		g, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &st.bad):
			return st.judgeBad(s)
		case err != nil:
			return err
		}
		if err := st.add(s, g, frame); err != nil || st.sealed != nil {
			return err
		}
	}
}

func (st *fileState) add(s *scanner, g scannedGroup, frame func(int64, Frame) error) error {
	switch g.header.Kind {
	case kindFrames:
		if err := s.frames(g, frame); err != nil {
			return err
		}
	case kindTrailer:
		sealed, ok := decodeTrailer(g.body)
		if !ok {
			return corruption(st.path, g.offset, "the trailer has %d bytes", len(g.body))
		}
		st.sealed = &sealed
	case kindGap:
		next, ok := decodeGap(g.body)
		if !ok || next < s.sequence {
			return corruption(st.path, g.offset, "group %d is no gap behind frame %d", g.header.Group, s.sequence-1)
		}
		s.sequence = next
	default:
		return corruption(st.path, g.offset, "group %d has the unknown kind %d", g.header.Group, g.header.Kind)
	}
	st.groups++
	st.lastOffset, st.end = g.offset, s.offset
	st.group, st.sequence, st.previousCRC = s.group, s.sequence, s.previousCRC
	return nil
}

// judgeBad tells damage from a torn tail: a later group was written only after this one was synced.
func (st *fileState) judgeBad(s *scanner) error {
	later, found, err := s.laterGroup(st.bad.offset, st.group)
	if err != nil {
		return err
	}
	if found {
		return corruption(st.path, st.bad.offset, "%s, but a later group lies at byte %d", st.bad.reason, later)
	}
	return nil
}

// verdict is how a log without damage ends.
type verdict struct {
	current int            // index of the file that is written next
	torn    *badGroupError // tail of the current file that was never acknowledged
	// emptySuccessor says that a crash interrupted the rotation to the file after current: that file has a header
	// and nothing else.
	emptySuccessor bool
}

// judge looks at neighbouring files together and returns every damage.
func judge(states []fileState) (v verdict, damage []*CorruptionError) {
	for i, st := range states {
		if st.damage != nil {
			damage = append(damage, st.damage)
			continue
		}
		if i+1 == len(states) {
			v.current, v.torn = i, st.bad
			if st.sealed != nil {
				damage = append(damage, missingSuccessor(st))
			}
			break
		}
		next := states[i+1]
		if i+2 == len(states) && interrupted(st, next) {
			return verdict{current: i, torn: st.bad, emptySuccessor: true}, damage
		}
		if err := continues(st, next); err != nil {
			damage = append(damage, err)
		}
	}
	return v, damage
}

// interrupted reports whether next was created, but st was not sealed: what can be missing of st is its trailer alone.
func interrupted(st, next fileState) bool {
	return st.sealed == nil && next.damage == nil && next.number == st.number+1 &&
		next.groups == 0 && next.bad == nil && next.header.FirstGroup == st.group+1
}

// continues proves that nothing is missing between two files.
func continues(st, next fileState) *CorruptionError {
	switch {
	case next.number != st.number+1:
		missing := filepath.Join(filepath.Dir(st.path), fileName(st.number+1))
		return corruption(missing, 0, "the file is missing, though %s and %s exist",
			fileName(st.number), fileName(next.number))
	case st.bad != nil:
		return corruption(st.path, st.bad.offset, "%s, but file %s follows", st.bad.reason, fileName(next.number))
	case st.sealed == nil:
		return corruption(st.path, st.end, "group %d is missing, though file %s follows",
			st.group, fileName(next.number))
	case next.damage != nil:
		return nil // reported once, for next itself
	case next.header.Log != st.header.Log:
		return corruption(next.path, 0, "the file is of another log than file %s", fileName(st.number))
	case st.sealed.Successor != next.number || next.header.FirstGroup != st.group ||
		next.header.PreviousCRC != st.previousCRC || next.header.FirstSequence != st.sealed.NextSequence:
		return corruption(next.path, 0, "the file doesn't continue file %s", fileName(st.number))
	case st.sealed.NextSequence != st.sequence && (st.frames > 0 || st.sealed.NextSequence < st.sequence):
		return corruption(next.path, 0, "frame %d is missing, the file starts with frame %d",
			st.sequence, st.sealed.NextSequence)
	}
	return nil
}

func missingSuccessor(st fileState) *CorruptionError {
	path := filepath.Join(filepath.Dir(st.path), fileName(st.sealed.Successor))
	return corruption(path, 0, "the file is missing, %s names it as its successor", fileName(st.number))
}
