package segment

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// Meta is what the manifest says about one segment. Columns hold the tags in ascending order, then the fields in
// ascending order; a Meta and its Columns are never changed once the segment is live.
type Meta struct {
	ID                    uint64
	Level                 int // 0 or 1
	Database, Measurement string
	Rank                  uint64 // order of writing; a point in a higher rank is newer
	SizeBytes, Rows       int64
	MinTime, MaxTime      int64  // nanoseconds, both inclusive
	MinSequence           uint64 // of the log; information, never an order
	MaxSequence           uint64
	Partition             int64 // days since the epoch, of a segment of level 1 that is not Mixed
	Mixed                 bool  // holds rows of several partitions
	Promoted              bool  // moved to level 1 as it was; its file is still where its flush put it
	// Checksum is that of the file's footer, which has those of all else: no other file has it. 0: not known.
	Checksum uint32
	Columns  []ColumnDef
}

// Edit is one atomic change of the live set and of what is recorded beside it.
type Edit struct {
	Add       []Meta   // segments of level 0 get their rank from Apply, those of level 1 bring it
	Remove    []uint64 // ids of live segments
	Promote   []uint64 // ids of live segments of level 0 that become level 1 as they are
	Floors    []uint64 // one per shard; nil leaves them, a lower floor than the recorded one changes nothing
	Shards    int      // 0 leaves it; a change needs Floors
	Databases []string // databases that now exist; those of added segments do anyway
	// Drops are done before anything is added. Apply removes the segments of dropped rows without being told.
	Drops     []Drop
	Retention []Retention  // of databases, instead of what is recorded
	Holds     []ShardHolds // instead of what is recorded of these shards
	Log       uint64       // ID of the write-ahead log that the floors count in; 0 leaves it
}

// record is the JSON payload of one record of a manifest. Only the first record of a file has a checkpoint.
type record struct {
	Checkpoint *checkpointRecord `json:"checkpoint,omitempty"`
	Schemas    []schemaRecord    `json:"schemas,omitempty"`
	Add        []segmentRecord   `json:"add,omitempty"`
	Remove     []uint64          `json:"remove,omitempty"`
	Promote    []uint64          `json:"promote,omitempty"`
	Floors     []uint64          `json:"floors,omitempty"`
	Shards     int               `json:"shards,omitempty"`
	Databases  []string          `json:"databases,omitempty"`
	Drops      []Drop            `json:"drops,omitempty"`
	Retention  []Retention       `json:"retention,omitempty"`
	Holds      []ShardHolds      `json:"holds,omitempty"`
	Log        uint64            `json:"log,omitempty"`
}

// checkpointRecord opens a manifest. Records counts the records that make up the checkpoint, this one included.
type checkpointRecord struct {
	Records     uint64   `json:"records"`
	NextID      uint64   `json:"next_id"`
	NextRank    uint64   `json:"next_rank"`
	MaxSequence uint64   `json:"max_sequence"`
	Unlinked    []uint64 `json:"unlinked,omitempty"` // removed, but their files may still be there
}

// schemaRecord is a set of columns by kind. Segments of an edit that have the same columns share one.
type schemaRecord struct {
	Tags     []string `json:"tags,omitempty"`
	Floats   []string `json:"floats,omitempty"`
	Integers []string `json:"integers,omitempty"`
	Unsigned []string `json:"unsigned,omitempty"`
	Booleans []string `json:"booleans,omitempty"`
	Strings  []string `json:"strings,omitempty"`
}

type segmentRecord struct {
	ID          uint64    `json:"id"`
	Level       int       `json:"level"`
	Database    string    `json:"database"`
	Measurement string    `json:"measurement"`
	Rank        uint64    `json:"rank"`
	SizeBytes   int64     `json:"bytes"`
	Rows        int64     `json:"rows"`
	Times       [2]int64  `json:"times"`
	Sequences   [2]uint64 `json:"sequences"`
	Partition   int64     `json:"partition,omitempty"`
	Mixed       bool      `json:"mixed,omitempty"`
	Promoted    bool      `json:"promoted,omitempty"`
	Checksum    uint32    `json:"crc,omitempty"`
	Schema      int       `json:"schema"` // index into the schemas of the same record
}

// newRecord makes the payload of an edit whose added segments have their ranks.
func newRecord(e Edit) record {
	r := record{
		Remove: e.Remove, Promote: e.Promote, Floors: e.Floors, Shards: e.Shards, Databases: e.Databases,
		Drops: e.Drops, Retention: e.Retention, Holds: e.Holds, Log: e.Log,
	}
	metas := make([]*Meta, len(e.Add))
	for i := range e.Add {
		metas[i] = &e.Add[i]
	}
	r.addSegments(metas)
	return r
}

func (r *record) addSegments(metas []*Meta) {
	schemas := make(map[string]int)
	var key []byte
	r.Add = make([]segmentRecord, 0, len(metas))
	for _, m := range metas {
		key = appendSchemaKey(key[:0], m.Columns)
		schema, known := schemas[string(key)]
		if !known {
			schema = len(r.Schemas)
			schemas[string(key)] = schema
			r.Schemas = append(r.Schemas, newSchemaRecord(m.Columns))
		}
		r.Add = append(r.Add, newSegmentRecord(m, schema))
	}
}

