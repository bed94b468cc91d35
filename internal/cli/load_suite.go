package cli

import (
	"fmt"
	"os"

	"lineweir/load/suite"
)

type loadSuiteCommand struct {
	Short bool     `help:"Some seconds each; gates that a busy machine can spoil are shown and not judged."`
	Only  []string `placeholder:"NAME" help:"Run only these scenarios; can be repeated."`
	JSON  string   `name:"json" placeholder:"DIR" help:"Write what each scenario measured into this directory."`
	Seed  uint64   `default:"1" help:"Of what is written."`
}

func (loadSuiteCommand) Help() string {
	return `For each scenario a server of this very program is started on 127.0.0.1, with its data in a temporary directory
(TMPDIR), loaded, stopped and removed. The drain is limited, so that the tier is what holds writes back. All of it takes
about ten minutes and wants the machine for itself. The exit status is 0 if every gate was passed, 1 if one was missed,
2 if the arguments make no sense.

Scenarios: maximum, overload, fits, recovery, metastability, fairness, refusals, memory.

Examples:

	lineweir load suite
	lineweir load suite --short
	lineweir load suite --only overload --only fits --json figures`
}

// Validate is called while the arguments are parsed.
func (c loadSuiteCommand) Validate() error {
	o := suite.Options{Only: c.Only, Dir: c.JSON}
	return o.Validate()
}

func (c loadSuiteCommand) Run(in *invocation) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	progress := newProgressLine(in.stderr)
	err = suite.Run(in.ctx, suite.Options{
		Binary: binary, Version: "lineweir " + Version(), Short: c.Short, Only: c.Only, Dir: c.JSON, Seed: c.Seed,
		Out: in.stdout, Progress: progress.show,
	})
	progress.clear()
	return err
}
