package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"lineweir/load"
)

type loadReportCommand struct {
	Files  []string `arg:"" name:"file" help:"Reports that --json wrote."`
	Format string   `enum:"text,markdown" default:"text" help:"How the table is written: ${enum}."`
	HTML   string   `name:"html" placeholder:"FILE" help:"Write one page with the table and the plots of all runs."`
}

func (loadReportCommand) Help() string {
	return `Examples:

	lineweir load report lineweir.json victoria.json
	lineweir load report --format markdown lineweir.json victoria.json influx.json`
}

func (c loadReportCommand) Run(in *invocation) error {
	var reports []*load.Report
	var problems []error
	for _, path := range c.Files {
		report, err := load.ReadReport(path)
		reports, problems = append(reports, report), append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	write := load.WriteText
	if c.Format == "markdown" {
		write = load.WriteMarkdown
	}
	if err := write(in.stdout, reports...); err != nil {
		return err
	}
	if c.HTML == "" {
		return nil
	}
	return writeFile(c.HTML, func(w io.Writer) error { return load.WriteHTML(w, reports...) })
}

// loadAmount is a number that may be written with a unit: 200k, 1.5M.
type loadAmount float64

// UnmarshalText reads the number.
func (a *loadAmount) UnmarshalText(text []byte) error {
	factor := 1.0
	digits := string(text)
	for unit, size := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9} {
		if rest, found := strings.CutSuffix(string(text), unit); found {
			digits, factor = rest, size
		}
	}
	number, err := strconv.ParseFloat(digits, 64)
	if err != nil || number < 0 || math.IsInf(number, 0) || math.IsNaN(number) || number*factor > 1e15 {
		return fmt.Errorf("%q is no number such as 5000, 200k or 1.5M", text)
	}
	*a = loadAmount(number * factor)
	return nil
}

// progressLine is the last line of a terminal, written again and again.
type progressLine struct {
	terminal io.Writer // nil: there is none, and nothing is shown
}

func newProgressLine(stderr io.Writer) progressLine {
	file, ok := stderr.(*os.File)
	if !ok {
		return progressLine{}
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return progressLine{}
	}
	return progressLine{terminal: file}
}

const (
	lineBegin = "\r"
	lineClear = "\x1b[K" // to the end of the line
)

// show replaces the line. A terminal that is gone is no reason to end a run.
func (p progressLine) show(progress load.Progress) {
	if p.terminal != nil {
		_, _ = fmt.Fprint(p.terminal, lineBegin, progress, lineClear)
	}
}

func (p progressLine) clear() {
	if p.terminal != nil {
		_, _ = fmt.Fprint(p.terminal, lineBegin, lineClear)
	}
}
