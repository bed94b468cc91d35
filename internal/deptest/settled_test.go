package deptest

import (
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lineweir/internal/config"
)

// A setting that nothing reads is a promise to operators that nobody keeps. A setting counts as read where a file that
// imports the configuration names its field, with its section: loaded.Config.Memtable.MaxBytes.
func TestEverySettingIsRead(t *testing.T) {
	writers := []string{"internal/config", "internal/cli"} // what they name, they set
	read := make(map[string]bool)
	for _, file := range goFiles(t) {
		reads := imports(file, module+"/internal/config") && !slices.Contains(writers, file.directory)
		if file.isTest() || !reads {
			continue
		}
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok {
				read[selector.Sel.Name] = true
				if section, ok := selector.X.(*ast.SelectorExpr); ok {
					read[section.Sel.Name+"."+selector.Sel.Name] = true
				}
			}
			return true
		})
	}
	for _, field := range settings("", reflect.TypeFor[config.Config]()) {
		if !read[field] {
			t.Errorf("nothing reads the setting config.Config.%s", field)
		}
	}
}

// settings lists the leaves of the configuration as they are selected.
func settings(prefix string, structure reflect.Type) []string {
	var fields []string
	for field := range structure.Fields() {
		if field.Type.Kind() == reflect.Struct {
			fields = append(fields, settings(field.Name+".", field.Type)...)
			continue
		}
		fields = append(fields, prefix+field.Name)
	}
	return fields
}

// An edge that nothing uses allows what nobody has thought about since.
func TestEveryEdgeIsUsed(t *testing.T) {
	files := slices.DeleteFunc(goFiles(t), (*sourceFile).isTest)
	for _, e := range projectEdges {
		if !anyImports(files, e.from, module+"/"+e.to) {
			t.Errorf("%s → %s isn't used: drop the rule", e.from, e.to)
		}
	}
	for _, e := range moduleEdges {
		if !anyImports(files, e.from, e.to) {
			t.Errorf("%s → %s isn't used: drop the rule", e.from, e.to)
		}
	}
}

func anyImports(files []*sourceFile, directory, path string) bool {
	return slices.ContainsFunc(files, func(file *sourceFile) bool {
		return file.directory == directory && imports(file, path)
	})
}

// imports tells whether a file imports a package, or one below it.
func imports(file *sourceFile, path string) bool {
	return slices.ContainsFunc(file.syntax.Imports, func(spec *ast.ImportSpec) bool {
		imported, err := strconv.Unquote(spec.Path.Value)
		return err == nil && (imported == path || strings.HasPrefix(imported, path+"/"))
	})
}
