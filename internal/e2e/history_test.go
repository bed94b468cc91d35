package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
)

// outcome is what a writer knows about a batch that it sent.
type outcome uint8

const (
	unanswered outcome = iota
	acknowledged
	refused
)

// history is the outcome of every batch that was sent, by the batch's number.
type history struct {
	database string // "" stands for kill

	mu       sync.Mutex
	outcomes []outcome
}

func (h *history) name() string { return cmp.Or(h.database, "kill") }

func (h *history) begin() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, unanswered)
	return len(h.outcomes) - 1
}

func (h *history) end(batch int, outcome outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes[batch] = outcome
}

// batchPoints is the number of points in a batch. They go to several measurements, series and days.
const batchPoints = 20

var batchMeasurements = []string{"kill_a", "kill_b", "kill_c"}

// batchLines makes the points of a batch. No two points of all batches have the same time.
func batchLines(batch int) string {
	var text strings.Builder
	const day = 86_400_000_000_000
	for line := range batchPoints {
		fmt.Fprintf(&text, "%s,host=h%d batch=%di,line=%di,load=%d.5,note=\"batch %d, line %d\" %d\n",
			batchMeasurements[line%len(batchMeasurements)], (batch+line)%17, batch, line, batch, batch, line,
			1_700_000_000_000_000_000+int64(batch%3)*day+int64(batch*batchPoints+line))
	}
	return text.String()
}

// checkCount compares the number of stored points with what must and what may be there.
func (h *history) checkCount(t *testing.T, s *server) {
	t.Helper()
	counts := map[outcome]int{}
	for _, outcome := range h.outcomes {
		counts[outcome]++
	}
	stored := 0
	each := map[string]int{}
	for _, measurement := range batchMeasurements {
		each[measurement] = s.count(t, h.name(), measurement)
		stored += each[measurement]
	}
	least := counts[acknowledged] * batchPoints
	most := least + counts[unanswered]*batchPoints
	if stored < least || stored > most || stored%batchPoints != 0 {
		t.Errorf("%d points are stored (%v), want from %d to %d and whole batches of %d",
			stored, each, least, most, batchPoints)
	}
}

// check compares every stored point with the batches, and returns how many there are.
func (h *history) check(t *testing.T, s *server) int {
	t.Helper()
	got := s.batches(t, h.name())
	stored := len(got)
	for _, problem := range h.problems(t, got) {
		t.Error(problem)
	}
	return stored
}

// batches returns the points of all batches that the server has. A database that doesn't exist yet has none.
func (s *server) batches(t *testing.T, database string) points {
	t.Helper()
	got := points{}
	for _, measurement := range batchMeasurements {
		if s.count(t, database, measurement) > 0 {
			maps.Copy(got, s.scan(t, database, measurement))
		}
	}
	return got
}

// problems tells in what the points differ from the batches. It empties got.
func (h *history) problems(t *testing.T, got points) []string {
	t.Helper()
	var problems []string
	for batch, outcome := range h.outcomes {
		if present := take(t, got, batch); !outcome.allows(present) {
			problems = append(problems, fmt.Sprintf("batch %d was %s, and %d of its %d points are stored",
				batch, outcome, present, batchPoints))
		}
	}
	if len(got) > 0 {
		problems = append(problems, fmt.Sprintf("%d points are stored that nobody wrote", len(got)))
	}
	return problems
}

// count returns the number of batches with the outcome.
func (h *history) count(outcome outcome) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, o := range h.outcomes {
		if o == outcome {
			n++
		}
	}
	return n
}

// take removes the points of the batch, and returns how many there were.
func take(t *testing.T, stored points, batch int) int {
	t.Helper()
	want, err := parsePoints(batchLines(batch))
	if err != nil {
		t.Fatal(err)
	}
	present := 0
	for identity, fields := range want {
		if stored[identity] == fields {
			present++
			delete(stored, identity)
		}
	}
	return present
}

func (o outcome) allows(present int) bool {
	switch o {
	case acknowledged:
		return present == batchPoints
	case refused:
		return present == 0
	default:
		return present == 0 || present == batchPoints
	}
}

func (o outcome) String() string {
	return [...]string{"cut off", "acknowledged", "refused"}[o]
}
