package segment

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"lineweir/internal/vfs"
)

// replayed is what reading a manifest found out. It holds no open file.
type replayed struct {
	path            string
	number          uint64
	catalog         *catalog
	unlinked        map[uint64]struct{} // removed segments whose files may still be there
	records         uint64
	checkpointLeft  uint64 // records that the checkpoint still needs
	checkpointBytes int64
	validBytes      int64
	tornBytes       int64
}

// replayManifest reads the manifest of a directory, without changing anything. It returns nil if there is none.
func replayManifest(fsys vfs.FS, dir string) (*replayed, error) {
	numbers, _, err := listManifests(fsys, dir)
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	number := slices.Max(numbers)
	path := manifestPath(dir, number)
	data, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	r := &replayed{path: path, number: number, catalog: newCatalog(), unlinked: make(map[uint64]struct{})}
	if err := r.replay(data); err != nil {
		return nil, err
	}
	return r, nil
}

// recorded is what the manifest says beside segments. Without a manifest it is nothing.
func (r *replayed) recorded() Recorded {
	if r == nil {
		return Recorded{}
	}
	c := r.catalog
	return Recorded{Floors: slices.Clone(c.floors), Horizon: c.horizon(), MaxSequence: c.maxSequence, Log: c.log}
}

func (r *replayed) replay(data []byte) error {
	switch err := checkManifestHeader(data, r.number); {
	case errors.Is(err, ErrManifestVersion):
		return fmt.Errorf("read %s: %w", r.path, err)
	case err != nil:
		return r.corrupt(err.Error())
	}
	r.validBytes = manifestHeaderBytes
	r.checkpointLeft = 1
	for r.validBytes < int64(len(data)) {
		rest := data[r.validBytes:]
		number, payload, ok := parseRecord(rest)
		if !ok {
			return r.endAt(rest)
		}
		if number != r.records+1 {
			return r.corrupt(fmt.Sprintf("record %d stands where record %d belongs", number, r.records+1))
		}
		if err := r.replayRecord(payload); err != nil {
			return r.corrupt(fmt.Sprintf("record %d: %v", number, err))
		}
		r.records++
		r.validBytes += recordHeaderBytes + int64(len(payload))
		if r.checkpointLeft > 0 {
			r.checkpointLeft--
			r.checkpointBytes = r.validBytes
		}
	}
	if r.checkpointLeft > 0 {
		return r.corrupt("it ends within its checkpoint")
	}
	return nil
}

func (r *replayed) replayRecord(payload []byte) error {
	record, err := decodeRecord(payload)
	if err != nil {
		return err
	}
	if (record.Checkpoint != nil) != (r.records == 0) {
		return errors.New("the first record, and no other, opens the checkpoint")
	}
	edit, err := record.edit()
	if err != nil {
		return err
	}
	if err := r.catalog.check(edit); err != nil {
		return err
	}
	r.catalog.apply(edit)
	for _, id := range edit.Remove {
		r.unlinked[id] = struct{}{}
	}
	return r.openCheckpoint(record.Checkpoint)
}

func (r *replayed) openCheckpoint(c *checkpointRecord) error {
	if c == nil {
		return nil
	}
	if c.Records == 0 || c.NextID == 0 || c.NextRank == 0 {
		return fmt.Errorf("the checkpoint has %d records, next id %d, next rank %d", c.Records, c.NextID, c.NextRank)
	}
	r.checkpointLeft = c.Records
	r.catalog.nextID = c.NextID
	r.catalog.nextRank = c.NextRank
	r.catalog.maxSequence = max(r.catalog.maxSequence, c.MaxSequence)
	for _, id := range c.Unlinked {
		r.unlinked[id] = struct{}{}
	}
	return nil
}

// endAt decides what bytes that are no whole record mean. A record is written only after the one before it was synced,
// so a write that a crash cut short is the last one: if a later record lies behind, this one was damaged afterwards.
func (r *replayed) endAt(rest []byte) error {
	if r.checkpointLeft > 0 {
		return r.corrupt("a record of its checkpoint is damaged")
	}
	if at, number, found := findRecord(rest[1:], r.records+1); found {
		return r.corrupt(fmt.Sprintf("record %d is damaged, and record %d follows %d bytes later",
			r.records+1, number, at+1))
	}
	r.tornBytes = int64(len(rest))
	return nil
}

// findRecord looks for a whole record with at least that number.
func findRecord(data []byte, atLeast uint64) (at int, number uint64, found bool) {
	for {
		next := bytes.Index(data[at:], []byte(recordMagic))
		if next < 0 {
			return 0, 0, false
		}
		at += next
		if number, _, ok := parseRecord(data[at:]); ok && number >= atLeast {
			return at, number, true
		}
		at++
	}
}

func (r *replayed) corrupt(reason string) error {
	return &CorruptionError{Path: r.path, Offset: r.validBytes, Reason: reason}
}
