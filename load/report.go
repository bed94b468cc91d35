package load

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"time"
)

// reportFormat is the version of the JSON of a Report.
const reportFormat = 1

// Report is all that was measured in a run. FORMAT.md describes its JSON.
type Report struct {
	Format   int       `json:"format"`
	Label    string    `json:"label"`
	Note     string    `json:"note,omitempty"`
	Started  time.Time `json:"started"`
	Run      RunReport `json:"run"`
	Totals   Totals    `json:"totals"`
	Admitted Latency   `json:"admitted"` // of attempts, from their intended send time
	Refused  Latency   `json:"refused"`
	Age      Latency   `json:"age"` // of batches, from when they were due to their acknowledgement
	Counts
	Measurements
}

// Counts are the lists of a Report.
type Counts struct {
	Answers    []AnswerCount     `json:"answers"`
	RetryAfter []RetryAfterCount `json:"retry_after"`
	Steps      []StepReport      `json:"steps"`
	Clients    []ClientCounts    `json:"clients"`
	Seconds    []Second          `json:"seconds"`
}

// Measurements are what not every run has.
type Measurements struct {
	Server   *ProcessReport  `json:"server_process,omitempty"`
	Tester   *ProcessReport  `json:"tester_process,omitempty"`
	Pressure *PressureReport `json:"pressure,omitempty"`
	Verified *Verification   `json:"verified,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// RunReport says what was run.
type RunReport struct {
	Server    string   `json:"server"` // as it names itself
	URL       string   `json:"url"`
	Settings  Settings `json:"settings"`
	Corpus    int64    `json:"corpus_points"` // made ahead, and sent in rounds
	Seconds   float64  `json:"seconds"`       // until the last answer
	Planned   float64  `json:"planned_seconds"`
	Ended     string   `json:"ended"` // why: EndedByTime, …
	Tester    string   `json:"tester"`
	GoVersion string   `json:"go_version"`
	System    string   `json:"system"`
	CPUs      int      `json:"cpus"`
}

// Why a run ended.
const (
	EndedByTime      = "its time was over"
	EndedByPoints    = "all points were sent"
	EndedByInterrupt = "interrupted"
	EndedByMemory    = "its memory was full"
)

// Settings are the Options that make two runs comparable.
type Settings struct {
	Workload string  `json:"workload"` // shape, or name of the file
	Series   int     `json:"series,omitempty"`
	Batch    int     `json:"batch"`
	Writers  int     `json:"writers"`
	Gzip     bool    `json:"gzip"`
	Rate     float64 `json:"rate"` // 0: closed loop
	Profile  string  `json:"profile,omitempty"`
	Points   int64   `json:"points,omitempty"`
	Policy   Policy  `json:"on_refusal"`
	Delay    float64 `json:"retry_delay_seconds"`
	Buffer   int     `json:"buffer"`
	Seed     uint64  `json:"seed"`
	Start    string  `json:"start"`
	Interval float64 `json:"interval_seconds"`
}

// Totals are sums over a run. Figures of points are so named in the JSON; the others count requests.
type Totals struct {
	Offered              int64 `json:"offered_points"` // due, or sent without being due
	Acknowledged         int64 `json:"acknowledged_points"`
	AcknowledgedBytes    int64 `json:"acknowledged_bytes"` // of line protocol, uncompressed
	Refused              int64 `json:"refused_points"`     // a batch counts each time
	Overflowed           int64 `json:"overflowed_points"`  // dropped by clients that were held back for too long
	HeldBack             int64 `json:"held_back_points"`   // in the buffers of such clients at the end
	GivenUp              int64 `json:"given_up_points"`    // refused or failed, and the run ended before their return
	Late                 int64 `json:"late_points"`        // due and never sent, with no refusal to excuse it
	Batches              int64 `json:"batches"`            // sent at least once
	Admissions           int64 `json:"admissions"`
	Refusals             int64 `json:"refusals"`
	Failures             int64 `json:"failures"` // any other answer, or none
	Retries              int64 `json:"retries"`
	FirstReturns         int64 `json:"first_returns"` // attempts that follow the first refusal of their batch
	FirstReturnsAdmitted int64 `json:"first_returns_admitted"`
}

// AnswerCount counts one kind of answer. Status 0 is an attempt without one.
type AnswerCount struct {
	Status int    `json:"status"`
	Cause  string `json:"cause,omitempty"`
	Count  int64  `json:"count"`
}

// RetryAfterCount counts the answers with one Retry-After.
type RetryAfterCount struct {
	Seconds int   `json:"seconds"`
	Count   int64 `json:"count"`
}

// StepReport is one step of the profile, by the time of the answers.
type StepReport struct {
	Rate         float64 `json:"rate"`
	Seconds      float64 `json:"seconds"`
	Acknowledged int64   `json:"acknowledged_points"`
	Refusals     int64   `json:"refusals"`
	Admitted     Latency `json:"admitted"`
	Refused      Latency `json:"refused"`
}

// ClientCounts are of one client.
type ClientCounts struct {
	Offered      int64 `json:"offered_points"`
	Acknowledged int64 `json:"acknowledged_points"`
	Refusals     int64 `json:"refusals"`
}

func newReport(o *Options, c *corpus) *Report {
	w := o.Workload
	settings := Settings{
		Workload: w.Shape, Series: w.Series, Batch: w.Batch, Writers: o.Pace.Writers, Gzip: o.Target.Gzip,
		Rate: o.Pace.Rate, Profile: o.Pace.Profile.String(), Points: o.Pace.Points, Policy: o.Refusals.Policy,
		Delay: o.Refusals.Delay.Seconds(), Buffer: o.Refusals.Buffer, Seed: w.Seed,
		Start: w.Start.UTC().Format(time.RFC3339Nano), Interval: w.Interval.Seconds(),
	}
	if w.File != "" {
		settings.Workload, settings.Series, settings.Seed = w.File, 0, 0
	}
	return &Report{
		Format: reportFormat, Label: o.Label, Note: o.Note,
		Run: RunReport{
			URL: o.Target.shownURL(), Settings: settings, Corpus: c.lines(), Planned: o.Pace.duration().Seconds(),
			Tester: o.Version, GoVersion: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
			CPUs: runtime.NumCPU(),
		},
	}
}

// perSecond is the average of a count over the run.
func (r *Report) perSecond(count int64) float64 {
	if r.Run.Seconds <= 0 {
		return 0
	}
	return float64(count) / r.Run.Seconds
}

// Goodput is the share of the offered points that was acknowledged.
func (r *Report) Goodput() float64 { return share(r.Totals.Acknowledged, r.Totals.Offered) }

// RefusalsPerAdmission is how often a batch is turned away until one is taken.
func (r *Report) RefusalsPerAdmission() float64 { return share(r.Totals.Refusals, r.Totals.Admissions) }

// AdmittedAtFirstReturn is the share of the batches that returned after a first refusal and were taken then.
func (r *Report) AdmittedAtFirstReturn() float64 {
	return share(r.Totals.FirstReturnsAdmitted, r.Totals.FirstReturns)
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// steady returns the acknowledged points of the whole seconds: all but the first, and those that lie behind the plan
// or were not full.
func (r *Report) steady() []float64 {
	whole := int(min(r.Run.Seconds, r.Run.Planned))
	var points []float64
	for i := 1; i < min(whole, len(r.Seconds)); i++ {
		points = append(points, float64(r.Seconds[i].Acknowledged))
	}
	return points
}

// Variation is the coefficient of variation of the acknowledged points per second, over its whole seconds but the
// first.
func (r *Report) Variation() float64 {
	points := r.steady()
	mean := meanOf(points)
	if mean == 0 {
		return 0
	}
	var squares float64
	for _, value := range points {
		squares += (value - mean) * (value - mean)
	}
	return math.Sqrt(squares/float64(len(points))) / mean
}

// SilentSeconds is how many whole seconds had less than a twentieth of the mean.
func (r *Report) SilentSeconds() int {
	points := r.steady()
	mean, silent := meanOf(points), 0
	for _, value := range points {
		if value < mean/20 {
			silent++
		}
	}
	return silent
}

func meanOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sum float64
	for _, value := range values {
		sum += value
	}
	return sum / float64(len(values))
}

// Jain is the fairness index over the acknowledged points of the clients: 1 when all have the same, 1/n when one of n
// has everything.
func (r *Report) Jain() float64 {
	var sum, squares float64
	for _, c := range r.Clients {
		sum += float64(c.Acknowledged)
		squares += float64(c.Acknowledged) * float64(c.Acknowledged)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(r.Clients)) * squares)
}

// medianRetryAfter is in seconds; false if none was sent.
func (r *Report) medianRetryAfter() (int, bool) {
	var all int64
	for _, entry := range r.RetryAfter {
		all += entry.Count
	}
	var below int64
	for _, entry := range r.RetryAfter {
		if below += entry.Count; below*2 >= all {
			return entry.Seconds, true
		}
	}
	return 0, false
}

// WriteJSON writes the report so that ReadReport reads it.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write the report as JSON: %w", err)
	}
	return nil
}

// ReadReport reads a report from a file.
func ReadReport(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrReport, err)
	}
	if r.Format != reportFormat {
		return nil, fmt.Errorf("%s: %w: its format is %d, want %d", path, ErrReport, r.Format, reportFormat)
	}
	return &r, nil
}
