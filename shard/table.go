package shard

import (
	"maps"
	"slices"
	"strings"

	"lineweir/segment"
)

// table holds the rows of one measurement in a memtable, by columns. Rows are in order of arrival; runs tell which
// commit each came from. The memtable's lock guards it.
type table struct {
	after     uint64 // sequence of the drop that its rows came after; 0: none that matters
	used      usage  // what its rows take
	series    seriesIndex
	rowSeries chunked[uint32]
	times     chunked[int64]
	runs      []sequenceRun
	fields    []tableField
	index     map[string]int32
	tags      map[string]struct{}
	keyBytes  int64    // of all series
	seriesIDs []uint32 // scratch of insert
	pin       *pin     // by the reads that hold snapshots of it
}

// sequenceRun is a number of rows that one commit brought; it ends where the next one starts.
type sequenceRun struct {
	sequence uint64
	start    uint32
}

// tableField is a field column. Only rows that have the field take room.
type tableField struct {
	name    string
	kind    segment.Kind
	sparse  bool            // false: value i belongs to row i
	rows    chunked[uint32] // of a sparse field, ascending
	numbers chunked[uint64]
	strings chunked[[]byte] // they alias blocks that the table owns
}

func (f *tableField) len() int { return f.numbers.length + f.strings.length }

func newTable(after uint64) *table {
	return &table{after: after, index: map[string]int32{}, tags: map[string]struct{}{}, pin: new(pin)}
}

// insert appends the rows of a batch's table and adds what they take to u.
func (t *table) insert(m *batchMeasurement, b *batchTable, sequence uint64, u *usage) {
	base := uint32(t.times.length)
	t.runs = append(t.runs, sequenceRun{sequence: sequence, start: base})
	u.addRun()
	t.insertSeries(b, u)
	t.times.append(b.times...)
	for i := range b.values {
		if values := &b.values[i]; values.len() > 0 {
			t.insertField(&m.fields[i], values, base, u)
		}
	}
}

// insertSeries appends the series of each row.
func (t *table) insertSeries(b *batchTable, u *usage) {
	t.seriesIDs = t.seriesIDs[:0]
	start := uint32(0)
	for row, hash := range b.hashes {
		key := b.keys[start:b.keyEnds[row]]
		start = b.keyEnds[row]
		id, ok := t.series.find(hash, key)
		if !ok {
			id = t.addSeries(hash, key, u)
		}
		t.seriesIDs = append(t.seriesIDs, id)
		u.addRow(t.series.countRow(id))
	}
	t.rowSeries.append(t.seriesIDs...)
}

// addSeries numbers a new series and notes its tag columns.
func (t *table) addSeries(hash uint64, key []byte, u *usage) uint32 {
	tags := 0
	segment.EachTag(key, func(name, _ []byte) {
		tags++
		if _, ok := t.tags[string(name)]; !ok {
			t.tags[string(name)] = struct{}{}
			u.addTag(len(name))
		}
	})
	u.addSeries(len(key), tags)
	t.keyBytes += int64(len(key))
	return t.series.add(hash, key, tags)
}

// insertField appends the values of one field; base is the row that the batch's row 0 became.
func (t *table) insertField(def *batchField, values *fieldValues, base uint32, u *usage) {
	f := t.field(def, u)
	if !f.sparse && (values.sparse || f.len() != int(base)) {
		f.makeSparse()
	}
	if f.sparse {
		for i := range values.len() {
			row := uint32(i)
			if values.sparse {
				row = values.rows[i]
			}
			f.rows.append(base + row)
		}
	}
	f.numbers.append(values.numbers...)
	if f.kind == segment.KindString {
		f.appendStrings(values)
	}
	u.addValues(f.kind, values.len(), len(values.text))
}

// appendStrings copies the text once, as one block that the strings alias.
func (f *tableField) appendStrings(values *fieldValues) {
	block := append([]byte(nil), values.text...)
	start := uint32(0)
	for _, end := range values.ends {
		f.strings.append(block[start:end:end])
		start = end
	}
}

// makeSparse notes the row of each value that the field has so far.
func (f *tableField) makeSparse() {
	f.sparse = true
	for i := range f.len() {
		f.rows.append(uint32(i))
	}
}

func (t *table) field(def *batchField, u *usage) *tableField {
	i, ok := t.index[def.Name]
	if !ok {
		i = int32(len(t.fields))
		t.fields = append(t.fields, tableField{name: def.Name, kind: def.Kind})
		t.index[def.Name] = i
		u.addField(len(def.Name))
	}
	return &t.fields[i]
}

// snapshot returns an immutable view of the rows that the table holds now.
func (t *table) snapshot() *tableSnapshot {
	s := &tableSnapshot{
		keys: t.series.keys.snapshot(), rowSeries: t.rowSeries.snapshot(), times: t.times.snapshot(),
		runs: slices.Clone(t.runs), fields: make([]tableField, len(t.fields)), tags: slices.Sorted(maps.Keys(t.tags)),
		pin: t.pin, memoryBytes: t.used.memoryBytes,
	}
	for i, f := range t.fields {
		f.rows, f.numbers, f.strings = f.rows.snapshot(), f.numbers.snapshot(), f.strings.snapshot()
		s.fields[i] = f
	}
	slices.SortFunc(s.fields, func(a, b tableField) int { return strings.Compare(a.name, b.name) })
	return s
}
