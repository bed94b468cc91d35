package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/segment"
)

// outcome is what a writer was told of its request.
type outcome int

const (
	unknown outcome = iota // nothing yet, or that nobody knows
	refused
	acknowledged
)

// request is one write, every value of which is a number that no other write has; or the drop of a measurement.
type request struct {
	points  []testPoint
	drop    string
	outcome outcome
}

// record is all requests in the order of their writing; those that ran side by side have no point in common.
type record struct {
	mu       sync.Mutex
	requests []request
	values   int64
}

// point returns a point of a measurement with a value of its own. Each drop of the measurement changes its type.
func (r *record) point(measurement, series string, time int64) testPoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values++
	name := "v"
	if r.values%3 == 0 {
		name = "w"
	}
	value := []any{r.values, uint64(r.values), float64(r.values)}[r.dropsLocked(measurement)%3]
	tags, fields := map[string]string{"s": series}, map[string]any{name: value}
	return testPoint{Measurement: measurement, Tags: tags, Fields: fields, Time: time}
}

func (r *record) dropsLocked(measurement string) (n int) {
	for _, q := range r.requests {
		if q.drop == measurement && q.outcome == acknowledged {
			n++
		}
	}
	return n
}

// put writes points of one database and takes note of what comes of it.
func (r *record) put(e *Engine, points ...testPoint) error {
	return r.note(request{points: points}, func() error { return put(e, databaseOf(points[0].Measurement), points...) })
}

// drop drops a measurement.
func (r *record) drop(e *Engine, measurement string) error {
	return r.note(request{drop: measurement}, func() error {
		return e.DropMeasurement(context.Background(), databaseOf(measurement), measurement)
	})
}

// note takes note of a request before it is made, and of what comes of it.
func (r *record) note(q request, do func() error) error {
	r.mu.Lock()
	r.requests = append(r.requests, q)
	at := len(r.requests) - 1
	r.mu.Unlock()
	err := do()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[at].outcome = outcomeOf(err)
	return err
}

func outcomeOf(err error) outcome {
	var backpressure *BackpressureError
	switch {
	case err == nil:
		return acknowledged
	case errors.As(err, &backpressure) && backpressure.Cause == CauseOutcomeUnknown:
		return unknown
	}
	return refused
}

// copy is the record of this moment.
func (r *record) copy() *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &record{requests: slices.Clone(r.requests), values: r.values}
}

func (r *record) count(o outcome) (n int) {
	for _, q := range r.requests {
		if q.outcome == o {
			n++
		}
	}
	return n
}

// faultMeasurements are those that the tests write to. The last one is in a database of its own, whose points expire.
var faultMeasurements = []string{"m", "n", "o", expiring}

const (
	expiring     = "r"
	expiringKept = time.Hour
)

func databaseOf(measurement string) string {
	if measurement == expiring {
		return "expiring"
	}
	return "db"
}

// expected returns the rows of every measurement if exactly those unknown requests took effect whose bit is set.
func (r *record) expected(bits int) map[string]map[string]string {
	books := map[string]model{}
	for _, m := range faultMeasurements {
		books[m] = model{}
	}
	for _, q := range r.requests {
		took := q.outcome == acknowledged
		if q.outcome == unknown {
			took = bits&1 == 1
			bits >>= 1
		}
		if took && q.drop != "" {
			clear(books[q.drop])
		}
		for _, p := range q.points {
			if took {
				books[p.Measurement].write(p)
			}
		}
	}
	rows := map[string]map[string]string{}
	for m, book := range books {
		rows[m] = book.rows()
	}
	return rows
}

// expire takes rows away that are not there and too old to have to be.
func expire(want, got map[string]string) {
	newest := int64(math.MinInt64)
	for key := range want {
		newest = max(newest, timeOf(key))
	}
	for key := range want {
		if _, found := got[key]; !found && timeOf(key) < newest-int64(expiringKept) {
			delete(want, key)
		}
	}
}

// timeOf is the inverse of rowKey.
func timeOf(key string) int64 {
	number, err := strconv.ParseUint(key[strings.LastIndexByte(key, ' ')+1:], 10, 64)
	if err != nil {
		panic(err)
	}
	return int64(number ^ 1<<63)
}

// unknownMax bounds how many requests may be unknown at the same time, as every subset of them is tried.
const unknownMax = 12

