package ingest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"lineweir/shard"
)

// testDefaultTime is the default time of bodies in tests.
var testDefaultTime = time.Unix(1_700_000_000, 123_456_789)

func newUncheckedBatch() *shard.Batch {
	limits := shard.Limits{ColumnsPerMeasurement: 1024, MeasurementsPerBatch: 10_000, MeasurementsPerMemtable: 20_000}
	return shard.NewBatch("db", limits, 2)
}

// pointRecorder is an Appender that lets a batch judge the points, if it has one, and keeps the accepted ones as
// lines.
type pointRecorder struct {
	batch *shard.Batch
	lines []string
}

func (r *pointRecorder) Append(p *shard.Point) error {
	if r.batch != nil {
		if err := r.batch.Append(p); err != nil {
			return err
		}
	}
	tags := slices.SortedFunc(slices.Values(p.Tags), func(a, b shard.Tag) int { return bytes.Compare(a.Key, b.Key) })
	sorted := *p
	sorted.Tags = tags
	r.lines = append(r.lines, strings.TrimSuffix(string(appendPoint(nil, &sorted)), "\n"))
	return nil
}

// parsed is what became of a body.
type parsed struct {
	Lines  []string
	Errors []LineError
}

func parseWith(t testing.TB, limits LineLimits, precision Precision, body string) (parsed, Result) {
	t.Helper()
	r := pointRecorder{batch: newUncheckedBatch()}
	result, err := NewParser(limits).Parse([]byte(body), precision, testDefaultTime, &r)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	if result.Points != len(r.lines) || result.Points != r.batch.Points() {
		t.Fatalf("result has %d points, %d were appended, batch has %d", result.Points, len(r.lines), r.batch.Points())
	}
	return parsed{r.lines, result.Errors}, result
}

func parseBody(t testing.TB, body string) parsed {
	t.Helper()
	p, _ := parseWith(t, DefaultLineLimits(), PrecisionNanosecond, body)
	return p
}
