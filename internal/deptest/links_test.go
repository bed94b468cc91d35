package deptest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every link inside the repository leads to a file or directory, and to a heading where it names one; and every
// document can be reached from README.md.
func TestLinksLeadSomewhere(t *testing.T) {
	texts := markdown(t)
	stat := func(file string) error {
		_, err := os.Stat(filepath.Join(moduleRoot, filepath.FromSlash(file)))
		return err
	}
	for _, problem := range badLinks(texts, stat) {
		t.Error(problem)
	}
	reached := map[string]bool{}
	reach(texts, "README.md", reached)
	for file := range texts {
		if !reached[file] {
			t.Errorf("no link leads from README.md to %s", file)
		}
	}
}

// The same finds each kind of link that leads nowhere.
func TestBadLinksAreFound(t *testing.T) {
	texts := map[string]string{
		"a.md": "# One `two`, three\n## Same\n## Same\n[1](d/b.md#b) [2](#one-two-three) [3](#same-1) [4](d) " +
			"[5](https://example.org/x#y) `[6](nowhere)`\n```text\n[7](nowhere)\n# Fenced\n```\n",
		"d/b.md": "# B\n[8](../a.md#same)\n",
	}
	stat := func(file string) error {
		if file != "d" && texts[file] == "" {
			return fs.ErrNotExist
		}
		return nil
	}
	if problems := badLinks(texts, stat); len(problems) > 0 {
		t.Errorf("links that lead somewhere: %v", problems)
	}
	for _, link := range []string{"b.md", "d/c.md", "#two", "#same-2", "#fenced", "d/b.md#same", "d#b", "../a.md"} {
		broken := maps.Clone(texts)
		broken["a.md"] += "[9](" + link + ")\n"
		if problems := badLinks(broken, stat); len(problems) != 1 {
			t.Errorf("%s: got %v", link, problems)
		}
	}
	reached := map[string]bool{}
	reach(texts, "d/b.md", reached)
	if !reached["a.md"] || len(reached) != 2 {
		t.Errorf("reached %v", reached)
	}
	delete(reached, "a.md")
	reach(map[string]string{"a.md": "no link", "d/b.md": "# B"}, "a.md", reached)
	if !reached["a.md"] {
		t.Errorf("reached %v", reached)
	}
}

// The README shows rows of docs/BENCHMARKS.md as they stand there, which is made anew by a command.
func TestTheREADMEsFiguresAreThoseMeasured(t *testing.T) {
	texts := markdown(t)
	_, section, found := strings.Cut(texts["README.md"], "\n## Measured\n")
	section, _, ended := strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| .*$`).FindAllString(section, -1)
	if !found || !ended || len(rows) < 8 {
		t.Fatalf("the README's section Measured has %d rows", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(texts["docs/BENCHMARKS.md"], "\n"+row+"\n") {
			t.Errorf("docs/BENCHMARKS.md has no longer this row of README.md; take the new one over:\n%s", row)
		}
	}
}

// markdown returns the texts of all documents, by path from the root of the module.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(moduleRoot, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && file != moduleRoot && (name == "testdata" || name == "node_modules" || name[0] == '.') {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(moduleRoot, file)
		texts[filepath.ToSlash(relative)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// link is one inside the repository: a path from its root, and a heading or "".
type link struct{ path, heading string }

// badLinks returns the links of documents that lead nowhere. stat tells of a path from the root whether it is there.
func badLinks(texts map[string]string, stat func(string) error) []string {
	var problems []string
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		for _, to := range linksOf(file, texts[file]) {
			if err := stat(to.path); err != nil {
				problems = append(problems, fmt.Sprintf("%s links to %s: %v", file, to.path, err))
				continue
			}
			if to.heading != "" && !slices.Contains(headings(texts[to.path]), to.heading) {
				problems = append(problems, fmt.Sprintf("%s links to the heading #%s, which %s lacks",
					file, to.heading, to.path))
			}
		}
	}
	return problems
}

// reach notes the documents that links lead to from a file.
func reach(texts map[string]string, file string, reached map[string]bool) {
	if _, isDocument := texts[file]; !isDocument || reached[file] {
		return
	}
	reached[file] = true
	for _, to := range linksOf(file, texts[file]) {
		reach(texts, to.path, reached)
	}
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	target      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingLine = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
)

// linksOf returns the links of a document to what is in the repository.
func linksOf(file, text string) []link {
	var links []link
	text = codeSpan.ReplaceAllString(fencedBlock.ReplaceAllString(text, ""), "")
	for _, match := range target.FindAllStringSubmatch(text, -1) {
		if strings.Contains(match[1], "://") {
			continue
		}
		to, heading, _ := strings.Cut(match[1], "#")
		if to == "" {
			to = path.Base(file)
		}
		links = append(links, link{path.Join(path.Dir(file), to), heading})
	}
	return links
}

// headings returns the anchors of a document as GitHub makes them: lower case, spaces as hyphens, without what is
// neither letter, digit, hyphen nor underscore, and numbered from the second of the same on.
func headings(text string) []string {
	var anchors []string
	seen := map[string]int{}
	notInAnchors := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, match := range headingLine.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		anchor := strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")
		if seen[anchor]++; seen[anchor] > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, seen[anchor]-1)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}