// resolve finds out which of the unknown requests took effect, whole, and which did not at all. The record knows
// afterwards, so that the next look must find the same. I1 and I12.
func (r *record) resolve(got map[string]map[string]string) error {
	open := r.count(unknown)
	if open > unknownMax {
		return fmt.Errorf("%d requests are unknown, too many to try", open)
	}
	for bits := range 1 << open {
		want := r.expected(bits)
		expire(want[expiring], got[expiring])
		if cmp.Equal(want, got) {
			r.settle(bits)
			return nil
		}
	}
	return fmt.Errorf("rows are neither those that were acknowledged, nor these and some unknown requests as a whole "+
		"(-acknowledged +got):\n%s", cmp.Diff(r.expected(0), got))
}

func (r *record) settle(bits int) {
	for i := range r.requests {
		if r.requests[i].outcome != unknown {
			continue
		}
		r.requests[i].outcome = refused
		if bits&1 == 1 {
			r.requests[i].outcome = acknowledged
		}
		bits >>= 1
	}
}

// complaints collects what helpers of tests complain about, for tests that expect complaints.
type complaints struct {
	testing.TB
	errs []error
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// readEngine returns all rows as a query sees them, in order and each once. I9.
func readEngine(e *Engine) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	c := &complaints{}
	for _, m := range faultMeasurements {
		all[m] = map[string]string{}
		source, err := e.Scan(context.Background(), Query{Database: databaseOf(m), Measurement: m, Selection: everything()})
		if errors.Is(err, ErrDatabaseNotFound) || errors.Is(err, ErrMeasurementNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		last := ""
		err = eachBlock(source, func(b *segment.Block) error {
			last = collect(c, b, all[m], last)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, errors.Join(c.errs...)
}

// checkCopies requires that below the merge no value is stored twice: neither in two segments, nor in a segment and a
// memtable. I9.
func checkCopies(e *Engine) error {
	var errs []error
	for _, m := range faultMeasurements {
		places := map[string]segment.Source{}
		view := e.store.Acquire(func() {
			for _, s := range e.allShards() {
				for i, snapshot := range s.snapshots(tableKey{databaseOf(m), m}, 0) {
					places[fmt.Sprintf("memtable %d of shard %d", i, s.shard)] = snapshot.source(everything())
				}
			}
		})
		for _, s := range view.Segments(databaseOf(m), m) {
			source, err := s.Scan(everything())
			if err != nil {
				source = brokenSource{err}
			}
			places[fmt.Sprintf("segment %d", s.Meta().ID)] = source
		}
		stored := map[string]string{} // by row and value, where it was found first
		for place, source := range places {
			errs = append(errs, eachBlock(source, func(b *segment.Block) error { return countCopies(b, place, stored) }))
		}
		view.Release()
	}
	return errors.Join(errs...)
}

type brokenSource struct{ err error }

func (s brokenSource) Next() (*segment.Block, error) { return nil, s.err }
func (brokenSource) Close() error                    { return nil }

func countCopies(b *segment.Block, place string, stored map[string]string) error {
	var errs []error
	row := 0
	for _, run := range b.Runs {
		for range run.Rows {
			for i := range b.Columns {
				c := &b.Columns[i]
				if c.Valid != nil && !c.Valid[row] {
					continue
				}
				value := fmt.Sprintf("%q %d %s=%d", run.Key, b.Times[row], c.Name, c.Numbers[row])
				if first, twice := stored[value]; twice {
					errs = append(errs, fmt.Errorf("%s is stored in %s and in %s", value, first, place))
				}
				stored[value] = place
			}
			row++
		}
	}
	return errors.Join(errs...)
}

// checkFloors requires that no floor has reached what is in memory, but for rows that a hold tells of. I4, H1.
func checkFloors(e *Engine) error {
	var errs []error
	for i, floor := range e.store.Floors() {
		s := e.allShards()[i]
		s.flushMu.Lock()
		unwritten := s.unwrittenUpTo(floor)
		s.flushMu.Unlock()
		holds := e.store.Holds(i)
		for key, sequence := range unwritten {
			if !slices.ContainsFunc(holds, func(h segment.Hold) bool {
				return h.Database == key.database && h.Measurement == key.measurement && h.Floor < sequence
			}) {
				errs = append(errs, fmt.Errorf("%v of sequence %d is in memory only, the floor of shard %d is %d, holds: %+v",
					key, sequence, i, floor, holds))
			}
		}
		oldest := s.MinUnflushedWALSeq()
		if oldest != 0 && floor >= oldest && len(holds) == 0 {
			errs = append(errs, fmt.Errorf("the floor of shard %d is %d, and %d is not flushed", i, floor, oldest))
		}
	}
	return errors.Join(errs...)
}
