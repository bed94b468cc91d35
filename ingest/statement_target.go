package ingest

import (
	"cmp"
	"errors"
	"slices"

	"github.com/influxdata/influxql"

	"lineweir/segment"
	"lineweir/shard"
)

// sourcesMax bounds how many measurements and patterns FROM may name.
const sourcesMax = 1000

// statementTarget is a measurement that a statement is about.
type statementTarget struct{ database, measurement string }

// targets returns the measurements that FROM names, or else all of the database, in ascending order of their names.
func (q *queryRun) targets(on string, sources influxql.Sources) ([]statementTarget, error) {
	if len(sources) == 0 {
		sources = influxql.Sources{&influxql.Measurement{}}
	}
	if len(sources) > sourcesMax {
		return nil, badRequest("FROM names %d measurements, at most %d are allowed", len(sources), sourcesMax)
	}
	var targets []statementTarget
	listed := map[string][]string{} // measurements by database
	for _, source := range sources {
		m, ok := source.(*influxql.Measurement)
		if !ok {
			return nil, badRequest("not supported: FROM %s", sanitize(source.String(), quoteBytesMax))
		}
		found, err := q.targetsOf(on, m, listed)
		if err != nil {
			return nil, err
		}
		targets = append(targets, found...)
	}
	slices.SortFunc(targets, func(a, b statementTarget) int {
		return cmp.Or(cmp.Compare(a.measurement, b.measurement), cmp.Compare(a.database, b.database))
	})
	return slices.Compact(targets), nil
}

// targetsOf returns the measurements that one source names. One without a name or pattern names all.
func (q *queryRun) targetsOf(
	on string, m *influxql.Measurement, listed map[string][]string,
) ([]statementTarget, error) {
	database, err := q.named(cmp.Or(m.Database, on))
	if err == nil && m.RetentionPolicy != "" {
		database, err = databaseName(database, m.RetentionPolicy)
	}
	if err != nil {
		return nil, err
	}
	names, ok := listed[database]
	if !ok {
		if names, err = q.engine.Measurements(database); err != nil {
			return nil, databaseError(err, database)
		}
		listed[database] = names
	}
	var targets []statementTarget
	for _, name := range names {
		switch {
		case m.Regex != nil && !m.Regex.Val.MatchString(name):
		case m.Regex == nil && m.Name != "" && m.Name != name:
		default:
			targets = append(targets, statementTarget{database, name})
		}
	}
	return targets, nil
}

// columns returns the columns of a target, none if it was dropped meanwhile.
func (q *queryRun) columns(target statementTarget) ([]segment.ColumnDef, error) {
	columns, err := q.engine.Columns(target.database, target.measurement)
	if isGone(err) {
		return nil, nil
	}
	return columns, err
}

// isGone reports that a measurement was dropped after it was listed.
func isGone(err error) bool {
	return errors.Is(err, shard.ErrDatabaseNotFound) || errors.Is(err, shard.ErrMeasurementNotFound)
}
