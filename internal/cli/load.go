package cli

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"lineweir/internal/config"
	"lineweir/load"
)

type loadCommands struct {
	Run    loadRunCommand    `cmd:"" default:"withargs" help:"Load a server; load without a command does this."`
	Report loadReportCommand `cmd:"" help:"Set the reports of several runs side by side."`
	Suite  loadSuiteCommand  `cmd:"" help:"Start servers, load them full, and judge what they do by the gates."`

	Benchmarks loadBenchmarksCommand `cmd:"" help:"Make a document of what suite and reports say."`
}

func (loadCommands) Help() string {
	return `"lineweir load run --help" lists the flags of a run.

Examples:

	lineweir load --duration 30s
	lineweir load --rate 200k --profile 0.5x:30s,10x:60s,0.8x:30s --writers 64 --verify --html run.html
	lineweir load report lineweir.json victoria.json
	lineweir load suite`
}

// loadRunCommand has the options of a run.
type loadRunCommand struct {
	loadTarget   `embed:"" group:"Where to"`
	loadWorkload `embed:"" group:"What"`
	loadPace     `embed:"" group:"How fast"`
	loadOutput   `embed:"" group:"What comes out"`
}

type loadTarget struct {
	URL         string        `default:"http://127.0.0.1:8086" help:"The server, or a whole URL to post to."`
	API         string        `name:"api" enum:"v1,v2,v3" default:"v1" help:"/write, /api/v2/write, /api/v3/write_lp."`
	DB          string        `name:"db" default:"load" placeholder:"NAME" help:"Database or bucket."`
	Org         string        `placeholder:"NAME" help:"Organisation, for v2."`
	Token       string        `placeholder:"TOKEN" help:"Token; @FILE reads it from a file."`
	CreateDB    bool          `name:"create-db" help:"Create the database first, as InfluxDB 1 needs it."`
	Gzip        bool          `help:"Compress bodies."`
	Timeout     time.Duration `default:"30s" help:"How long to wait for an answer."`
	Source      string        `placeholder:"ADDRESS" help:"Of the first writer, in 127.0.0.0/8."`
	OneSource   bool          `help:"All writers send from the address of the first."`
	AllowRemote bool          `help:"Load a server that is not on this machine."`
}

type loadWorkload struct {
	Shape         string        `enum:"tsbs-cpu,telegraf,cardinality" default:"tsbs-cpu" help:"Of lines: ${enum}."`
	File          string        `type:"existingfile" placeholder:"FILE" help:"Replay this, its times shifted."`
	FilePrecision string        `enum:"ns,us,ms,s" default:"ns" help:"Unit of the times in the file: ${enum}."`
	Series        loadAmount    `placeholder:"NUMBER" help:"Of the shape; 4k, but 1M for cardinality."`
	Batch         loadAmount    `default:"5k" help:"Points of a body."`
	Seed          uint64        `default:"1" help:"Two runs with the same seed send the same bytes."`
	Start         string        `default:"2026-01-01T00:00:00Z" help:"Time of the first point, RFC 3339 or now."`
	Interval      time.Duration `default:"10s" help:"Time between two points of a series."`
}

type loadPace struct {
	Writers    int           `default:"4" help:"Clients side by side, each with one body on its way."`
	Rate       loadAmount    `default:"0" placeholder:"POINTS/S" help:"Of all writers; 0: as fast as answered."`
	Profile    string        `placeholder:"STEPS" help:"Of the rate: 0.5x:30s,10x:60s,0.8x:30s."`
	Duration   time.Duration `help:"How long; 30s without --points and --profile."`
	Points     loadAmount    `default:"0" help:"Stop after so many points."`
	OnRefusal  string        `enum:"obey,retry,drop" default:"obey" help:"After 503 or 429: ${enum}."`
	RetryDelay time.Duration `default:"100ms" help:"Wait before a return, with retry or without Retry-After."`
	Buffer     int           `default:"10" help:"Due bodies that a writer keeps while it is held back."`
}

type loadOutput struct {
	Label     string `placeholder:"NAME" help:"Names the run in reports; else the server's name."`
	Note      string `placeholder:"TEXT" help:"What a reader should know, such as the server's durability."`
	ServerPID int    `name:"server-pid" placeholder:"PID" help:"Measure CPU time and memory of this process."`
	Verify    bool   `help:"Read back what was acknowledged, from lineweir's /api/scan."`
	Memory    string `default:"256MiB" help:"Bound of bodies, buffers and what verification keeps."`
	JSON      string `name:"json" placeholder:"FILE" help:"Write the report as JSON."`
	HTML      string `name:"html" placeholder:"FILE" help:"Write the report as one page with plots."`
}

