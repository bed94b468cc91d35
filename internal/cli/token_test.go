package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTokens(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("LINEWEIR_DATA_DIR", "data")
	const made = "lineweir: the data directory DIR was made for the token; no server has used it yet\n"
	created := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	secret := regexp.MustCompile(`\blw_[A-Za-z0-9_-]{43}\b`)
	for _, test := range []struct {
		args string
		want outcome
	}{
		{"token list", outcome{0, "NAME  ADMIN  WRITE  READ  CREATED\n", ""}},
		{"token create --name agent --write telegraf --write logs/week", outcome{0, "SECRET\n",
			strings.Replace(made, "DIR", "data", 1)}},
		{"token create --name all --write * --read *", outcome{0, "SECRET\n", ""}},
		{"token create --admin --name root", outcome{0, "SECRET\n", ""}},
		{"token create --name elsewhere --admin --data-dir other", outcome{0, "SECRET\n",
			strings.Replace(made, "DIR", "other", 1)}},
		{"token list", outcome{0, "NAME   ADMIN  WRITE               READ  CREATED\n" +
			"agent  -      logs/week,telegraf  -     TIME\n" +
			"all    -      *                   *     TIME\n" +
			"root   yes    -                   -     TIME\n", ""}},
		{"token create --name agent --admin", outcome{1, "", "lineweir: create token agent: " +
			"there is a token of this name already\n"}},
		{"token create --name useless", outcome{1, "", "lineweir: the token can't be made: " +
			"it needs a right: to read or to write a database, or admin\n"}},
		{"token create --name a --write x/autogen", outcome{1, "", "lineweir: the token can't be made: " +
			"the database \"x/autogen\" is called \"x\" alone\n"}},
		{"token create --admin", outcome{2, "", "lineweir: missing flags: --name=NAME (lineweir --help explains the usage)\n"}},
		{"token revoke nobody", outcome{1, "", "lineweir: revoke token nobody: there is no token of this name\n"}},
		{"token revoke agent", outcome{0, "agent is revoked\n", ""}},
		{"token revoke all", outcome{0, "all is revoked\n", ""}},
		{"token revoke root", outcome{0, "root is revoked; no token is left, and nobody is let in until there is one\n", ""}},
		{"token list", outcome{0, "NAME  ADMIN  WRITE  READ  CREATED\n", ""}},
	} {
		got := run(t, nil, strings.Fields(test.args)...)
		got.Stdout = secret.ReplaceAllString(created.ReplaceAllString(got.Stdout, "TIME"), "SECRET")
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
	if _, err := os.Stat("other/auth/tokens"); err != nil {
		t.Error(err)
	}
}
