package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"lineweir/internal/vfs"
	"lineweir/segment"
	"lineweir/wal"
)

// A repair takes a data directory in which something is damaged to one that a server starts with. What can't be read is
// moved to quarantine/, never deleted, and said. It goes these steps, and each can be cut short anywhere: the next
// repair goes on, and loses no more.
//
//  1. The file REPAIR is made. As long as it is there, no server starts.
//  2. The report is written to quarantine/.
//  3. Segments that are damaged go to quarantine/; a manifest without them is written, in one rename; the manifests
//     before it go to quarantine/ too. See segment.RepairPlan.
//  4. A log without what is damaged is written, in one rename, after the damaged one went to quarantine/. See
//     wal.RepairPlan.
//  5. REPAIR is removed.

const (
	repairMark    = "REPAIR"
	quarantineDir = "quarantine"
)

// Errors of repairing.
var (
	// ErrNotAccepted says that there is damage and that nothing was changed, because the loss was not accepted.
	ErrNotAccepted = errors.New("nothing was changed: --accept-loss repairs the directory at the price of what is " +
		"named above")
	// ErrRepairPending says that a repair was begun and has to be done to its end.
	ErrRepairPending = errors.New("a repair of the data directory was begun and not completed: run `lineweir repair " +
		"--accept-loss` again")
)

// RepairOptions say what a repair works on.
type RepairOptions struct {
	FS      vfs.FS
	DataDir string
	// AcceptLoss lets the repair change the directory. Without it, it only says what it would do.
	AcceptLoss bool
	// Decode is that of Options. It is used to tell which points lie around frames that are lost.
	Decode func(payload []byte, newBatch func(database string) *Batch) (*Batch, error)
}

// repair is one run.
type repair struct {
	options  RepairOptions
	segments *segment.RepairPlan
	log      *wal.RepairPlan
	pending  bool // an earlier repair was begun
}

// Repair makes a data directory that no process uses one that a server can start with, and reports to w what is lost.
// Where nothing is damaged it does nothing. Errors: ErrNotAccepted, vfs.ErrLocked, or one of the file system.
func Repair(ctx context.Context, o RepairOptions, w io.Writer) (err error) {
	if err := refuseIncomplete(o.FS, o.DataDir); err != nil {
		return err
	}
	lock, err := lockToRead(o.FS, o.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r := &repair{options: o}
	if r.pending, err = r.isPending(); err != nil {
		return err
	}
	if r.pending && !o.AcceptLoss {
		return ErrRepairPending
	}
	if r.pending {
		if _, err := wal.ResumeRepair(o.FS, r.walDir(), r.aside); err != nil {
			return fmt.Errorf("complete the repair of the write-ahead log: %w", err)
		}
	}
	if err := r.plan(); err != nil {
		return err
	}
	report, err := r.report(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, report); err != nil {
		return err
	}
	switch {
	case !r.needed() && !r.pending:
		return nil
	case !o.AcceptLoss:
		return ErrNotAccepted
	}
	if err := r.execute(report); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "repaired; what was damaged lies in %s\n", r.quarantine())
	return err
}

func (r *repair) needed() bool { return r.segments.Needed() || len(r.log.Damage) > 0 }

func (r *repair) walDir() string { return filepath.Join(r.options.DataDir, "wal") }

func (r *repair) quarantine() string { return filepath.Join(r.options.DataDir, quarantineDir) }

func (r *repair) mark() string { return filepath.Join(r.options.DataDir, repairMark) }

func (r *repair) isPending() (bool, error) { return exists(r.options.FS, r.mark()) }

