package cli

import "lineweir/load/suite"

type loadBenchmarksCommand struct {
	Dir string `arg:"" name:"dir" type:"existingdir" help:"Records of the suite, and reports of servers."`
}

func (loadBenchmarksCommand) Help() string {
	return `Prints a document in Markdown: the gates with their figures, and what several servers did with the same
load. It is made of suite-SCENARIO.json, which load suite --json writes, and peer-RUN-SERVER.json, which load --json
writes.

Example:

	lineweir load benchmarks docs/benchmarks > docs/BENCHMARKS.md`
}

func (c loadBenchmarksCommand) Run(in *invocation) error {
	return suite.WriteBenchmarks(in.stdout, c.Dir)
}
