package cli

import (
	"bufio"
	"fmt"

	"lineweir/internal/config"
)

type serveCommand struct{}

func (serveCommand) Run(in *invocation) error {
	loaded, err := in.global.load()
	if err != nil {
		return err
	}
	return in.commands.Serve(in.ctx, loaded)
}

type walDumpCommand struct {
	Dir string `arg:"" name:"dir" help:"The directory of the log: wal in a data directory."`
}

func (walDumpCommand) Help() string {
	return `The log is only read. Points that were flushed to Parquet may be gone from it; what is left is written
in the order in which it was acknowledged.

Example:

	lineweir wal dump ./data/wal > rescued.lp`
}

func (c walDumpCommand) Run(in *invocation) error {
	out := bufio.NewWriter(in.stdout)
	if err := in.commands.WALDump(in.ctx, c.Dir, out); err != nil {
		_ = out.Flush() // what could be read is worth having, and the first error is the one to tell
		return err
	}
	return out.Flush()
}

type checkCommand struct {
	Dir string `arg:"" name:"dir" help:"The data directory."`
}

func (checkCommand) Help() string {
	return `No server may use the directory meanwhile. Nothing is changed, and it need not be writable. The exit
status is 1 if anything is damaged.

Example:

	lineweir check ./data`
}

func (c checkCommand) Run(in *invocation) error {
	return in.commands.Check(in.ctx, c.Dir, in.stdout)
}

type repairCommand struct {
	Dir        string `arg:"" name:"dir" help:"The data directory."`
	AcceptLoss bool   `help:"Do it. Without this flag nothing is changed."`
}

func (repairCommand) Help() string {
	return `Says what is damaged and what would be lost, and changes nothing, unless --accept-loss is given. Then
files that are damaged are moved to quarantine in the data directory, never deleted, and a server starts
with what is left. No server may use the directory meanwhile. A repair that was interrupted goes on where
it was. The exit status is 1 if there is damage and it was not repaired.

Example:

	lineweir repair ./data
	lineweir repair --accept-loss ./data`
}

func (c repairCommand) Run(in *invocation) error {
	return in.commands.Repair(in.ctx, c.Dir, c.AcceptLoss, in.stdout)
}

type backupCommand struct {
	Dir  string `arg:"" name:"dir" help:"The data directory. A server may use it."`
	Dest string `arg:"" name:"dest" help:"Where the copy goes: a directory that is empty or doesn't exist."`
}

func (backupCommand) Help() string {
	return `The copy holds all that was acknowledged when the command began, tokens included. Segments are hard
links where DEST is on the same file system, and copies elsewhere. A server starts from DEST as it is.
A DEST with a file INCOMPLETE is not whole, and no server starts from it.

Example:

	lineweir backup ./data /backup/2026-01-31 && lineweir check /backup/2026-01-31`
}

func (c backupCommand) Run(in *invocation) error {
	return in.commands.Backup(in.ctx, c.Dir, c.Dest, in.stdout)
}

type configCheckCommand struct {
	File string `arg:"" name:"file" help:"The configuration file."`
}

func (configCheckCommand) Help() string {
	return `The file is judged by itself, without flags and environment, for the CPUs and the memory of this
machine.

Example:

	lineweir config check config.yaml`
}

func (c configCheckCommand) Run(in *invocation) error {
	if _, err := config.Load(config.Source{File: c.File}, config.ThisMachine()); err != nil {
		return err
	}
	_, err := fmt.Fprintf(in.stdout, "%s: nothing is wrong\n", c.File)
	return err
}

type configDefaultCommand struct{}

func (configDefaultCommand) Help() string {
	return `Example:

	lineweir config default > config.yaml`
}

func (configDefaultCommand) Run(in *invocation) error {
	return config.WriteDefault(in.stdout)
}
