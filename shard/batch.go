package shard

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"lineweir/segment"
)

// Tag is one tag of a Point, unescaped.
type Tag struct{ Key, Value []byte }

// Field is one field of a Point, unescaped. Number holds float64 bits, an integer, or 0 and 1 for a boolean; String is
// used by segment.KindString only.
type Field struct {
	Key    []byte
	Kind   segment.Kind
	Number uint64
	String []byte
}

// Point is one line. Its slices may alias the body: Append copies what it keeps.
type Point struct {
	Measurement []byte
	Tags        []Tag
	Fields      []Field
	Time        int64 // nanoseconds since the epoch

	// Control tells that names of the point may hold control bytes, of which some are escaped in a series key. Without
	// it none may: nobody looks for them.
	Control bool
}

// Limits bound what a batch may hold.
type Limits struct {
	ColumnsPerMeasurement   int
	MeasurementsPerBatch    int
	MeasurementsPerMemtable int
}

// Batch holds all points of one request, parsed, as columns per shard and measurement. It belongs to one goroutine.
// Each column was checked against the schema of the moment the batch was made.
type Batch struct {
	// Client names who sent the batch; those that wait for seals have equal shares by it. NewBatch empties it.
	Client string

	database     string
	schema       *schema
	limits       Limits
	measurements map[string]*batchMeasurement
	order        []*batchMeasurement // those with rows, in order of first use
	last         *batchMeasurement
	needs        []usage // worst case per shard
	points       int
	drops        uint64 // schema.drops when the batch was begun
	replayed     uint64 // sequence of the frame that is replayed into the batch; 0: none is
	oldest       int64  // time before which points are refused
	skipped      int64  // points that a drop has taken since they were written
	line         uint64 // counts Append, so that a column knows whether this line used it
	pool         *sync.Pool
	keptBytes    int64 // of the measurements, as of the last Release

	key    []byte  // scratch: hashed prefix and series key of the line
	fields []int32 // scratch: column of each field of the line
	tags   []Tag   // scratch: tags of the line as they stood in it
}

// batchMeasurement is one measurement of a batch: its columns, and a table for each shard.
type batchMeasurement struct {
	name     string
	active   bool    // has been used by the request that holds the batch
	known    columns // schema snapshot
	fields   []batchField
	index    map[string]int32    // field name to position in fields
	tags     map[string]int      // tag keys seen, to their position in tagNames
	tagNames []string            // in order of first use
	added    []segment.ColumnDef // columns that the snapshot lacks
	shape    tagShape            // of the last line
	tables   []batchTable        // by shard
	prefix   []byte              // what is hashed before the series key
	kept     int64               // its share of the batch's keptBytes
}

// batchField is a field column of a measurement in a batch.
type batchField struct {
	segment.ColumnDef
	line     uint64 // last line that used it
	position int    // of the value in that line's fields
}

// batchTable holds the rows of one measurement that belong to one shard.
type batchTable struct {
	hashes  []uint64
	keyEnds []uint32
	keys    []byte
	times   []int64
	values  []fieldValues // parallel to the measurement's fields; may be shorter
	charged int           // tag columns whose cost the shard's need holds
}

// NewBatch returns an empty batch that no engine will take: every column is new to it. Engine.NewBatch returns one
// that can be written.
func NewBatch(database string, limits Limits, shards int) *Batch {
	b := newBatch(newSchema(), limits, shards)
	b.reset(database)
	return b
}

// newBatch returns an empty batch for a number of shards.
func newBatch(s *schema, limits Limits, shards int) *Batch {
	return &Batch{
		schema: s, limits: limits, measurements: map[string]*batchMeasurement{}, needs: make([]usage, shards),
		oldest: segment.KeepsAll,
	}
}

// reset empties the batch for another request, keeping its memory.
func (b *Batch) reset(database string) {
	for _, m := range b.order {
		m.reset()
	}
	if len(b.measurements) > batchMeasurementsKept {
		b.drop()
	}
	b.Client, b.database, b.order, b.last, b.points = "", database, b.order[:0], nil, 0
	b.drops, b.replayed, b.skipped, b.oldest = b.schema.drops.Load(), 0, 0, segment.KeepsAll
	clear(b.needs)
}

