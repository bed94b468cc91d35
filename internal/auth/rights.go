package auth

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Action is what a client does with a database.
type Action uint8

// The actions. A token may have the right to one and not to the other.
const (
	Read Action = iota + 1
	Write
)

func (a Action) String() string {
	if a == Read {
		return "read"
	}
	return "write"
}

// Rights say what a token is good for. The zero value is good for nothing.
type Rights struct {
	Admin bool // everything: all databases, and the server itself
	Read  Databases
	Write Databases

	Token string // name of the token that Verify found them by; not stored with them
}

// Anyone is what a client may do while authentication is off: everything.
func Anyone() *Rights { return &Rights{Admin: true} }

// Allows tells whether the action is allowed on a database.
func (r *Rights) Allows(action Action, database string) bool {
	return r.Admin || r.of(action).cover(database)
}

// AllowsSome tells whether the action is allowed on any database at all.
func (r *Rights) AllowsSome(action Action) bool {
	d := r.of(action)
	return r.Admin || d.All || len(d.Names) > 0
}

// IsZero tells whether the rights are good for nothing.
func (r *Rights) IsZero() bool { return !r.AllowsSome(Read) && !r.AllowsSome(Write) }

func (r *Rights) of(action Action) *Databases {
	switch action {
	case Read:
		return &r.Read
	case Write:
		return &r.Write
	default:
		panic(fmt.Sprintf("BUG: unknown action %d", action))
	}
}

// Databases are those that a right is for.
type Databases struct {
	All   bool
	Names []string // ascending; empty if All
}

// AllDatabases is how a command names all of them.
const AllDatabases = "*"

// cover tells whether a database is among them. A name stands for its retention policies too: "db" covers "db/rp", as
// rights in InfluxDB do, and "db/rp" covers itself alone.
func (d *Databases) cover(database string) bool {
	if d.All {
		return true
	}
	whole, _, _ := strings.Cut(database, "/")
	return slices.Contains(d.Names, database) || slices.Contains(d.Names, whole)
}

// String lists the databases as a command would name them.
func (d Databases) String() string {
	switch {
	case d.All:
		return AllDatabases
	case len(d.Names) == 0:
		return "-"
	default:
		return strings.Join(d.Names, ",")
	}
}

// ParseDatabases reads what a command was given, each the name of a database or AllDatabases. Errors are ErrInvalid.
func ParseDatabases(given []string) (Databases, error) {
	if slices.Contains(given, AllDatabases) {
		return Databases{All: true}, nil
	}
	names := slices.Clone(given)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > databasesMax {
		return Databases{}, invalid("%d databases are more than %d; use %s for all", len(names), databasesMax, AllDatabases)
	}
	for _, name := range names {
		if reason := wrongDatabase(name); reason != "" {
			return Databases{}, invalid("the database %q %s", name, reason)
		}
	}
	return Databases{Names: names}, nil
}

// wrongDatabase says why no database can have the name, or "". A name that writes never use would be a right to
// nothing, so the spellings of the default retention policy are refused.
func wrongDatabase(name string) string {
	whole, policy, divided := strings.Cut(name, "/")
	switch {
	case len(name) == 0:
		return "has no name"
	case len(name) > nameBytesMax:
		return fmt.Sprintf("has a name of more than %d bytes", nameBytesMax)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "has bytes in its name that are no text"
	case whole == "" || strings.Contains(policy, "/"):
		return "is neither a database nor a database/retention-policy"
	case divided && slices.Contains([]string{"", "autogen", "default"}, policy):
		return fmt.Sprintf("is called %q alone", whole)
	}
	return ""
}

func invalid(format string, arguments ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, arguments...)...)
}
