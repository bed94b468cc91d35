package load

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// table has a column for each report and a row for each figure.
type table struct {
	reports []*Report
	groups  []tableGroup
}

type tableGroup struct {
	Title string
	Rows  []tableRow
}

type tableRow struct {
	Name   string
	Values []string // of each report; "": it has none
}

// newTable sets the figures of reports side by side.
func newTable(reports []*Report) *table {
	t := &table{reports: reports}
	t.addRun()
	t.addPoints()
	t.addLatencies()
	t.addRefusals()
	t.addAnswers()
	t.addSteps()
	t.addServer()
	t.addVerification()
	return t
}

func (t *table) group(title string) { t.groups = append(t.groups, tableGroup{Title: title}) }

// row adds a figure, unless no report has it.
func (t *table) row(name string, value func(*Report) string) {
	row := tableRow{Name: name}
	empty := true
	for _, r := range t.reports {
		text := value(r)
		row.Values = append(row.Values, text)
		empty = empty && text == ""
	}
	if !empty {
		group := &t.groups[len(t.groups)-1]
		group.Rows = append(group.Rows, row)
	}
}

func (t *table) addRun() {
	t.group("Run")
	t.row("server", func(r *Report) string { return r.Run.Server })
	t.row("note", func(r *Report) string { return r.Note })
	t.row("workload", func(r *Report) string { return r.Run.Settings.workload() })
	t.row("pace", func(r *Report) string { return r.Run.Settings.pace() })
	t.row("when refused", func(r *Report) string { return r.Run.Settings.whenRefused() })
	t.row("seed", func(r *Report) string { return strconv.FormatUint(r.Run.Settings.Seed, 10) })
	t.row("lasted", func(r *Report) string { return secondsBriefly(r.Run.Seconds) + ", " + r.Run.Ended })
}

func (s *Settings) workload() string {
	text := s.Workload
	if s.Series > 0 {
		text += fmt.Sprintf(", %s series", grouped(int64(s.Series)))
	}
	text += fmt.Sprintf(", batches of %s", grouped(int64(s.Batch)))
	if s.Gzip {
		text += ", gzip"
	}
	return text
}

func (s *Settings) pace() string {
	text := fmt.Sprintf("%d writers, ", s.Writers)
	if s.Rate == 0 {
		return text + "as fast as answered"
	}
	text += grouped(int64(s.Rate)) + " points/s"
	if s.Profile != "" {
		text += " × " + s.Profile
	}
	return text
}

func (s *Settings) whenRefused() string {
	switch s.Policy {
	case Drop:
		return "drop"
	case Retry:
		return "retry after " + secondsBriefly(s.Delay)
	default:
		return fmt.Sprintf("obey Retry-After, keep %d batches", s.Buffer)
	}
}

func (t *table) addPoints() {
	t.group("Points")
	rate := func(points int64, r *Report) string { return grouped(int64(r.perSecond(points))) + "/s" }
	t.row("offered", func(r *Report) string { return rate(r.Totals.Offered, r) })
	t.row("acknowledged", func(r *Report) string { return rate(r.Totals.Acknowledged, r) })
	t.row("of line protocol", func(r *Report) string {
		return fmt.Sprintf("%.2f MB/s", r.perSecond(r.Totals.AcknowledgedBytes)/1e6)
	})
	t.row("goodput, acknowledged ÷ offered", func(r *Report) string { return percent(r.Goodput()) })
	t.row("variation of goodput per second", func(r *Report) string {
		return fmt.Sprintf("%.3f, %d silent seconds", r.Variation(), r.SilentSeconds())
	})
	t.row("fairness between writers (Jain)", func(r *Report) string {
		return fmt.Sprintf("%.4f", r.Jain())
	})
	t.points("dropped, buffers full", func(r *Report) int64 { return r.Totals.Overflowed })
	t.points("held back at the end", func(r *Report) int64 { return r.Totals.HeldBack })
	t.points("given up at the end", func(r *Report) int64 { return r.Totals.GivenUp })
	t.points("late, never sent", func(r *Report) int64 { return r.Totals.Late })
}

// points adds a number that is worth a row only where it isn't 0.
func (t *table) points(name string, value func(*Report) int64) {
	t.row(name, func(r *Report) string {
		if value(r) == 0 {
			return ""
		}
		return grouped(value(r))
	})
}

func (t *table) addLatencies() {
	t.group("Latency from the intended send time")
	t.latency("admitted", func(r *Report) Latency { return r.Admitted })
	t.latency("refused", func(r *Report) Latency { return r.Refused })
	t.latency("until acknowledged, with returns", func(r *Report) Latency {
		if r.Totals.Retries == 0 {
			return Latency{} // the same as the first
		}
		return r.Age
	})
}

