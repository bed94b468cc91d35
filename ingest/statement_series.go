package ingest

import (
	"errors"
	"maps"
	"slices"

	"github.com/influxdata/influxql"

	"lineweir/segment"
	"lineweir/shard"
)

// errFound ends a visit of series that has seen enough.
var errFound = errors.New("found")

// visit calls fn for the key of each series of a target that meets the condition; one may come several times. A target
// that was dropped meanwhile has none.
func (q *queryRun) visit(target statementTarget, f *filter, fn func(seriesKey []byte) error) error {
	columns, err := q.columns(target)
	if err != nil {
		return err
	}
	if err = f.checkColumns(target.measurement, columns); err != nil {
		return err
	}
	selected := shard.Query{Database: target.database, Measurement: target.measurement, Selection: f.selection}
	err = q.engine.VisitSeries(q.ctx, selected, q.read, func(seriesKey []byte) error {
		if !f.matches(seriesKey) {
			return nil
		}
		return fn(seriesKey)
	})
	if isGone(err) {
		return nil
	}
	return err
}

// hasSeries tells whether a measurement has a series that meets the condition.
func (q *queryRun) hasSeries(target statementTarget, f *filter) (bool, error) {
	if f.all {
		return true, nil
	}
	err := q.visit(target, f, func([]byte) error { return errFound })
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// tagKeys returns the tags that series which meet the condition have, in ascending order.
func (q *queryRun) tagKeys(target statementTarget, f *filter) ([]string, error) {
	found := map[string]struct{}{}
	if f.all {
		columns, err := q.columns(target)
		for _, column := range columns {
			if column.Kind == segment.KindTag {
				found[column.Name] = struct{}{}
			}
		}
		return slices.Sorted(maps.Keys(found)), err
	}
	err := q.visit(target, f, func(seriesKey []byte) error {
		segment.EachTag(seriesKey, func(name, _ []byte) {
			if _, ok := found[string(name)]; !ok {
				found[string(name)] = struct{}{}
			}
		})
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}

// showTagValues lists the values of tags, by measurement.
func (q *queryRun) showTagValues(s *influxql.ShowTagValuesStatement) ([]statementSeries, error) {
	targets, err := q.targets(s.Database, s.Sources)
	if err != nil {
		return nil, err
	}
	f, err := newFilter(s.Condition)
	if err != nil {
		return nil, err
	}
	wanted, err := keyMatcher(s)
	if err != nil {
		return nil, err
	}
	var series []statementSeries
	for _, target := range targets {
		pairs := newListing(q, s.Limit, s.Offset)
		err := q.visit(target, f, func(seriesKey []byte) error {
			segment.EachTag(seriesKey, func(name, value []byte) {
				if wanted(string(name)) {
					pairs.add(string(segment.AppendKeyTag(nil, name, value)))
				}
			})
			return pairs.err
		})
		if err != nil {
			return nil, err
		}
		table := statementSeries{Name: target.measurement, Columns: []string{"key", "value"}}
		for _, pair := range pairs.list() {
			segment.EachTag([]byte(pair), func(name, value []byte) {
				table.Values = append(table.Values, []any{string(name), string(value)})
			})
		}
		if len(table.Values) > 0 {
			series = append(series, table)
		}
	}
	return series, nil
}

// keyMatcher tells of which tags WITH KEY asks for the values.
func keyMatcher(s *influxql.ShowTagValuesStatement) (func(name string) bool, error) {
	switch literal := s.TagKeyExpr.(type) {
	case *influxql.StringLiteral:
		return func(name string) bool { return (name == literal.Val) == (s.Op == influxql.EQ) }, nil
	case *influxql.ListLiteral:
		names := map[string]bool{}
		for _, name := range literal.Vals {
			names[name] = true
		}
		return func(name string) bool { return names[name] }, nil
	case *influxql.RegexLiteral:
		return func(name string) bool { return literal.Val.MatchString(name) == (s.Op == influxql.EQREGEX) }, nil
	default:
		return nil, badRequest("not supported: %s", sanitize(s.String(), quoteBytesMax))
	}
}

// showSeries lists series as line protocol writes them.
func (q *queryRun) showSeries(s *influxql.ShowSeriesStatement) ([]statementSeries, error) {
	targets, err := q.targets(s.Database, s.Sources)
	if err != nil {
		return nil, err
	}
	f, err := newFilter(s.Condition)
	if err != nil {
		return nil, err
	}
	keys := newListing(q, s.Limit, s.Offset)
	var text []byte
	for _, target := range targets {
		err := q.visit(target, f, func(seriesKey []byte) error {
			text = appendSeries(text[:0], target.measurement, seriesKey)
			keys.add(string(text))
			return keys.err
		})
		if err != nil {
			return nil, err
		}
	}
	list := keys.list()
	if len(list) == 0 {
		return nil, nil
	}
	return tableOf("", "key", list), nil
}

// appendSeries appends measurement and tags as a line begins with them.
func appendSeries(dst []byte, measurement string, seriesKey []byte) []byte {
	dst = appendEscaped(dst, []byte(measurement), false)
	segment.EachTag(seriesKey, func(name, value []byte) {
		dst = appendEscaped(append(dst, ','), name, true)
		dst = appendEscaped(append(dst, '='), value, true)
	})
	return dst
}

// listing collects texts, each once, of which LIMIT and OFFSET leave some in ascending order. Of many it keeps the
// smallest, so that a small limit needs little memory however much there is; what it keeps counts as listed.
type listing struct {
	run           *queryRun
	limit, offset int
	found         map[string]struct{}
	err           error // there is too much to list
}

func newListing(run *queryRun, limit, offset int) *listing {
	return &listing{run: run, limit: limit, offset: offset, found: map[string]struct{}{}}
}

const (
	// listingSlack is how many texts more than needed are kept before they are sorted out.
	listingSlack = 1000
	// listedMax is more than an answer can list.
	listedMax = queryAnswerBytesMax / listedBytes
)

func (l *listing) add(text string) {
	if _, known := l.found[text]; known || l.err != nil {
		return
	}
	if l.err = l.run.take(text); l.err != nil {
		return
	}
	l.found[text] = struct{}{}
	if keep := min(l.limit, listedMax) + min(l.offset, listedMax); l.limit > 0 && len(l.found) >= 2*keep+listingSlack {
		l.keep(keep)
	}
}

// keep lets go of all but the first ones.
func (l *listing) keep(count int) {
	for _, text := range slices.Sorted(maps.Keys(l.found))[count:] {
		delete(l.found, text)
		l.run.giveBack(text)
	}
}

// list returns what LIMIT and OFFSET leave.
func (l *listing) list() []string { return page(slices.Sorted(maps.Keys(l.found)), l.limit, l.offset) }
