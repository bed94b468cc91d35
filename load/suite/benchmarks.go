package suite

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lineweir/load"
)

// peerRun is one workload that several servers were given, named as their files are: peer-RUN-SERVER.json.
type peerRun struct {
	name, title string
	reports     []*load.Report
}

// peerRuns in the order in which they are shown.
var peerRuns = []peerRun{
	{name: "flat", title: "As fast as they answer"},
	{name: "rate", title: "At a fixed rate"},
}

// evidence is what the files of a directory say.
type evidence struct {
	conditions string // under which it was measured, in sentences; "": nothing is to be said
	records    []*Record
	runs       []peerRun
}

// readEvidence reads every record and report of a directory.
func readEvidence(dir string) (*evidence, error) {
	e := &evidence{}
	var problems []error
	for i := range scenarios {
		record, err := readRecord(filepath.Join(dir, "suite-"+scenarios[i].name+".json"))
		e.records, problems = append(e.records, record), append(problems, err)
	}
	for _, run := range peerRuns {
		paths, err := filepath.Glob(filepath.Join(dir, "peer-"+run.name+"-*.json"))
		problems = append(problems, err)
		slices.SortFunc(paths, lineweirFirst)
		for _, path := range paths {
			report, err := load.ReadReport(path)
			run.reports, problems = append(run.reports, report), append(problems, err)
		}
		e.runs = append(e.runs, run)
	}
	text, err := os.ReadFile(filepath.Join(dir, "conditions.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, err)
	}
	e.conditions = strings.TrimSpace(string(text))
	return e, errors.Join(problems...)
}

// lineweirFirst orders paths by name, but for this server.
func lineweirFirst(a, b string) int {
	rank := func(path string) int {
		if strings.HasSuffix(path, "-lineweir.json") {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// WriteBenchmarks makes a document of what a directory holds: the records of the suite (suite-SCENARIO.json), and the
// reports of runs that several servers were given (peer-RUN-SERVER.json), with what conditions.md says of both.
func WriteBenchmarks(w io.Writer, dir string) error {
	e, err := readEvidence(dir)
	if err != nil {
		return err
	}
	p := printer{to: w}
	p.printf("# Benchmarks\n\nMade by `lineweir load benchmarks` from [benchmarks/](benchmarks), whose files " +
		"[benchmarks/run](benchmarks/run) makes.\nNobody edits this text: a test compares it with the files.\n\n")
	p.gates(e.records, e.conditions)
	p.peers(e.runs)
	p.details(e)
	return p.err
}

// gates are the summary.
func (p *printer) gates(records []*Record, conditions string) {
	results := judgeAll(records)
	passed := 0
	for _, r := range results {
		if r.Verdict == Passed {
			passed++
		}
	}
	p.printf("## When the weir is full\n\n%d of %d gates were passed, on %s.\n%s\n", passed, len(Gates),
		records[0].Machine, conditions)
	for _, r := range results {
		if r.Verdict != Passed {
			p.printf("- **%s: %s** (%s; the gate is %s)\n", r.Verdict, r.Gate.Claim, r.Figure, r.Gate.Text)
		}
	}
	p.printf("\n| claim | figure | gate | verdict |\n|---|---|---|---|\n")
	for _, r := range results {
		p.printf("| %s | %s | %s | %s |\n", r.Gate.Claim, r.Figure, r.Gate.Text, r.Verdict)
	}
	p.printf("\n`lineweir load suite` starts a fresh server for each scenario: %s. It sustains %.0f points/s and %.0f "+
		"seals/s; that\nis the maximum of which 10 × is offered. Tester and server share the machine.\n\n",
		records[0].Server, records[0].Maximum, records[0].Seals)
}

// peers are the runs that several servers were given.
func (p *printer) peers(runs []peerRun) {
	p.printf("## Beside other servers\n\nThe same lines from the same seed, one server after the other on this machine. " +
		"They promise different things when they\nanswer, which the table states; latency counts from the intended send " +
		"time.\n\n")
	for _, run := range runs {
		if len(run.reports) == 0 {
			continue
		}
		s := &run.reports[0].Run.Settings
		p.printf("### %s\n\n%s, %d series, batches of %d, %d writers, seed %d", run.title, s.Workload, s.Series, s.Batch,
			s.Writers, s.Seed)
		if s.Rate > 0 {
			p.printf(", %.0f points/s", s.Rate)
		}
		p.printf(", %.0f s.\n\n| server | a success means | points/s | p50 | p99 | CPU per point | CPU | peak memory | "+
			"written per point |\n|---|---|---|---|---|---|---|---|---|\n", run.reports[0].Run.Planned)
		for _, r := range run.reports {
			p.peer(r)
		}
		p.printf("\n")
	}
}

func (p *printer) peer(r *load.Report) {
	points := float64(max(1, r.Totals.Acknowledged))
	p.printf("| %s | %s | %.0f | %s | %s |", r.Label, r.Note, points/r.Run.Seconds, milliseconds(r.Admitted.P50),
		milliseconds(r.Admitted.P99))
	if r.Server == nil {
		p.printf(" – | – | – | – |\n")
		return
	}
	p.printf(" %.2f µs | %.2f cores | %s | %.1f B |\n", r.Server.CPUSeconds*1e6/points,
		r.Server.CPUSeconds/r.Run.Seconds, sized(float64(r.Server.PeakMemoryBytes)),
		float64(r.Server.WrittenBytes)/points)
}

// details are all figures of the scenarios, and all those of the runs.
func (p *printer) details(e *evidence) {
	p.printf("## Details\n\nUnits are in the names; shares are of 1.\n\n")
	for _, r := range e.records {
		p.printf("### %s: %s\n\n%s, seed %d, %.0f s with its servers.\n", r.Scenario, aboutOf(r.Scenario), r.Version,
			r.Seed, r.Seconds)
		if r.Failure != "" {
			p.printf("\nFAILED: %s\n", strings.ReplaceAll(r.Failure, "\n", " "))
		}
		p.printf("\n| figure | |\n|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
			p.printf("| %s | %s |\n", name, number(r.Figures[name]))
		}
		p.printf("\n")
	}
	for _, run := range e.runs {
		if p.err == nil && len(run.reports) > 0 {
			p.printf("### %s, all figures\n\n", run.title)
			p.err = errors.Join(p.err, load.WriteMarkdown(p.to, run.reports...))
			p.printf("\n")
		}
	}
}
