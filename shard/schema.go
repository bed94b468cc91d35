package shard

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lineweir/segment"
)

// tableKey names a measurement of a database.
type tableKey struct{ database, measurement string }

// columns holds the kind of every column of one measurement. It is immutable: a change makes a new one.
type columns map[string]segment.Kind

// schema is the set of columns of every measurement. A column never changes its kind, until its measurement is dropped.
type schema struct {
	tombstones tombstones
	drops      atomic.Uint64 // how often something was dropped; a batch that was parsed before may be wrong

	held atomic.Pointer[map[tableKey]string] // measurements whose points are refused, and why

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

// drop forgets measurements and databases. Whoever looks both up and finds the same tombstone before and after has
// seen columns that belong to it.
func (s *schema) drop(drops []segment.Drop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tombstones.add(drops)
	for _, d := range drops {
		if d.Measurement == "" {
			delete(s.databases, d.Database)
		} else {
			delete(s.databases[d.Database], d.Measurement)
		}
	}
	s.drops.Add(1)
}

// restore takes over drops that were recorded before the start, and changes nothing else.
func (s *schema) restore(drops []segment.Drop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tombstones.add(drops)
}

// forgetDrops lets go of the tombstones up to a floor that all shards have reached.
func (s *schema) forgetDrops(floor uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tombstones.forget(floor)
}

// knows tells whether there is a database of that name.
func (s *schema) knows(database string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.databases[database]
	return ok
}

// family returns the known ones of a database and its retention policies, which are databases called "database/policy",
// in ascending order.
func (s *schema) family(database string) []string {
	return slices.DeleteFunc(s.databaseNames(), func(name string) bool {
		return name != database && !strings.HasPrefix(name, database+"/")
	})
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

// columnsOf returns the columns of a measurement, or ErrDatabaseNotFound or ErrMeasurementNotFound.
func (s *schema) columnsOf(key tableKey) (columns, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	measurements, ok := s.databases[key.database]
	if !ok {
		return nil, ErrDatabaseNotFound
	}
	known, ok := measurements[key.measurement]
	if !ok {
		return nil, ErrMeasurementNotFound
	}
	return known, nil
}

// sorted returns the columns as definitions in ascending order of their names.
func (c columns) sorted() []segment.ColumnDef {
	defs := make([]segment.ColumnDef, 0, len(c))
	for _, name := range slices.Sorted(maps.Keys(c)) {
		defs = append(defs, segment.ColumnDef{Name: name, Kind: c[name]})
	}
	return defs
}
