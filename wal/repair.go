package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lineweir/internal/vfs"
)

// A repair writes what is whole of a damaged log into one new file, and sets the files of the damaged log aside. A
// crash between any two calls leaves a directory with which a repair can go on, and nothing more is lost:
//
//  1. repair.tmp is written and synced. Nothing else has changed; the next repair begins anew.
//  2. It is renamed to repair.ready. From here on no log opens, and a repair begins with step 3.
//  3. All files with numbers below that of the new one are moved to the place for them.
//  4. repair.ready gets its number. The log is whole.

// Lost is a run of frames that a repair can't read.
type Lost struct {
	First, Last uint64 // sequences, both inclusive
}

// RepairPlan is what a repair of a log would do.
type RepairPlan struct {
	Damage []*CorruptionError // why; empty: there is nothing to do
	Lost   []Lost             // frames above the floor that can't be read, ascending
	Kept   int                // frames above the floor that can
	First  uint64             // lowest sequence from which on no frame up to the floor is missing in the log
	Lowest uint64             // lowest sequence of any frame that can be read; 0: there is none
	ID     uint64             // of the log; 0: not known

	fs      vfs.FS
	dir     string
	known   Known
	numbers []uint64
	next    uint64 // sequence behind the repaired log
}

// Frames calls fn for each frame above the floor that can be read, in order, with the number of frames that are missing
// before it. The payload is valid during the call.
func (p *RepairPlan) Frames(fn func(missing uint64, f Frame) error) error {
	return p.salvage(p.known.Floor, fn).run(p.numbers)
}

func (p *RepairPlan) salvage(floor uint64, fn func(missing uint64, f Frame) error) *salvage {
	return &salvage{fs: p.fs, dir: p.dir, log: p.ID, next: floor + 1, found: fn}
}