// drop gives up the memory that the batch would keep.
func (b *Batch) drop() {
	clear(b.measurements)
	b.order, b.last, b.keptBytes = nil, nil, 0
}

// batchMeasurementsKept bounds the tables that a pooled batch keeps between requests.
const batchMeasurementsKept = 256

func (m *batchMeasurement) reset() {
	m.active, m.known, m.added = false, nil, m.added[:0]
	m.fields, m.tagNames = m.fields[:0], m.tagNames[:0]
	m.shape.reset()
	clear(m.index)
	clear(m.tags)
	for i := range m.tables {
		t := &m.tables[i]
		t.hashes, t.keyEnds, t.keys, t.times = t.hashes[:0], t.keyEnds[:0], t.keys[:0], t.times[:0]
		t.charged = 0
		for j := range t.values {
			t.values[j].reset()
		}
	}
}

// Release gives the batch back to its engine. It must not be used afterwards.
func (b *Batch) Release() {
	if b.pool == nil {
		return
	}
	// Measurements of earlier requests keep their memory too.
	for _, m := range b.order {
		now := m.sizeBytes()
		b.keptBytes += now - m.kept
		m.kept = now
	}
	if b.keptBytes > batchBytesKept {
		b.drop()
	}
	b.pool.Put(b)
}

// batchBytesKept bounds the memory of a batch that waits for the next request.
const batchBytesKept = 32 << 20

// Database returns the name of the database that the points belong to.
func (b *Batch) Database() string { return b.database }

// Points returns how many points the batch holds.
func (b *Batch) Points() int { return b.points }

// Append adds a copy of the point, and sorts p.Tags in place. Of fields with the same key the last one wins. A
// *PointError says why a point can't be stored; the batch is then as it was.
func (b *Batch) Append(p *Point) error {
	if b.replayed != 0 && b.isDropped(p.Measurement) {
		b.skipped++ // its types need not be those of today
		return nil
	}
	if p.Time < b.oldest {
		return pointError("time is beyond the retention of database %q, which keeps nothing older than %s",
			b.database, time.Unix(0, b.oldest).UTC().Format(time.RFC3339))
	}
	m, err := b.measurement(p.Measurement)
	if err != nil {
		return err
	}
	b.line++
	fields, tags, added := len(m.fields), len(m.tagNames), len(m.added)
	if err = b.checkTags(m, p.Tags); err == nil {
		err = b.resolveFields(m, p)
	}
	if err == nil && len(m.added) > added && len(m.known)+len(m.added) > b.limits.ColumnsPerMeasurement {
		err = pointError("measurement %q would have more than %d columns", m.name, b.limits.ColumnsPerMeasurement)
	}
	if err != nil {
		m.rollback(fields, tags, added)
		if !m.active { // else refused lines would leave a measurement each
			b.keptBytes -= m.kept
			delete(b.measurements, m.name)
		}
		return err
	}
	if !m.active {
		m.active = true
		b.order = append(b.order, m)
	}
	b.last = m
	b.store(m, p)
	return nil
}

// isDropped tells whether a measurement was dropped after the frame that is replayed.
func (b *Batch) isDropped(measurement []byte) bool {
	dropped := &b.schema.tombstones
	return !dropped.isEmpty() && b.replayed < dropped.of(tableKey{b.database, string(measurement)})
}

