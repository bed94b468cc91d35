package ingest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/influxdata/influxql"
)

// durationUnits are those of InfluxQL.
var durationUnits = map[string]time.Duration{
	"ns": 1, "u": time.Microsecond, "µ": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute,
	"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// checkDurations refuses durations that no time.Duration holds, where a statement sets a retention. The parser finds
// most of them by their sign, but some become small and positive as they overflow: 30501w, which are 584 years, would
// be three days, and all points that are older would go.
func checkDurations(text string, statements influxql.Statements) error {
	if !slices.ContainsFunc(statements, setsRetention) {
		return nil
	}
	scanner := influxql.NewScanner(strings.NewReader(text))
	for {
		switch token, _, literal := scanner.Scan(); {
		case token == influxql.EOF:
			return nil
		case token == influxql.DURATIONVAL && overflows(literal):
			return badRequest("error parsing query: overflowed duration %s: choose a smaller duration or INF",
				sanitize(literal, quoteBytesMax))
		}
	}
}

// setsRetention tells whether a statement says how long points are kept.
func setsRetention(statement influxql.Statement) bool {
	switch s := statement.(type) {
	case *influxql.CreateDatabaseStatement:
		return s.RetentionPolicyDuration != nil
	case *influxql.CreateRetentionPolicyStatement, *influxql.AlterRetentionPolicyStatement:
		return true
	default:
		return false
	}
}

// overflows tells whether a duration as InfluxQL writes it, numbers with units, is more than a time.Duration holds.
func overflows(literal string) bool {
	total := 0.0
	for literal != "" {
		digits := literal[:len(literal)-len(strings.TrimLeftFunc(literal, unicode.IsDigit))]
		literal = literal[len(digits):]
		unit := literal[:len(literal)-len(strings.TrimLeftFunc(literal, unicode.IsLetter))]
		literal = literal[len(unit):]
		count, err := strconv.ParseFloat(digits, 64)
		if err != nil || durationUnits[unit] == 0 {
			return true // the parser knows only these
		}
		total += count * float64(durationUnits[unit])
	}
	return total >= math.MaxInt64
}
