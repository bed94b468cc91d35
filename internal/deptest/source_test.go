package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	module     = "lineweir"
	moduleRoot = "../.."
)

// sourceFile is one Go file of the module.
type sourceFile struct {
	path      string // relative to the root of the module
	directory string // of path; "." is the command itself
	text      string
	syntax    *ast.File
	positions *token.FileSet
}

func (f *sourceFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// goFiles parses all Go files of the module, those of its tests included. Directories named testdata may hold other
// modules, and hidden ones none of ours.
func goFiles(t *testing.T) []*sourceFile {
	t.Helper()
	var files []*sourceFile
	err := filepath.WalkDir(moduleRoot, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != moduleRoot && (name == "testdata" || name == "node_modules" || name[0] == '.') {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		file, err := parseFile(path)
		if err != nil {
			return err
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no Go file")
	}
	return files
}

func parseFile(path string) (*sourceFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(moduleRoot, path)
	if err != nil {
		return nil, err
	}
	relative = filepath.ToSlash(relative)
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, relative, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	return &sourceFile{
		path: relative, directory: filepath.ToSlash(filepath.Dir(relative)),
		text: string(text), syntax: syntax, positions: positions,
	}, nil
}
