package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// scratch holds what the tests of one process share: binaries and installed packages.
var scratch string

func TestMain(m *testing.M) {
	playRole()
	dir, err := os.MkdirTemp("", "lineweir-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// lineweir builds the server once and returns its path.
var lineweir = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "lineweir")
	return path, command("go", "build", "-C", filepath.Join("..", ".."), "-o", path, ".")
})

// command runs a tool to its end; its error holds what the tool printed.
func command(name string, arguments ...string) error {
	return run(exec.Command(name, arguments...))
}

func run(cmd *exec.Cmd) error {
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, output)
	}
	return nil
}

// fetch runs a tool that may ask a registry, three times if need be: a bad moment of the network is no fault of the
// product, and what was fetched already is kept.
func fetch(environment []string, name string, arguments ...string) error {
	var err error
	for range 3 {
		cmd := exec.Command(name, arguments...)
		cmd.Env = append(os.Environ(), environment...)
		if err = run(cmd); err == nil {
			return nil
		}
	}
	return err
}

// installNode copies a package of Node.js and installs what its lock file pins, and returns the directory of the copy.
func installNode(name, from string) (string, error) {
	if err := found("node", "npm"); err != nil {
		return "", err
	}
	dir := filepath.Join(scratch, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue // node_modules of a developer
		}
		if err := copyFile(filepath.Join(dir, entry.Name()), filepath.Join(from, entry.Name())); err != nil {
			return "", err
		}
	}
	return dir, fetch(nil, "npm", "ci", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund")
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// outside skips what can't be tested here: children gain nothing from the race detector, and Windows has no SIGTERM.
func outside(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector doesn't see into child processes")
	}
	if runtime.GOOS == "windows" {
		t.Skip("the tests stop their servers with SIGTERM, which Windows lacks")
	}
}

// require skips the test if err says why the tool can't be had, and fails it if LINEWEIR_REQUIRE names the tool.
func require(t *testing.T, tool string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if required(tool) {
		t.Fatalf("LINEWEIR_REQUIRE names %s, which can't be had: %v", tool, err)
	}
	t.Skipf("no %s: %v", tool, err)
}

func required(tool string) bool {
	return slices.Contains(strings.Split(os.Getenv("LINEWEIR_REQUIRE"), ","), tool)
}

// found returns nil if the machine has every one of the programs.
func found(names ...string) error {
	var missing []error
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, err)
		}
	}
	return errors.Join(missing...)
}