func (t *table) latency(name string, value func(*Report) Latency) {
	for _, part := range []struct {
		name string
		of   func(Latency) float64
	}{
		{"p50", func(l Latency) float64 { return l.P50 }}, {"p90", func(l Latency) float64 { return l.P90 }},
		{"p99", func(l Latency) float64 { return l.P99 }}, {"p99.9", func(l Latency) float64 { return l.P999 }},
		{"max", func(l Latency) float64 { return l.Max }},
	} {
		t.row(name+" "+part.name, func(r *Report) string {
			if l := value(r); l.Count > 0 {
				return secondsBriefly(part.of(l))
			}
			return ""
		})
	}
}

func (t *table) addRefusals() {
	t.group("Refusals")
	wherever := func(value func(*Report) string) func(*Report) string {
		return func(r *Report) string {
			if r.Totals.Refusals == 0 {
				return ""
			}
			return value(r)
		}
	}
	t.row("requests refused", wherever(func(r *Report) string { return grouped(r.Totals.Refusals) }))
	t.row("refusals per admission", wherever(func(r *Report) string {
		return fmt.Sprintf("%.2f", r.RefusalsPerAdmission())
	}))
	t.points("retries", func(r *Report) int64 { return r.Totals.Retries })
	t.row("admitted at the first return", func(r *Report) string {
		if r.Totals.FirstReturns == 0 {
			return ""
		}
		return fmt.Sprintf("%s of %s", percent(r.AdmittedAtFirstReturn()), grouped(r.Totals.FirstReturns))
	})
	t.row("Retry-After", func(r *Report) string {
		median, sent := r.medianRetryAfter()
		if !sent {
			return ""
		}
		least, most := r.RetryAfter[0].Seconds, r.RetryAfter[len(r.RetryAfter)-1].Seconds
		return fmt.Sprintf("%d s to %d s, median %d s", least, most, median)
	})
}

func (t *table) addAnswers() {
	t.group("Answers")
	type kind struct {
		status int
		cause  string
	}
	seen := map[kind]bool{}
	for _, report := range t.reports {
		for _, answer := range report.Answers {
			k := kind{answer.Status, answer.Cause}
			if seen[k] {
				continue
			}
			seen[k] = true
			t.points(answer.name(), func(r *Report) int64 {
				for _, other := range r.Answers {
					if other.Status == k.status && other.Cause == k.cause {
						return other.Count
					}
				}
				return 0
			})
		}
	}
}

func (a AnswerCount) name() string {
	name := "no answer"
	if a.Status > 0 {
		name = strconv.Itoa(a.Status)
	}
	return strings.TrimSpace(name + " " + a.Cause)
}

func (t *table) addSteps() {
	steps := 0
	for _, r := range t.reports {
		steps = max(steps, len(r.Steps))
	}
	if steps < 2 {
		return
	}
	t.group("Steps of the profile")
	for i := range steps {
		t.row(fmt.Sprintf("step %d", i+1), func(r *Report) string {
			if i >= len(r.Steps) {
				return ""
			}
			return r.Steps[i].text()
		})
	}
}

func (s *StepReport) text() string {
	text := fmt.Sprintf("%s/s of %s/s for %s, p99 %s", grouped(int64(float64(s.Acknowledged)/s.Seconds)),
		grouped(int64(s.Rate)), secondsBriefly(s.Seconds), secondsBriefly(s.Admitted.P99))
	if s.Refusals > 0 {
		text += fmt.Sprintf(", %s refusals", grouped(s.Refusals))
	}
	return text
}

// writeText writes the table for a terminal.
func (t *table) writeText(w io.Writer) error {
	var text bytes.Buffer
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(name string, values []string) {
		_, _ = fmt.Fprintln(out, name+"\t"+strings.Join(values, "\t")) // to memory
	}
	nothing := make([]string, len(t.reports))
	if len(t.reports) > 1 {
		line("", labels(t.reports))
	}
	for _, group := range t.groups {
		if len(group.Rows) == 0 {
			continue
		}
		line(group.Title, nothing)
		for _, row := range group.Rows {
			line("  "+row.Name, row.Values)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for padded := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(padded, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// writeMarkdown writes the table for a document.
func (t *table) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	escape := strings.NewReplacer("|", `\|`, "\n", " ")
	line := func(name string, values []string) {
		b.WriteString("| " + escape.Replace(name))
		for _, value := range values {
			b.WriteString(" | " + escape.Replace(value))
		}
		b.WriteString(" |\n")
	}
	line("", labels(t.reports))
	b.WriteString(strings.Repeat("|---", len(t.reports)+1) + "|\n")
	for _, group := range t.groups {
		if len(group.Rows) == 0 {
			continue
		}
		line("**"+group.Title+"**", make([]string, len(t.reports)))
		for _, row := range group.Rows {
			line(row.Name, row.Values)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func labels(reports []*Report) []string {
	var names []string
	for _, r := range reports {
		names = append(names, r.Label)
	}
	return names
}
