package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// variant builds a lineweir in which one piece of a source file is replaced: a protection is taken away, and the test
// that it is for must fail. It returns the path of the binary.
func variant(t *testing.T, file, old, new string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(root, filepath.FromSlash(file))
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), old); n != 1 {
		t.Fatalf("%s has %d times %s, want once", file, n, old)
	}
	directory := t.TempDir()
	changed := filepath.Join(directory, filepath.Base(file))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(directory, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(directory, "lineweir")
	if err := command("go", "build", "-C", root, "-overlay", list, "-o", binary, "."); err != nil {
		t.Fatal(err)
	}
	return binary
}