// measurement returns the table set of the name, made ready for this request.
func (b *Batch) measurement(name []byte) (*batchMeasurement, error) {
	if b.last != nil && b.last.name == string(name) {
		return b.last, nil
	}
	m, ok := b.measurements[string(name)]
	if len(b.order) >= b.limits.MeasurementsPerBatch && (!ok || !m.active) {
		return nil, pointError("more than %d measurements in one request", b.limits.MeasurementsPerBatch)
	}
	if !ok {
		m = &batchMeasurement{
			name: string(name), index: map[string]int32{}, tags: map[string]int{},
			tables: make([]batchTable, len(b.needs)), prefix: append(bytes.Clone(name), 0),
		}
		b.measurements[m.name] = m
	}
	if m.active {
		return m, nil
	}
	if b.replayed == 0 && b.schema.isHeld(tableKey{b.database, m.name}) {
		return nil, pointError("measurement %q can't be written to files at present; the server's status says why", name)
	}
	m.known = b.schema.lookup(b.database, m.name)
	return m, nil
}

// checkTags sorts the tags and checks that none is double and none is known as a field. Lines tend to repeat their tag
// keys in order: one that has the keys of the last line is sorted as that one was, and needs no check.
func (b *Batch) checkTags(m *batchMeasurement, tags []Tag) error {
	if m.shape.matches(tags) {
		b.permute(m.shape.order, tags)
		return nil
	}
	m.shape.reset()
	for i := range tags {
		name, err := m.tag(tags[i].Key)
		if err != nil {
			return err
		}
		m.shape.add(name)
	}
	if double, ok := m.shape.sort(); ok {
		m.shape.reset()
		return pointError("duplicate tag %q", double)
	}
	b.permute(m.shape.order, tags)
	return nil
}

// permute puts tag order[i] in place i.
func (b *Batch) permute(order []int, tags []Tag) {
	if slices.IsSorted(order) {
		return
	}
	b.tags = append(b.tags[:0], tags...)
	for i, from := range order {
		tags[i] = b.tags[from]
	}
}

// tagShape is the tag keys of a line as they stood in it, and the order that sorts them.
type tagShape struct {
	keys  []string
	order []int
}

func (s *tagShape) reset() { s.keys, s.order = s.keys[:0], s.order[:0] }

func (s *tagShape) add(key string) {
	s.order = append(s.order, len(s.keys))
	s.keys = append(s.keys, key)
}

// sort makes the order, and returns a key that is double.
func (s *tagShape) sort() (double string, ok bool) {
	slices.SortFunc(s.order, func(a, b int) int { return strings.Compare(s.keys[a], s.keys[b]) })
	for i := 1; i < len(s.order); i++ {
		if key := s.keys[s.order[i]]; key == s.keys[s.order[i-1]] {
			return key, true
		}
	}
	return "", false
}

func (s *tagShape) matches(tags []Tag) bool {
	if len(tags) != len(s.keys) {
		return false
	}
	for i := range tags {
		if string(tags[i].Key) != s.keys[i] {
			return false
		}
	}
	return true
}

// tag returns the tag key as a string, after checking its role when it is new to the batch.
func (m *batchMeasurement) tag(key []byte) (string, error) {
	if i, ok := m.tags[string(key)]; ok {
		return m.tagNames[i], nil
	}
	_, isField := m.index[string(key)]
	kind, ok := m.known[string(key)]
	if isField || ok && kind != segment.KindTag {
		return "", pointError("tag %q has the key of a field of measurement %q", key, m.name)
	}
	name := string(key)
	m.tags[name] = len(m.tagNames)
	m.tagNames = append(m.tagNames, name)
	if !ok {
		m.added = append(m.added, segment.ColumnDef{Name: name, Kind: segment.KindTag})
	}
	return name, nil
}

// resolveFields finds the column of each field of the line and drops fields that a later one overrides.
func (b *Batch) resolveFields(m *batchMeasurement, p *Point) error {
	b.fields = b.fields[:0]
	kept := 0
	for i := range p.Fields {
		column, err := m.field(&p.Fields[i], kept)
		if err != nil {
			return err
		}
		f := &m.fields[column]
		if f.line == b.line {
			p.Fields[f.position] = p.Fields[i]
			continue
		}
		f.line, f.position = b.line, kept
		p.Fields[kept] = p.Fields[i]
		b.fields = append(b.fields, column)
		kept++
	}
	p.Fields = p.Fields[:kept]
	return nil
}

