package ingest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/influxdata/influxql"

	"lineweir/internal/auth"
	"lineweir/segment"
	"lineweir/shard"
)

// tableOf makes a table of one column.
func tableOf(name, column string, values []string) []statementSeries {
	table := statementSeries{Name: name, Columns: []string{column}}
	for _, value := range values {
		table.Values = append(table.Values, []any{value})
	}
	return []statementSeries{table}
}

// page returns what LIMIT and OFFSET leave; a limit of 0 is none.
func page[T any](rows []T, limit, offset int) []T {
	rows = rows[min(offset, len(rows)):]
	if limit > 0 {
		rows = rows[:min(limit, len(rows))]
	}
	return rows
}

// showDatabases lists the databases that the client may read or write.
func (q *queryRun) showDatabases() ([]statementSeries, error) {
	names := slices.DeleteFunc(q.engine.Databases(), func(name string) bool {
		return !q.rights.Allows(auth.Read, name) && !q.rights.Allows(auth.Write, name)
	})
	return tableOf("databases", "name", names), q.take(names...)
}

// family returns the databases that are a database and its retention policies, itself first.
func (q *queryRun) family(database string) []string {
	return slices.DeleteFunc(q.engine.Databases(), func(name string) bool {
		return name != database && !strings.HasPrefix(name, database+"/")
	})
}

// showPolicies lists the retention policies of a database. Its own is called autogen.
func (q *queryRun) showPolicies(s *influxql.ShowRetentionPoliciesStatement) ([]statementSeries, error) {
	database, err := q.named(s.Database)
	if err != nil {
		return nil, err
	}
	family := q.family(database)
	if len(family) == 0 {
		return nil, databaseError(shard.ErrDatabaseNotFound, database)
	}
	table := statementSeries{Columns: []string{"name", "duration", "shardGroupDuration", "replicaN", "default"}}
	for _, name := range family {
		policy := strings.TrimPrefix(strings.TrimPrefix(name, database), "/")
		table.Values = append(table.Values, []any{
			cmp.Or(policy, defaultPolicies[1]), q.engine.Retention(name).String(), "24h0m0s", 1, policy == "",
		})
		if err := q.take(policy); err != nil {
			return nil, err
		}
	}
	return []statementSeries{table}, nil
}

// showMeasurements lists the measurements of a database, as far as WITH MEASUREMENT names them and a series of theirs
// meets the condition.
func (q *queryRun) showMeasurements(s *influxql.ShowMeasurementsStatement) ([]statementSeries, error) {
	var sources influxql.Sources
	if s.Source != nil {
		sources = influxql.Sources{s.Source}
	}
	targets, err := q.targets(s.Database, sources)
	if err != nil {
		return nil, err
	}
	f, err := newFilter(s.Condition)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, target := range targets {
		matches, err := q.hasSeries(target, f)
		if err != nil {
			return nil, err
		}
		if matches {
			names = append(names, target.measurement)
		}
	}
	names = page(slices.Compact(names), s.Limit, s.Offset)
	if len(names) == 0 {
		return nil, nil
	}
	return tableOf("measurements", "name", names), q.take(names...)
}

// showTagKeys lists the tags of each measurement, as far as a series that meets the condition has them.
func (q *queryRun) showTagKeys(s *influxql.ShowTagKeysStatement) ([]statementSeries, error) {
	targets, err := q.targets(s.Database, s.Sources)
	if err != nil {
		return nil, err
	}
	f, err := newFilter(s.Condition)
	if err != nil {
		return nil, err
	}
	var series []statementSeries
	for _, target := range targets {
		keys, err := q.tagKeys(target, f)
		if err != nil {
			return nil, err
		}
		if keys = page(keys, s.Limit, s.Offset); len(keys) > 0 {
			series = append(series, tableOf(target.measurement, "tagKey", keys)...)
		}
		if err := q.take(append(keys, target.measurement)...); err != nil {
			return nil, err
		}
	}
	return page(series, s.SLimit, s.SOffset), nil
}

// showFieldKeys lists the fields of each measurement with their types.
func (q *queryRun) showFieldKeys(s *influxql.ShowFieldKeysStatement) ([]statementSeries, error) {
	targets, err := q.targets(s.Database, s.Sources)
	if err != nil {
		return nil, err
	}
	var series []statementSeries
	for _, target := range targets {
		columns, err := q.columns(target)
		if err != nil {
			return nil, err
		}
		table := statementSeries{Name: target.measurement, Columns: []string{"fieldKey", "fieldType"}}
		for _, column := range columns {
			if column.Kind != segment.KindTag {
				table.Values = append(table.Values, []any{column.Name, column.Kind.String()})
			}
		}
		if table.Values = page(table.Values, s.Limit, s.Offset); len(table.Values) > 0 {
			series = append(series, table)
		}
		for _, value := range table.Values {
			if err := q.take(target.measurement, value[0].(string), value[1].(string)); err != nil {
				return nil, err
			}
		}
	}
	return series, nil
}
