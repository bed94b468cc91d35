package deptest

import (
	"path"
	"strings"
	"testing"
)

// Every package explains itself in its doc.go; the command does so in main.go, the only Go file at the top.
func TestEveryPackageExplainsItself(t *testing.T) {
	explained := make(map[string]bool)
	for _, file := range goFiles(t) {
		place := "doc.go"
		if file.directory == "." {
			place = "main.go"
		}
		text := file.syntax.Doc.Text()
		explains := path.Base(file.path) == place && explainsPackage(text, file.syntax.Name.Name)
		explained[file.directory] = explained[file.directory] || explains
		if path.Base(file.path) != place && text != "" {
			t.Errorf("%s: the comment of the package belongs into %s", file.path, place)
		}
	}
	for directory, explains := range explained {
		if !explains {
			t.Errorf("%s: no comment explains the package; write it into %s/doc.go", directory, directory)
		}
	}
}

// explainsPackage tells whether a comment begins as godoc wants it and says more than a title.
func explainsPackage(text, name string) bool {
	begin := "Package " + name + " "
	if name == "main" {
		begin = "Lineweir "
	}
	const wordsMin = 20
	return strings.HasPrefix(text, begin) && len(strings.Fields(text)) >= wordsMin
}