func newSegmentRecord(m *Meta, schema int) segmentRecord {
	return segmentRecord{
		ID: m.ID, Level: m.Level, Database: m.Database, Measurement: m.Measurement, Rank: m.Rank,
		SizeBytes: m.SizeBytes, Rows: m.Rows, Times: [2]int64{m.MinTime, m.MaxTime},
		Sequences: [2]uint64{m.MinSequence, m.MaxSequence},
		Partition: m.Partition, Mixed: m.Mixed, Promoted: m.Promoted, Checksum: m.Checksum, Schema: schema,
	}
}

func (s segmentRecord) meta(schemas [][]ColumnDef) (Meta, error) {
	if s.Schema < 0 || s.Schema >= len(schemas) {
		return Meta{}, fmt.Errorf("segment %d names schema %d of %d", s.ID, s.Schema, len(schemas))
	}
	return Meta{
		ID: s.ID, Level: s.Level, Database: s.Database, Measurement: s.Measurement, Rank: s.Rank,
		SizeBytes: s.SizeBytes, Rows: s.Rows, MinTime: s.Times[0], MaxTime: s.Times[1],
		MinSequence: s.Sequences[0], MaxSequence: s.Sequences[1],
		Partition: s.Partition, Mixed: s.Mixed, Promoted: s.Promoted, Checksum: s.Checksum,
		Columns: schemas[s.Schema],
	}, nil
}

// edit is the inverse of newRecord.
func (r record) edit() (Edit, error) {
	schemas := make([][]ColumnDef, len(r.Schemas))
	for i, s := range r.Schemas {
		schemas[i] = s.columns()
	}
	e := Edit{
		Remove: r.Remove, Promote: r.Promote, Floors: r.Floors, Shards: r.Shards, Databases: r.Databases,
		Drops: r.Drops, Retention: r.Retention, Holds: r.Holds, Log: r.Log,
	}
	for _, s := range r.Add {
		m, err := s.meta(schemas)
		if err != nil {
			return Edit{}, err
		}
		e.Add = append(e.Add, m)
	}
	return e, nil
}

func appendSchemaKey(dst []byte, columns []ColumnDef) []byte {
	for _, c := range columns {
		dst = append(dst, byte(c.Kind))
		dst = append(dst, c.Name...)
		dst = append(dst, 0)
	}
	return dst
}

func newSchemaRecord(columns []ColumnDef) schemaRecord {
	var s schemaRecord
	for _, c := range columns {
		names := s.names(c.Kind)
		*names = append(*names, c.Name)
	}
	return s
}

func (s *schemaRecord) names(kind Kind) *[]string {
	switch kind {
	case KindTag:
		return &s.Tags
	case KindFloat:
		return &s.Floats
	case KindInt:
		return &s.Integers
	case KindUint:
		return &s.Unsigned
	case KindBool:
		return &s.Booleans
	case KindString:
		return &s.Strings
	default:
		panic(fmt.Sprintf("BUG: column of kind %d", kind))
	}
}

func (s schemaRecord) columns() []ColumnDef {
	var columns []ColumnDef
	for kind := KindTag; kind <= KindString; kind++ {
		for _, name := range *s.names(kind) {
			columns = append(columns, ColumnDef{Name: name, Kind: kind})
		}
	}
	slices.SortStableFunc(columns, compareColumns)
	return columns
}

// compareColumns orders the columns of a Meta: tags first, then by name.
func compareColumns(a, b ColumnDef) int {
	if aTag, bTag := a.Kind == KindTag, b.Kind == KindTag; aTag != bTag {
		if aTag {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// checkNames refuses what JSON would silently change.
func (e Edit) checkNames() error {
	names := slices.Clone(e.Databases)
	for _, d := range e.Drops {
		names = append(names, d.Database, d.Measurement)
	}
	for _, r := range e.Retention {
		names = append(names, r.Database)
	}
	for _, s := range e.Holds {
		for _, h := range s.Holds {
			names = append(names, h.Database, h.Measurement)
		}
	}
	for _, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("the name %q is not valid UTF-8", name)
		}
	}
	for _, m := range e.Add {
		if !utf8.ValidString(m.Database) || !utf8.ValidString(m.Measurement) {
			return fmt.Errorf("the measurement %q of %q is not valid UTF-8", m.Measurement, m.Database)
		}
		for _, c := range m.Columns {
			if !utf8.ValidString(c.Name) {
				return fmt.Errorf("the column %q of %q is not valid UTF-8", c.Name, m.Measurement)
			}
		}
	}
	return nil
}

// decodeRecord accepts one JSON object with known keys and nothing behind it.
func decodeRecord(payload []byte) (record, error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	var r record
	if err := decoder.Decode(&r); err != nil {
		return record{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return record{}, errors.New("something follows the record's object")
	}
	return r, nil
}
