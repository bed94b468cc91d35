package suite

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Result is a gate with what was measured.
type Result struct {
	Gate    *Gate
	Figure  string
	Verdict Verdict
}

// judgeAll returns a result for each gate whose scenario has a record.
func judgeAll(records []*Record) []Result {
	var results []Result
	for i := range Gates {
		g := &Gates[i]
		for _, r := range records {
			if r.Scenario == g.Scenario {
				results = append(results, judgeRecord(g, r))
			}
		}
	}
	return results
}

// judgeRecord judges one gate. What failed shows nothing, whatever it measured before.
func judgeRecord(g *Gate, r *Record) Result {
	verdict := g.judge(r.Figures, r.Short)
	if r.Failure != "" {
		verdict = NotMeasured
	}
	return Result{Gate: g, Figure: g.text(r.Figures, verdict), Verdict: verdict}
}

// missed returns ErrMissed with the claims that were not shown.
func missed(results []Result) error {
	var problems []error
	for _, r := range results {
		if r.Verdict == Missed || r.Verdict == NotMeasured {
			problems = append(problems, fmt.Errorf("%w: %s: %s, want %s", ErrMissed, r.Gate.Claim, r.Figure, r.Gate.Text))
		}
	}
	return errors.Join(problems...)
}

// printer writes for people. It keeps its first error.
type printer struct {
	to  io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.to, format, args...)
	}
}

func (p *printer) head(b *bench) {
	name := "lineweir load suite"
	if b.form.short {
		name += ", short form: gates that a busy machine can spoil are not judged"
	}
	p.printf("%s\nmachine  %s\nseed     %d\nservers  %s\n\n", name, machine(), b.seed, b.form.describe())
}

// describe tells the configuration of most scenarios.
func (f *form) describe() string {
	return fmt.Sprintf("%d shards, tier %.0f MiB, memtables %.0f KiB, drain limited to %.1f MB/s of L0, hold %v; "+
		"tsbs-cpu, %d series, batches of %d, %d writers with an address each",
		shards, float64(f.tierBytes)/(1<<20), float64(f.memtableBytes)/(1<<10), float64(f.drainPerSecond)/1e6, hold,
		seriesCount, f.batch, f.writers)
}

func (p *printer) scenario(r *Record) {
	p.printf("%s (%.0f s): %s\n", r.Scenario, r.Seconds, aboutOf(r.Scenario))
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		p.printf("  %-32s %s\n", name, number(r.Figures[name]))
	}
	if r.Failure != "" {
		p.printf("  FAILED: %s\n", strings.ReplaceAll(r.Failure, "\n", "\n  "))
	}
	p.printf("\n")
}

func aboutOf(name string) string {
	for i := range scenarios {
		if scenarios[i].name == name {
			return scenarios[i].about
		}
	}
	return ""
}

// number writes a figure with at least four digits that count.
func number(figure float64) string {
	if figure >= 1000 || figure <= -1000 || figure == float64(int64(figure)) {
		return fmt.Sprintf("%.0f", figure)
	}
	return fmt.Sprintf("%.4g", figure)
}

func (p *printer) table(results []Result) {
	if p.err != nil || len(results) == 0 {
		return
	}
	w := tabwriter.NewWriter(p.to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "claim\tfigure\tgate\tverdict")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Gate.Claim, r.Figure, r.Gate.Text, r.Verdict)
	}
	p.err = w.Flush()
}
