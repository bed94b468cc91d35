package deptest

import (
	"go/ast"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	functionLinesMax = 70
	fileLinesMax     = 500
	lineColumnsMax   = 120
)

// Small grain is what keeps a storage engine readable. Tests are not measured: a long table is no complexity.
func TestSizes(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.isTest() {
			continue
		}
		checkLines(t, file)
		for _, declaration := range file.syntax.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				checkFunction(t, file, function)
			}
		}
	}
}

func checkLines(t *testing.T, file *sourceFile) {
	t.Helper()
	number := 0
	for line := range strings.Lines(file.text) {
		number++
		if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > lineColumnsMax {
			t.Errorf("%s:%d: the line has %d columns, at most %d are allowed", file.path, number, columns, lineColumnsMax)
		}
	}
	if number > fileLinesMax {
		t.Errorf("%s has %d lines, at most %d are allowed", file.path, number, fileLinesMax)
	}
}

func checkFunction(t *testing.T, file *sourceFile, function *ast.FuncDecl) {
	t.Helper()
	first, last := file.positions.Position(function.Pos()), file.positions.Position(function.End())
	if lines := last.Line - first.Line + 1; lines > functionLinesMax {
		t.Errorf("%s: %s has %d lines, at most %d are allowed", first, function.Name.Name, lines, functionLinesMax)
	}
}