func exists(fsys vfs.FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// plan finds out what is damaged and what is left, and from where on the log is replayed.
func (r *repair) plan() error {
	known, err := r.planFiles()
	if err != nil {
		return err
	}
	return r.lowerFloors(known)
}

// planFiles is plan with the floors that the manifest has, or what is left of it.
func (r *repair) planFiles() (known wal.Known, err error) {
	if known, err = r.planWith(false); err != nil {
		return known, err
	}
	if r.manifestIsOld(known) {
		if known, err = r.planWith(true); err != nil {
			return known, err
		}
	}
	if r.segments.Rebuilt {
		// Frames that are not in the log any more were in segments before they were trimmed.
		floor := known.Written
		if r.log.Lowest > 0 {
			floor = max(r.log.Lowest-1, known.Floor)
		}
		if floor > known.Floor {
			r.segments.Doubts = append(r.segments.Doubts, fmt.Sprintf("frames %d to %d are not in the log any more: they "+
				"were trimmed when segments had their rows, or they are lost",
				known.Floor+1, floor))
		}
		r.segments.RaiseFloors(floor)
		r.segments.SetLog(r.log.ID)
		known = knownOfLog(r.segments.Recorded())
		if r.log, err = wal.PlanRepair(r.options.FS, r.walDir(), known); err != nil {
			return known, fmt.Errorf("look for damage in the write-ahead log: %w", err)
		}
	}
	return known, nil
}

// planWith plans for a manifest that is trusted or not.
func (r *repair) planWith(distrust bool) (known wal.Known, err error) {
	if r.segments, err = segment.PlanRepair(r.options.FS, r.options.DataDir, distrust); err != nil {
		return known, fmt.Errorf("look for damage in manifest and segments: %w", err)
	}
	known = knownOfLog(r.segments.Recorded())
	if r.log, err = wal.PlanRepair(r.options.FS, r.walDir(), known); err != nil {
		return known, fmt.Errorf("look for damage in the write-ahead log: %w", err)
	}
	return known, nil
}

// manifestIsOld tells a manifest that lacks edits from a log that lacks its beginning: there are segments that it
// doesn't name, with rows of frames that were trimmed from the log.
func (r *repair) manifestIsOld(known wal.Known) bool {
	return slices.ContainsFunc(r.segments.Unnamed, func(m segment.Meta) bool {
		return m.MaxSequence > known.Floor && m.MinSequence < r.log.Lowest && r.log.Lowest > known.Floor+1
	})
}

// lowerFloors has the log replayed from where segments are lost, as far as it reaches back. Frames that are replayed
// though their rows are in other segments change nothing, because those that came later are replayed too: so it is not
// done where some of these are lost. No floor passes a drop that is not recorded, so drops up to the highest one are
// done: recording them keeps the rows below them away. A manifest that is put together anew may lack holds, so nothing
// says that rows of the log are in segments.
func (r *repair) lowerFloors(known wal.Known) error {
	floor, settled := highest(r.segments.Recorded().Floors), highest(r.segments.Recorded().Floors)
	for _, lost := range r.segments.Lost {
		if lost.Meta.MinSequence > 0 {
			floor = min(floor, lost.Meta.MinSequence-1)
		}
	}
	if r.segments.Rebuilt {
		floor = 0
	}
	floor = max(floor, r.log.First-1)
	gap := len(r.log.Lost) > 0 && r.log.Lost[0].First <= settled
	if gap && r.segments.Rebuilt {
		r.segments.Doubts = append(r.segments.Doubts, "points that could not be written to files are lost if no record "+
			"that can be read tells of them: the log has a gap and is not replayed from its beginning")
	}
	if floor >= settled || gap {
		return nil
	}
	if floor < known.Floor {
		if err := r.log.SetFloor(floor); err != nil {
			return err
		}
	}
	var drops []segment.Drop
	err := r.log.Frames(func(_ uint64, f wal.Frame) error {
		if f.Type != frameDrop || f.Sequence > settled {
			return nil
		}
		d, err := parseDrop(f.Payload)
		if err != nil {
			return fmt.Errorf("%w: frame %d: %w", ErrCorrupt, f.Sequence, err)
		}
		d.sequence = f.Sequence
		drops = append(drops, d.records()...)
		return nil
	})
	r.segments.LowerFloors(floor, drops)
	return err
}

// execute does what was planned and reported.
func (r *repair) execute(report string) error {
	for _, step := range []func() error{
		r.makeMark,
		func() error { return r.keepReport(report) },
		r.repairSegments,
		r.repairLog,
		r.removeMark,
	} {
		if err := step(); err != nil {
			return fmt.Errorf("repair %s: %w", r.options.DataDir, err)
		}
	}
	return nil
}

func (r *repair) makeMark() error {
	return writeDurably(r.options.FS, r.mark(), "A repair is under way. Run `lineweir repair --accept-loss` to the end.\n")
}

func (r *repair) removeMark() error {
	if err := r.options.FS.Remove(r.mark()); err != nil {
		return err
	}
	return r.options.FS.SyncDir(r.options.DataDir)
}

func (r *repair) keepReport(report string) error {
	if err := r.makeQuarantine(); err != nil {
		return err
	}
	name, err := r.freeName("repair.txt")
	if err != nil {
		return err
	}
	return writeDurably(r.options.FS, name, report)
}

// writeDurably writes a file of a new name.
func writeDurably(fsys vfs.FS, name, content string) error {
	file, err := fsys.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write([]byte(content))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

func (r *repair) repairSegments() error {
	if r.segments.Needed() {
		return r.segments.Execute(r.aside)
	}
	// The manifests before the newest may be those that an earlier run found damaged.
	return r.segments.SetOldAside(r.aside, r.segments.Newest())
}

func (r *repair) repairLog() error {
	if len(r.log.Damage) == 0 {
		return nil
	}
	return r.log.Execute(r.aside)
}

func (r *repair) makeQuarantine() error {
	if err := r.options.FS.MkdirAll(r.quarantine(), 0o755); err != nil {
		return err
	}
	return r.options.FS.SyncDir(r.options.DataDir)
}

// aside moves a file to quarantine, durably. A file that is not there was moved before.
func (r *repair) aside(path string) error {
	if there, err := exists(r.options.FS, path); err != nil || !there {
		return err
	}
	if err := r.makeQuarantine(); err != nil {
		return err
	}
	name := filepath.Base(path)
	if base := filepath.Base(filepath.Dir(path)); base == "wal" || base == "manifest" {
		name = base + "-" + name
	}
	target, err := r.freeName(name)
	if err != nil {
		return err
	}
	if err := r.options.FS.Rename(path, target); err != nil {
		return fmt.Errorf("move to quarantine: %w", err)
	}
	if err := r.options.FS.SyncDir(r.quarantine()); err != nil {
		return fmt.Errorf("sync quarantine: %w", err)
	}
	return r.options.FS.SyncDir(filepath.Dir(path))
}

// freeName returns a path in quarantine under which there is nothing yet.
func (r *repair) freeName(name string) (string, error) {
	path := filepath.Join(r.quarantine(), name)
	for n := 1; ; n++ {
		taken, err := exists(r.options.FS, path)
		if err != nil || !taken {
			return path, err
		}
		path = filepath.Join(r.quarantine(), fmt.Sprintf("%s.%d", name, n))
	}
}

// span is what the points of a frame are of.
type span struct {
	database     string
	measurements []string
	first, last  int64 // times
}

// spanOf decodes a frame of points.
func (r *repair) spanOf(f wal.Frame) (span, bool) {
	if f.Type != frameWrite || r.options.Decode == nil {
		return span{}, false
	}
	limits := Limits{ColumnsPerMeasurement: math.MaxInt, MeasurementsPerBatch: math.MaxInt}
	b, err := r.options.Decode(f.Payload, func(database string) *Batch {
		b := NewBatch(database, limits, 1)
		b.replayed = f.Sequence
		return b
	})
	if err != nil || b.points == 0 {
		return span{}, false
	}
	s := span{database: b.database, first: math.MaxInt64, last: math.MinInt64}
	for _, m := range b.order {
		s.measurements = append(s.measurements, m.name)
		for i := range m.tables {
			for _, t := range m.tables[i].times {
				s.first, s.last = min(s.first, t), max(s.last, t)
			}
		}
	}
	slices.Sort(s.measurements)
	return s, true
}
