package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	"lineweir/internal/auth"
	"lineweir/internal/vfs"
)

type tokenCommands struct {
	Create tokenCreateCommand `cmd:"" help:"Make a token and print it, this once."`
	List   tokenListCommand   `cmd:"" help:"Print names and rights of all tokens."`
	Revoke tokenRevokeCommand `cmd:"" help:"Make a token worthless."`
}

// tokens returns the token file of the data directory that the settings choose, and the directory.
func (in *invocation) tokens() (file *auth.File, dir string, err error) {
	loaded, err := in.global.load()
	if err != nil {
		return nil, "", err
	}
	dir = loaded.Config.DataDir
	return auth.NewFile(vfs.OS, dir), dir, nil
}

type tokenCreateCommand struct {
	Name  string   `required:"" placeholder:"NAME" help:"What the token is called in lists, and when it is revoked."`
	Write []string `sep:"none" placeholder:"DB" help:"Database that it may write; can be repeated; * for all."`
	Read  []string `sep:"none" placeholder:"DB" help:"Database that it may read; can be repeated; * for all."`
	Admin bool     `help:"It may do everything."`
}

func (tokenCreateCommand) Help() string {
	return `The token is printed and nowhere kept: only its SHA-256 is. A running server takes it at once, without
a restart; the first token of a data directory turns authentication on. Clients send it as the password of
Basic, in the header Authorization as "Token ..." or "Bearer ...", or in the URL as p. A right to a database
is one to all its retention policies; db/policy is that one alone.

Examples:

	lineweir token create --name telegraf --write telegraf
	lineweir token create --name grafana --read telegraf --read logs/week
	lineweir token create --name operator --admin`
}

func (c tokenCreateCommand) Run(in *invocation) error {
	tokens, dir, err := in.tokens()
	if err != nil {
		return err
	}
	rights := auth.Rights{Admin: c.Admin}
	if rights.Write, err = auth.ParseDatabases(c.Write); err != nil {
		return err
	}
	if rights.Read, err = auth.ParseDatabases(c.Read); err != nil {
		return err
	}
	_, missing := os.Stat(dir)
	secret, err := tokens.Create(in.ctx, c.Name, rights)
	if err != nil {
		return err
	}
	if errors.Is(missing, fs.ErrNotExist) {
		fmt.Fprintf(in.stderr, "lineweir: the data directory %s was made for the token; no server has used it yet\n", dir)
	}
	_, err = fmt.Fprintln(in.stdout, secret)
	return err
}

type tokenListCommand struct{}

func (tokenListCommand) Run(in *invocation) error {
	tokens, _, err := in.tokens()
	if err != nil {
		return err
	}
	all, err := tokens.Tokens()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(in.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tADMIN\tWRITE\tREAD\tCREATED")
	for _, token := range all {
		admin := map[bool]string{true: "yes", false: "-"}[token.Rights.Admin]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", token.Name, admin, token.Rights.Write, token.Rights.Read,
			token.Created.UTC().Format(time.RFC3339))
	}
	return table.Flush() // which reports what failed before
}

type tokenRevokeCommand struct {
	Name string `arg:"" help:"Name of the token."`
}

func (tokenRevokeCommand) Help() string {
	return `A running server refuses the token at once, without a restart. Authentication stays on
when no token is left; to go on without it, remove the directory auth from the data directory while no
server runs.

Example:

	lineweir token revoke telegraf`
}

func (c tokenRevokeCommand) Run(in *invocation) error {
	tokens, _, err := in.tokens()
	if err != nil {
		return err
	}
	left, err := tokens.Revoke(in.ctx, c.Name)
	if err != nil {
		return err
	}
	if left == 0 {
		_, err = fmt.Fprintf(in.stdout, "%s is revoked; no token is left, and nobody is let in until there is one\n",
			c.Name)
		return err
	}
	_, err = fmt.Fprintf(in.stdout, "%s is revoked\n", c.Name)
	return err
}