func (loadRunCommand) Help() string {
	return `Bodies are made before the run and sent in rounds with later times. Latency counts from the moment at which a
body should have been sent, so that a server that stands still is charged for all that it held up. A run ends by itself;
Ctrl-C ends it early and still prints the report. The exit status is 1 if --verify finds that anything is missing,
double, or otherwise not as it was acknowledged.

With --source, each writer sends from an address of its own, counted up from the first, and is so a client of its own to
the server; with --one-source they all share it.

After a refusal, a writer obeys Retry-After, or retries after the delay whatever the server says, or drops the body.
While it is held back, bodies that fall due wait in its buffer; the oldest are dropped. Times begin at --start in every
run, so that bytes repeat; some servers drop what lies before their retention and answer as if they had stored it:
give them --start now.

Examples:

	lineweir load --duration 30s
	lineweir load --rate 200k --profile 0.5x:30s,10x:60s,0.8x:30s --writers 64 --verify --html run.html
	lineweir load --shape cardinality --series 1M --points 1M --server-pid "$(pgrep -x lineweir)"
	lineweir load --url http://127.0.0.1:8428/write --start now --json victoria.json
	lineweir load report lineweir.json victoria.json`
}

func (c loadRunCommand) Run(in *invocation) error {
	options, err := c.options()
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	for _, path := range []string{c.JSON, c.HTML} {
		if err := checkWritable(path); err != nil {
			return err
		}
	}
	// The bound is of what lives; the garbage collector shall not double it.
	const besides = 64 << 20
	debug.SetMemoryLimit(options.MemoryBytes + besides)
	progress := newProgressLine(in.stderr)
	options.Progress = progress.show
	report, err := load.Run(in.ctx, options)
	progress.clear()
	if report == nil {
		return fmt.Errorf("load: %w", err)
	}
	written := load.WriteText(in.stdout, report)
	if c.JSON != "" {
		written = errors.Join(written, writeFile(c.JSON, report.WriteJSON))
	}
	if c.HTML != "" {
		written = errors.Join(written, writeFile(c.HTML, func(w io.Writer) error { return load.WriteHTML(w, report) }))
	}
	if err != nil {
		err = fmt.Errorf("load: %w", err)
	}
	return errors.Join(written, err)
}

// options translates the flags. What they say is judged by the run.
func (c loadRunCommand) options() (load.Options, error) {
	o := load.DefaultOptions()
	o.Label, o.Note, o.ServerPID, o.Verify = c.Label, c.Note, c.ServerPID, c.Verify
	o.Version = "lineweir " + Version()
	var problems []error
	set := func(err error) { problems = append(problems, err) }
	set(c.setTarget(&o.Target))
	set(c.setWorkload(&o.Workload))
	set(c.setPace(&o.Pace))
	o.Refusals = load.Refusals{Policy: load.Policy(c.OnRefusal), Delay: c.RetryDelay, Buffer: c.Buffer}
	var err error
	if o.MemoryBytes, err = config.ParseBytes(c.Memory); err != nil {
		set(fmt.Errorf("--memory %w", err))
	}
	return o, errors.Join(problems...)
}

func (t loadTarget) setTarget(to *load.Target) error {
	*to = load.Target{
		URL: t.URL, API: load.API(t.API), Database: t.DB, Org: t.Org, Token: t.Token, Gzip: t.Gzip,
		Create: t.CreateDB, OneSource: t.OneSource, AllowRemote: t.AllowRemote, Timeout: t.Timeout,
	}
	if path, isFile := strings.CutPrefix(t.Token, "@"); isFile {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("--token: %w", err)
		}
		to.Token = strings.TrimSpace(string(text))
	}
	if t.Source == "" {
		return nil
	}
	var err error
	if to.Source, err = netip.ParseAddr(t.Source); err != nil {
		return fmt.Errorf("--source: %w", err)
	}
	return nil
}

func (w loadWorkload) setWorkload(to *load.Workload) error {
	units := map[string]time.Duration{
		"ns": time.Nanosecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	}
	*to = load.Workload{
		Shape: w.Shape, File: w.File, FilePrecision: units[w.FilePrecision], Series: int(w.Series),
		Batch: int(w.Batch), Seed: w.Seed, Interval: w.Interval,
	}
	if w.Series == 0 {
		to.Series = 4000
		if w.Shape == load.ShapeCardinality {
			to.Series = 1_000_000
		}
	}
	if w.Start == "now" {
		to.Start = time.Now().Truncate(time.Second)
		return nil
	}
	var err error
	if to.Start, err = time.Parse(time.RFC3339Nano, w.Start); err != nil {
		return fmt.Errorf("--start: %w", err)
	}
	return nil
}

func (p loadPace) setPace(to *load.Pace) error {
	*to = load.Pace{Writers: p.Writers, Rate: float64(p.Rate), Duration: p.Duration, Points: int64(p.Points)}
	if p.Profile != "" {
		var err error
		if to.Profile, err = load.ParseProfile(p.Profile); err != nil {
			return err
		}
		if p.Duration != 0 {
			return errors.New("--duration and --profile both say how long")
		}
		return nil
	}
	if p.Duration == 0 {
		to.Duration = 30 * time.Second
		if p.Points > 0 {
			to.Duration = time.Hour
		}
	}
	return nil
}

// checkWritable tells before a long run whether writeFile will find its directory.
func checkWritable(path string) error {
	if path == "" {
		return nil
	}
	file, err := createTemp(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func createTemp(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
}

// writeFile writes a file whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := createTemp(path)
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
