package ingest

import (
	"time"

	"github.com/influxdata/influxql"

	"lineweir/segment"
)

// filter is the condition of a SHOW statement: on the tags of a series, and on the times of its points.
type filter struct {
	all       bool                 // there is no condition
	selection segment.Selection    // times, and tags that must have a value
	condition influxql.Expr        // on tags; nil: none
	eval      *influxql.ValuerEval // over key
	key       seriesTags
}

// newFilter splits a condition. Its errors are *requestError.
func newFilter(condition influxql.Expr) (*filter, error) {
	f := &filter{all: condition == nil, selection: segment.AllTime()}
	f.eval = &influxql.ValuerEval{Valuer: &f.key}
	if f.all {
		return f, nil
	}
	tags, times, err := influxql.ConditionExpr(condition, &influxql.NowValuer{Now: time.Now()})
	if err != nil {
		return nil, badRequest("WHERE: %s", sanitize(err.Error(), quoteBytesMax))
	}
	f.condition = tags
	if !times.Min.IsZero() {
		f.selection.Start = times.MinTimeNano()
	}
	if !times.Max.IsZero() {
		f.selection.Stop = times.MaxTimeNano() + 1 // MaxTime lies below what would overflow
	}
	f.selection.Tags = appendEquals(nil, tags)
	return f, nil
}

// appendEquals finds tags that every series must have a value of, so that files without it need not be read.
func appendEquals(dst []segment.TagEqual, expr influxql.Expr) []segment.TagEqual {
	switch e := expr.(type) {
	case *influxql.ParenExpr:
		return appendEquals(dst, e.Expr)
	case *influxql.BinaryExpr:
		if e.Op == influxql.AND {
			return appendEquals(appendEquals(dst, e.LHS), e.RHS)
		}
		tag, isTag := e.LHS.(*influxql.VarRef)
		value, isText := e.RHS.(*influxql.StringLiteral)
		if e.Op == influxql.EQ && isTag && isText && value.Val != "" {
			return append(dst, segment.TagEqual{Key: tag.Val, Value: value.Val})
		}
	}
	return dst
}

// checkColumns refuses a condition on a field.
func (f *filter) checkColumns(measurement string, columns []segment.ColumnDef) error {
	var refused error
	influxql.WalkFunc(f.condition, func(node influxql.Node) {
		name, ok := node.(*influxql.VarRef)
		if !ok || refused != nil {
			return
		}
		for _, column := range columns {
			if column.Name == name.Val && column.Kind != segment.KindTag {
				refused = badRequest("WHERE takes tags and time, and %s is a field of measurement %s",
					quote(name.Val), quote(measurement))
			}
		}
	})
	return refused
}

// matches tells whether a series meets the condition on tags.
func (f *filter) matches(seriesKey []byte) bool {
	if f.condition == nil {
		return true
	}
	f.key.seriesKey = seriesKey
	return f.eval.EvalBool(f.condition)
}

// seriesTags lets a condition read the tags of a series. One that it lacks is empty, as in InfluxDB.
type seriesTags struct{ seriesKey []byte }

// Value implements influxql.Valuer.
func (s *seriesTags) Value(name string) (any, bool) {
	found := ""
	segment.EachTag(s.seriesKey, func(key, value []byte) {
		if string(key) == name {
			found = string(value)
		}
	})
	return found, true
}
