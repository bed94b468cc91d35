package auth

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// databases parses names that are right.
func databases(t testing.TB, names ...string) Databases {
	t.Helper()
	d, err := ParseDatabases(names)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRights(t *testing.T) {
	agent := Rights{Write: databases(t, "metrics")}
	reader := Rights{Read: databases(t, "metrics", "logs/week")}
	writeAll := Rights{Write: databases(t, "x", "*")}
	for _, tc := range []struct {
		name     string
		rights   Rights
		action   Action
		database string
		want     bool
	}{
		{"its database", agent, Write, "metrics", true},
		{"a retention policy of it", agent, Write, "metrics/week", true},
		{"the other action", agent, Read, "metrics", false},
		{"another database", agent, Write, "metrics2", false},
		{"another database", agent, Write, "metric", false},
		{"no database", agent, Write, "", false},
		{"one retention policy", reader, Read, "logs/week", true},
		{"another retention policy", reader, Read, "logs/day", false},
		{"the default retention policy", reader, Read, "logs", false},
		{"the second of two", reader, Read, "metrics", true},
		{"all databases", writeAll, Write, "anything/at all", true},
		{"all databases, the other action", writeAll, Read, "anything", false},
		{"admin", Rights{Admin: true}, Read, "anything", true},
		{"admin", Rights{Admin: true}, Write, "anything", true},
		{"nothing", Rights{}, Read, "metrics", false},
	} {
		if got := tc.rights.Allows(tc.action, tc.database); got != tc.want {
			t.Errorf("%s: %s %q: got %v, want %v", tc.name, tc.action, tc.database, got, tc.want)
		}
	}
}

func TestRightsOnSomeDatabase(t *testing.T) {
	for _, tc := range []struct {
		rights      Rights
		read, write bool
	}{
		{Rights{}, false, false},
		{Rights{Admin: true}, true, true},
		{Rights{Read: databases(t, "a")}, true, false},
		{Rights{Write: databases(t, "*")}, false, true},
	} {
		read, write := tc.rights.AllowsSome(Read), tc.rights.AllowsSome(Write)
		if read != tc.read || write != tc.write || tc.rights.IsZero() == (read || write) {
			t.Errorf("%+v: got %v, %v, want %v, %v", tc.rights, read, write, tc.read, tc.write)
		}
	}
}

func TestParseDatabases(t *testing.T) {
	for _, tc := range []struct {
		given []string
		want  string
		fault string
	}{
		{nil, "-", ""},
		{[]string{"b", "a", "b"}, "a,b", ""},
		{[]string{"a", "*"}, "*", ""},
		{[]string{"a/week", "é b"}, "a/week,é b", ""},
		{[]string{strings.Repeat("x", nameBytesMax)}, strings.Repeat("x", nameBytesMax), ""},
		{[]string{strings.Repeat("x", nameBytesMax+1)}, "-", "more than 255 bytes"},
		{[]string{""}, "-", "has no name"},
		{[]string{"a/b/c"}, "-", "neither a database"},
		{[]string{"/week"}, "-", "neither a database"},
		{[]string{"a/"}, "-", `is called "a" alone`},
		{[]string{"a/autogen"}, "-", `is called "a" alone`},
		{[]string{"a/default"}, "-", `is called "a" alone`},
		{[]string{"a\nb"}, "-", "no text"},
		{[]string{"a\xff"}, "-", "no text"},
		{make([]string, databasesMax), "-", "has no name"},
		{manyNames(databasesMax), strings.Join(manyNames(databasesMax), ","), ""},
		{manyNames(databasesMax + 1), "-", "more than 1000"},
	} {
		got, err := ParseDatabases(tc.given)
		if got.String() != tc.want || (err == nil) != (tc.fault == "") ||
			err != nil && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("%.60s: got %.60s, %v, want %.60s, %s", fmt.Sprint(tc.given), got.String(), err, tc.want, tc.fault)
		}
	}
}

// manyNames returns ascending names.
func manyNames(count int) []string {
	names := make([]string, 0, count)
	for i := range count {
		names = append(names, fmt.Sprintf("database%04d", i))
	}
	return names
}

func TestRedact(t *testing.T) {
	secret := newSecret()
	for text, want := range map[string]string{
		"":                                    "",
		"lw_temperature is no secret":         "lw_temperature is no secret",
		secret:                                "lw_…",
		`the database "` + secret + `"`:       `the database "lw_…"`,
		"v=" + secret + ",w=" + secret + " 1": "v=lw_…,w=lw_… 1",
		secret[:30] + "…":                     "lw_……", // cut off where the text was too long
	} {
		if got := Redact(text); got != want || Redact(got) != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
