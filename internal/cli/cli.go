package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"lineweir/internal/config"
)

// Exit statuses.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2 // the arguments made no sense, and nothing was done
)

// Commands are those that work on the engine or its files. Each ends early when its context does, and returns an
// error whose text an operator can act on.
type Commands struct {
	// Serve runs the server until the context ends, and then drains it.
	Serve func(ctx context.Context, loaded *config.Loaded) error
	// WALDump writes what the log in dir holds as line protocol.
	WALDump func(ctx context.Context, dir string, w io.Writer) error
	// Check verifies a data directory that no process uses, writes what it found, and fails if anything is damaged.
	Check func(ctx context.Context, dir string, w io.Writer) error
	// Repair makes a data directory that no process uses one that a server starts with, and writes what is lost. Unless
	// the loss is accepted it changes nothing, and fails if there is damage.
	Repair func(ctx context.Context, dir string, acceptLoss bool, w io.Writer) error
	// Scan writes what GET /api/scan with these parameters would answer, of a data directory that no process uses.
	Scan func(ctx context.Context, dir string, parameters url.Values, w io.Writer) error
	// Backup copies the data directory of a server that runs or not to an empty directory, and writes what it did.
	Backup func(ctx context.Context, dir, dest string, w io.Writer) error
}

// invocation is what a command gets beside its own arguments.
type invocation struct {
	ctx      context.Context // ends the command; here because a command's Run is called through reflection
	stdout   io.Writer
	stderr   io.Writer
	commands Commands
	global   *globalFlags
}

// Run executes the command that args (without the program's name) ask for, and returns the exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, commands Commands) int {
	var parsed grammar
	helped := false
	parser := newParser(&parsed, stdout, stderr, func(int) { helped = true })
	parsing, err := parser.Parse(args)
	if helped {
		return statusOK // help is printed while parsing, and what else the arguments say doesn't matter
	}
	if err != nil {
		report(stderr, fmt.Errorf("%w (lineweir --help explains the usage)", err))
		return statusUsage
	}
	err = parsing.Run(&invocation{
		ctx: ctx, stdout: stdout, stderr: stderr, commands: commands, global: &parsed.globalFlags,
	})
	if err != nil {
		report(stderr, err)
		return statusFailed
	}
	return statusOK
}

func newParser(parsed *grammar, stdout, stderr io.Writer, exit func(int)) *kong.Kong {
	parser, err := kong.New(parsed,
		kong.Name("lineweir"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100, NoAppDescFormat: true}),
	)
	if err != nil {
		panic(fmt.Sprintf("BUG: the grammar of the command line: %v", err))
	}
	return parser
}

// report writes an error, a line for each problem it holds.
func report(stderr io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "lineweir: %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// load reads the configuration that the global flags and the environment ask for.
func (g *globalFlags) load() (*config.Loaded, error) {
	source := config.Source{File: g.Config, Environment: os.Environ(), Settings: g.Set}
	// The named flags come after --set: who writes one of them means it.
	if g.Listen != nil {
		source.Settings = append(source.Settings, "http.listen="+*g.Listen)
	}
	if g.DataDir != nil {
		source.Settings = append(source.Settings, "data_dir="+*g.DataDir)
	}
	return config.Load(source, config.ThisMachine())
}
