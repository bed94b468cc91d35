package shard

import (
	"maps"
	"slices"
	"sync"

	"lineweir/segment"
)

// tableKey names a measurement of a database.
type tableKey struct{ database, measurement string }

// columns holds the kind of every column of one measurement. It is immutable: a change makes a new one.
type columns map[string]segment.Kind

// schema is the set of columns of every measurement. A column never changes its kind.
type schema struct {
	mu        sync.RWMutex
	databases map[string]map[string]columns // database, measurement
}

func newSchema() *schema { return &schema{databases: map[string]map[string]columns{}} }

// lookup returns the columns of a measurement, nil when it is unknown. The caller must not change them.
func (s *schema) lookup(database, measurement string) columns {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.databases[database][measurement]
}

// addDatabase makes the database known; it is a no-op for a known one.
func (s *schema) addDatabase(database string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addDatabaseLocked(database)
}

func (s *schema) addDatabaseLocked(database string) map[string]columns {
	measurements, ok := s.databases[database]
	if !ok {
		measurements = map[string]columns{}
		s.databases[database] = measurements
	}
	return measurements
}

// conflicts reports whether one of the columns is registered with another kind, or whether they would make the
// measurement wider than columnsMax.
func (s *schema) conflicts(key tableKey, added []segment.ColumnDef, columnsMax int) bool {
	known := s.lookup(key.database, key.measurement)
	width := len(known)
	grows := false
	for _, c := range added {
		kind, ok := known[c.Name]
		if ok && kind != c.Kind {
			return true
		}
		if !ok {
			grows = true
			width++
		}
	}
	return grows && width > columnsMax
}

// register adds columns that conflicts has passed under the same commit lock.
func (s *schema) register(key tableKey, added []segment.ColumnDef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	measurements := s.addDatabaseLocked(key.database)
	next := maps.Clone(measurements[key.measurement])
	if next == nil {
		next = make(columns, len(added))
	}
	for _, c := range added {
		next[c.Name] = c.Kind
	}
	measurements[key.measurement] = next
}

// databaseNames returns the known databases in ascending order.
func (s *schema) databaseNames() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.databases))
}

// measurementNames returns the measurements of a database in ascending order.
func (s *schema) measurementNames(database string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	measurements, ok := s.databases[database]
	if !ok {
		return nil, ErrDatabaseNotFound
	}
	return slices.Sorted(maps.Keys(measurements)), nil
}

// sorted returns the columns as definitions in ascending order of their names.
func (c columns) sorted() []segment.ColumnDef {
	defs := make([]segment.ColumnDef, 0, len(c))
	for _, name := range slices.Sorted(maps.Keys(c)) {
		defs = append(defs, segment.ColumnDef{Name: name, Kind: c[name]})
	}
	return defs
}
