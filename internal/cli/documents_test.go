package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"lineweir/load/suite"
)

// The documents name every command and every flag, and every scenario of the suite.
func TestDocumentsNameCommandsAndFlags(t *testing.T) {
	var texts strings.Builder
	for _, path := range []string{"README.md", "docs/OPERATING.md", "docs/HTTP.md", "docs/LOAD.md"} {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		texts.Write(text)
	}
	documents := strings.Join(strings.Fields(texts.String()), " ")
	var parsed grammar
	parser := newParser(&parsed, t.Output(), t.Output(), func(int) {})
	all := spoken(parser.Model.Node)
	if len(all) < 50 {
		t.Fatalf("the command line has only %q", all)
	}
	for _, name := range suite.Names() {
		all = append(all, "`"+name+"`")
	}
	for _, one := range unspoken(documents, all) {
		t.Errorf("the documents do not name %s", one)
	}
	// What isn't there is missed, also where another name begins with it.
	without := regexp.MustCompile(`load suite|--json\b`).ReplaceAllString(documents, "")
	if got := strings.Join(unspoken(without, all), " "); got != "--json load suite" {
		t.Errorf("without two of them %q are missed", got)
	}
}

// spoken returns the commands below a node, as one writes them, and their flags.
func spoken(node *kong.Node) []string {
	var all []string
	for _, child := range node.Children {
		if path := strings.TrimPrefix(child.FullPath(), "lineweir "); len(child.Children) == 0 && !child.Hidden {
			all = append(all, path)
		}
		all = append(all, spoken(child)...)
	}
	for _, flag := range node.Flags {
		all = append(all, "--"+flag.Name)
	}
	return all
}

// unspoken returns those that a text doesn't have as whole words.
func unspoken(text string, all []string) []string {
	var missing []string
	seen := map[string]bool{}
	for _, one := range all {
		word := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(one) + `($|[^\w-])`)
		if !seen[one] && !word.MatchString(text) {
			missing = append(missing, one)
		}
		seen[one] = true
	}
	return missing
}
