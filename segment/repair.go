package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"lineweir/internal/vfs"
)

// LostSegment is a segment that a repair takes out of the live set.
type LostSegment struct {
	Meta   Meta
	Path   string // relative to the data directory
	Exists bool   // its file is there, and is set aside
	Reason error
}

// RepairPlan is what a repair of manifest and segments would do.
type RepairPlan struct {
	Damage  error         // of the manifest; nil: it is whole
	Lost    []LostSegment // ascending by id
	Doubts  []string      // what can't be known where the manifest is not whole
	Kept    int           // live segments that are whole
	Rebuilt bool          // the live set was made from files and from the records that can be read
	// Unnamed are whole segments that no edit names. If the log lacks their frames, the edit that named them is lost.
	Unnamed []Meta

	fs       vfs.FS
	dir      string
	catalog  *catalog
	unlinked []uint64
	numbers  []uint64 // of manifest files
}

// PlanRepair reads manifest and segments, all of their bytes, and finds out what is damaged. It changes nothing. With
// distrust, a manifest that is whole is taken for one that lacks edits: see Unnamed.
func PlanRepair(fsys vfs.FS, dir string, distrust bool) (*RepairPlan, error) {
	p := &RepairPlan{fs: fsys, dir: filepath.Clean(dir)}
	var err error
	if p.numbers, _, err = listManifests(fsys, p.manifestDir()); err != nil {
		return nil, err
	}
	found, err := takeInventory(fsys, p.dir)
	if err != nil {
		return nil, err
	}
	r, err := replayManifest(fsys, p.manifestDir())
	if err == nil && r == nil {
		err = found.checkEmpty(p.dir)
	}
	if err == nil && r != nil && distrust {
		err = &CorruptionError{Path: r.path, Offset: r.validBytes, Reason: "it lacks edits that were durable"}
	}
	switch {
	case err == nil && r == nil:
		p.catalog = newCatalog()
	case err == nil:
		p.catalog = r.catalog
		p.unlinked = found.present(r.unlinked)
		p.findUnnamed(found, r.unlinked)
	case isDamage(err):
		p.Damage, p.Rebuilt = err, true
		if err := p.rebuild(found); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	p.catalog.nextID = max(p.catalog.nextID, found.highestID+1)
	return p, p.verify(found)
}

func isDamage(err error) bool {
	var damage *CorruptionError
	return errors.As(err, &damage)
}

func (p *RepairPlan) manifestDir() string { return filepath.Join(p.dir, manifestDirName) }

// findUnnamed reads the segments that the next start would move to quarantine.
func (p *RepairPlan) findUnnamed(found *inventory, unlinked map[uint64]struct{}) {
	live := make(map[string]struct{}, len(p.catalog.segments))
	for _, m := range p.catalog.segments {
		live[segmentPath(*m)] = struct{}{}
	}
	for _, path := range found.unnamed(live, unlinked) {
		if m, err := readMeta(p.fs, p.dir, path, found.segments[path]); err == nil {
			p.Unnamed = append(p.Unnamed, *m)
		}
	}
}

// verify reads every live segment and takes the damaged ones out of the catalog.
func (p *RepairPlan) verify(found *inventory) error {
	for _, m := range p.catalog.metas() {
		err := checkSegment(p.fs, p.dir, m)
		switch {
		case err == nil:
			p.Kept++
		case isDamage(err) || errors.Is(err, fs.ErrNotExist):
			_, exists := found.segments[segmentPath(*m)]
			p.Lost = append(p.Lost, LostSegment{Meta: *m, Path: segmentPath(*m), Exists: exists, Reason: err})
			delete(p.catalog.segments, m.ID)
		default:
			return fmt.Errorf("verify segment %d: %w", m.ID, err)
		}
	}
	return nil
}

// Needed tells whether there is anything to repair.
func (p *RepairPlan) Needed() bool { return p.Rebuilt || len(p.Lost) > 0 }

// Recorded is what the repaired manifest will record.
func (p *RepairPlan) Recorded() Recorded {
	return (&replayed{catalog: p.catalog}).recorded()
}

// LowerFloors lets the log be replayed from a lower sequence on, and takes note of drops that lie above it: rows below
// them stay away.
func (p *RepairPlan) LowerFloors(floor uint64, drops []Drop) {
	if p.catalog.shards == 0 {
		p.catalog.shards, p.catalog.floors = 1, []uint64{0}
	}
	for i := range p.catalog.floors {
		p.catalog.floors[i] = min(p.catalog.floors[i], floor)
	}
	for _, d := range drops {
		key := measurementKey{d.Database, d.Measurement}
		p.catalog.drops[key] = max(p.catalog.drops[key], d.Sequence)
	}
}

// RaiseFloors is for a manifest whose floors can't be read: no frame up to the floor is in the log any more.
func (p *RepairPlan) RaiseFloors(floor uint64) {
	if p.catalog.shards == 0 {
		p.catalog.shards, p.catalog.floors = 1, []uint64{0}
	}
	for i := range p.catalog.floors {
		p.catalog.floors[i] = max(p.catalog.floors[i], floor)
	}
	p.catalog.maxSequence = max(p.catalog.maxSequence, floor)
}

// SetLog records the ID of the log.
func (p *RepairPlan) SetLog(id uint64) { p.catalog.log = id }

// Execute sets lost segments aside and writes a new manifest, then sets the old ones aside. A crash between any two
// calls leaves a directory that the same repair, planned anew, completes: what was moved is missing then, and what was
// lost is lost all the same.
func (p *RepairPlan) Execute(aside func(path string) error) error {
	for _, lost := range p.Lost {
		if !lost.Exists {
			continue
		}
		if err := aside(filepath.Join(p.dir, lost.Path)); err != nil {
			return err
		}
	}
	if err := p.fs.MkdirAll(p.manifestDir(), 0o755); err != nil {
		return fmt.Errorf("create %s: %w", p.manifestDir(), err)
	}
	number := uint64(1)
	if len(p.numbers) > 0 {
		number += slices.Max(p.numbers)
	}
	m, err := createManifest(p.fs, p.manifestDir(), number, p.catalog, p.unlinked)
	if err != nil {
		return err
	}
	if err := m.close(); err != nil {
		return fmt.Errorf("close manifest: %w", err)
	}
	return p.SetOldAside(aside, number)
}

// SetOldAside moves all manifests below a number out of the way.
func (p *RepairPlan) SetOldAside(aside func(path string) error, below uint64) error {
	if len(p.numbers) == 0 {
		return nil
	}
	for _, number := range p.numbers {
		if number >= below {
			continue
		}
		if err := aside(manifestPath(p.manifestDir(), number)); err != nil {
			return err
		}
	}
	return p.fs.SyncDir(p.manifestDir())
}

// Newest is the number of the newest manifest; 0: there is none.
func (p *RepairPlan) Newest() uint64 {
	if len(p.numbers) == 0 {
		return 0
	}
	return slices.Max(p.numbers)
}