// PlanRepair finds out what of a log can't be read, and changes nothing. A repair that was interrupted must be resumed
// first.
func PlanRepair(fsys vfs.FS, dir string, known Known) (*RepairPlan, error) {
	p := &RepairPlan{fs: fsys, dir: dir, known: known}
	found, err := listDir(fsys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p.numbers = found.numbers
	if err := p.findDamage(); err != nil {
		return nil, err
	}
	if p.ID, err = p.findID(); err != nil {
		return nil, err
	}
	return p, p.findLosses()
}

func (p *RepairPlan) findDamage() error {
	states, err := scanFiles(p.fs, p.dir, p.numbers, nil)
	if err != nil {
		return err
	}
	v, damage := judge(states)
	p.Damage = append(damage, p.known.missing(p.dir, states)...)
	if len(damage) == 0 && len(states) > 0 {
		p.Damage = append(p.Damage, p.known.contradictions(states[v.current])...)
	}
	return nil
}

// findID returns the ID of the log: the one that is known, or else that of most files, or of the newest of those.
func (p *RepairPlan) findID() (uint64, error) {
	if p.known.ID != 0 {
		return p.known.ID, nil
	}
	files, most := map[uint64]int{}, uint64(0)
	for _, number := range p.numbers {
		header, err := readHeader(p.fs, filepath.Join(p.dir, fileName(number)))
		var damage *CorruptionError
		if errors.As(err, &damage) {
			continue
		}
		if err != nil {
			return 0, err
		}
		files[header.Log]++
		if files[header.Log] >= files[most] {
			most = header.Log
		}
	}
	return most, nil
}

func (p *RepairPlan) findLosses() error {
	p.next = p.known.Floor + 1
	v := p.salvage(p.known.Floor, func(missing uint64, f Frame) error {
		if missing > 0 {
			p.Lost = append(p.Lost, Lost{f.Sequence - missing, f.Sequence - 1})
		}
		p.Kept++
		p.next = f.Sequence + 1
		return nil
	})
	if err := v.run(p.numbers); err != nil {
		return err
	}
	if p.next <= p.known.Written {
		p.Lost = append(p.Lost, Lost{p.next, p.known.Written})
		p.next = p.known.Written + 1
	}
	return p.findFirst()
}

// findFirst finds the lowest sequence from which on the log has all frames, to the floor and beyond.
func (p *RepairPlan) findFirst() error {
	p.First, p.Lowest = p.known.Floor+1, 0
	var first, last uint64
	v := p.salvage(0, func(missing uint64, f Frame) error {
		if first == 0 || missing > 0 {
			first = f.Sequence
		}
		if p.Lowest == 0 {
			p.Lowest = f.Sequence
		}
		if last = f.Sequence; last <= p.known.Floor+1 {
			p.First = first
		}
		return nil
	})
	err := v.run(p.numbers)
	if last < p.known.Floor {
		p.First = p.known.Floor + 1
	}
	return err
}

// SetFloor lets the repaired log begin lower, so that what is lost elsewhere can be replayed. It is no use below First.
func (p *RepairPlan) SetFloor(floor uint64) error {
	p.known.Floor = floor
	p.Lost, p.Kept = nil, 0
	return p.findLosses()
}

// Aside moves a file out of the way, durably, and never over another one.
type Aside func(path string) error

// Execute does what was planned. It must be done to the end, by Resume if need be, before the log is opened.
func (p *RepairPlan) Execute(aside Aside) error {
	if err := p.fs.MkdirAll(p.dir, 0o755); err != nil {
		return fmt.Errorf("create directory of the write-ahead log: %w", err)
	}
	if err := p.write(filepath.Join(p.dir, repairing)); err != nil {
		return fmt.Errorf("write the repaired log: %w", err)
	}
	if err := p.fs.Rename(filepath.Join(p.dir, repairing), filepath.Join(p.dir, repaired)); err != nil {
		return fmt.Errorf("name the repaired log: %w", err)
	}
	if err := p.fs.SyncDir(p.dir); err != nil {
		return fmt.Errorf("name the repaired log: %w", err)
	}
	_, err := ResumeRepair(p.fs, p.dir, aside)
	return err
}

// ResumeRepair completes a repair that was interrupted behind step 2, if there is one to complete.
func ResumeRepair(fsys vfs.FS, dir string, aside Aside) (resumed bool, err error) {
	ready := filepath.Join(dir, repaired)
	if _, err := fsys.Stat(ready); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	header, err := readHeader(fsys, ready)
	if err != nil {
		return true, err
	}
	found, err := listDir(fsys, dir)
	if err != nil {
		return true, err
	}
	for _, number := range found.numbers {
		if err := aside(filepath.Join(dir, fileName(number))); err != nil {
			return true, err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return true, fmt.Errorf("sync directory of the write-ahead log: %w", err)
	}
	if err := fsys.Rename(ready, filepath.Join(dir, fileName(header.Number))); err != nil {
		return true, fmt.Errorf("name the repaired log: %w", err)
	}
	return true, fsys.SyncDir(dir)
}

// write makes the file of the repaired log.
func (p *RepairPlan) write(path string) (err error) {
	file, err := p.fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer closeInto(&err, file)
	number := uint64(1)
	if len(p.numbers) > 0 {
		number += p.numbers[len(p.numbers)-1]
	}
	w := repairWriter{file: file, end: fileHeaderBytes, next: p.known.Floor + 1, header: fileHeader{
		Number: number, Salt: newSalt(), FirstGroup: 1, FirstSequence: p.known.Floor + 1,
		Log: Known{ID: p.ID}.newID(),
	}}
	w.group = groupHeader{File: number, Group: 1, Salt: w.header.Salt}
	if _, err := file.WriteAt(w.header.encode(), 0); err != nil {
		return err
	}
	if err := p.Frames(w.frame); err != nil {
		return err
	}
	if err := w.finish(p.next); err != nil {
		return err
	}
	return file.Sync()
}

// repairGroupBytes is the length of a body from which on a group ends.
const repairGroupBytes = 1 << 20

// repairWriter writes groups of frames and gaps.
type repairWriter struct {
	file    vfs.File
	header  fileHeader
	encoder encoder
	group   groupHeader // of the next group
	end     int64
	next    uint64 // sequence of the next frame

	frames []Frame
	bytes  int64
}

func (w *repairWriter) frame(_ uint64, f Frame) error {
	if f.Sequence != w.next {
		if err := w.gap(f.Sequence); err != nil {
			return err
		}
	}
	f.Payload = append([]byte(nil), f.Payload...)
	w.frames, w.bytes, w.next = append(w.frames, f), w.bytes+frameBytes(int64(len(f.Payload))), f.Sequence+1
	if w.bytes < repairGroupBytes {
		return nil
	}
	return w.flush()
}

// flush writes the frames that were gathered.
func (w *repairWriter) flush() error {
	if len(w.frames) == 0 {
		return nil
	}
	header := w.group
	header.Kind, header.BodyBytes, header.Frames = kindFrames, uint32(w.bytes), uint32(len(w.frames))
	w.encoder.begin(w.file, w.end, header)
	for _, f := range w.frames {
		w.encoder.frame(f)
	}
	crc, end, err := w.encoder.finish()
	w.advance(crc, end)
	w.frames, w.bytes = w.frames[:0], 0
	return err
}

// gap says that the log goes on with the frame of that sequence.
func (w *repairWriter) gap(next uint64) error {
	if err := w.flush(); err != nil {
		return err
	}
	group, crc := encodeGap(w.group, next)
	_, err := w.file.WriteAt(group, w.end)
	w.advance(crc, w.end+int64(len(group)))
	w.next = next
	return err
}

func (w *repairWriter) advance(crc uint32, end int64) {
	w.group.Group, w.group.PreviousCRC, w.end = w.group.Group+1, crc, end
}

// finish ends the file so that the log goes on with the frame next. The space of a trailer makes it a file that can be
// sealed on a full disk.
func (w *repairWriter) finish(next uint64) error {
	if err := w.flush(); err != nil {
		return err
	}
	if w.next < next {
		if err := w.gap(next); err != nil {
			return err
		}
	}
	_, err := w.file.WriteAt(zeros[:trailerBytes], w.end)
	return err
}