// field returns the position of the field's column. Lines tend to repeat their fields in order, so position hint comes
// first.
func (m *batchMeasurement) field(f *Field, hint int) (int32, error) {
	column := int32(hint)
	if hint >= len(m.fields) || m.fields[hint].Name != string(f.Key) {
		var ok bool
		if column, ok = m.index[string(f.Key)]; !ok {
			return m.addField(f)
		}
	}
	if kind := m.fields[column].Kind; kind != f.Kind {
		return 0, m.typeConflict(f, kind)
	}
	return column, nil
}

func (m *batchMeasurement) addField(f *Field) (int32, error) {
	kind, ok := m.known[string(f.Key)]
	_, isTag := m.tags[string(f.Key)]
	if isTag || kind == segment.KindTag {
		return 0, pointError("field %q has the key of a tag of measurement %q", f.Key, m.name)
	}
	if ok && kind != f.Kind {
		return 0, m.typeConflict(f, kind)
	}
	def := segment.ColumnDef{Name: string(f.Key), Kind: f.Kind}
	if !ok {
		m.added = append(m.added, def)
	}
	m.fields = append(m.fields, batchField{ColumnDef: def})
	m.index[def.Name] = int32(len(m.fields) - 1)
	return int32(len(m.fields) - 1), nil
}

func (m *batchMeasurement) typeConflict(f *Field, kind segment.Kind) error {
	return pointError("field type conflict: input field %q on measurement %q is type %s, already exists as type %s",
		f.Key, m.name, f.Kind, kind)
}

// rollback forgets the columns that a refused line added.
func (m *batchMeasurement) rollback(fields, tags, added int) {
	for _, f := range m.fields[fields:] {
		delete(m.index, f.Name)
	}
	for _, name := range m.tagNames[tags:] {
		delete(m.tags, name)
	}
	m.fields, m.tagNames = m.fields[:fields], m.tagNames[:tags]
	m.added = m.added[:added]
	m.shape.reset()
}

// store appends the checked line to the table of its shard.
func (b *Batch) store(m *batchMeasurement, p *Point) {
	b.key = append(b.key[:0], m.prefix...)
	if p.Control {
		b.key = appendEscapedTags(b.key, p.Tags)
	} else {
		for i := range p.Tags {
			b.key = append(b.key, p.Tags[i].Key...)
			b.key = append(b.key, 1)
			b.key = append(b.key, p.Tags[i].Value...)
			b.key = append(b.key, 0)
		}
	}
	b.key = append(b.key, 0xff)
	hash := xxhash.Sum64(b.key)
	shard := hash % uint64(len(b.needs))
	t := &m.tables[shard]
	row := uint32(len(t.times))
	t.hashes = append(t.hashes, hash)
	t.keys = append(t.keys, b.key[len(m.prefix):]...)
	t.keyEnds = append(t.keyEnds, uint32(len(t.keys)))
	t.times = append(t.times, p.Time)
	for len(t.values) < len(m.fields) {
		t.values = append(t.values, fieldValues{})
	}
	need := &b.needs[shard]
	if row == 0 {
		need.addTable(b.database, m.name)
		need.addRun()
	}
	for ; t.charged < len(m.tagNames); t.charged++ {
		need.addTag(len(m.tagNames[t.charged]))
	}
	need.addRow(int64(len(p.Tags)), int64(len(p.Tags)))
	need.addSeries(len(b.key)-len(m.prefix), len(p.Tags))
	for i := range p.Fields {
		f := &p.Fields[i]
		values := &t.values[b.fields[i]]
		if values.len() == 0 {
			need.addField(len(f.Key))
		}
		values.add(row, f)
		need.addValues(f.Kind, 1, len(f.String))
	}
	b.points++
}

// appendEscapedTags appends what a series key begins with, whatever bytes the tags hold.
func appendEscapedTags(dst []byte, tags []Tag) []byte {
	for _, tag := range tags {
		dst = segment.AppendKeyTag(dst, tag.Key, tag.Value)
	}
	return dst
}
