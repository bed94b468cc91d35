package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSIGTERMReplaysNothing requires that a drained server left nothing to replay, however often it is started.
func TestSIGTERMReplaysNothing(t *testing.T) {
	outside(t)
	dataDir := t.TempDir()
	lines := knownLines(0, 5000)
	want, err := parsePoints(lines)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, dataDir, "compaction.max_bytes_per_second=1")
	s.write(t, "weir", lines)
	same(t, "before SIGTERM", s.scan(t, "weir", "known"), want)
	s.stop(t)

	segments := s.files(t, "l0", "l1")
	for range 2 {
		s = start(t, dataDir, "compaction.max_bytes_per_second=1")
		if got := s.status(t).Recovery; got.FramesReplayed != 0 || got.RowsReplayed != 0 {
			t.Errorf("a start after SIGTERM replayed %d frames, %d rows", got.FramesReplayed, got.RowsReplayed)
		}
		same(t, "after SIGTERM", s.scan(t, "weir", "known"), want)
		s.stop(t)
		if got := s.files(t, "l0", "l1"); !slices.Equal(got, segments) {
			t.Errorf("a start without a write turned the segments %v into %v", segments, got)
		}
	}
}

// TestSecondProcessIsRefused requires that one data directory has one process, and that the refused one harms nothing.
func TestSecondProcessIsRefused(t *testing.T) {
	outside(t)
	dataDir := t.TempDir()
	first := start(t, dataDir)
	lines := knownLines(0, 10)
	first.write(t, "weir", lines)
	refusesToStart(t, anyPort, dataDir, dataDir)
	if got := first.count(t, "weir", "known"); got != 10 {
		t.Errorf("the first process has %d points, want 10", got)
	}
	first.stop(t)
}

func TestPortInUse(t *testing.T) {
	outside(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().String()
	refusesToStart(t, address, t.TempDir(), address)
}

// TestDataDirectoryCannotBeMade puts a file in the way, which stops root too.
func TestDataDirectoryCannotBeMade(t *testing.T) {
	outside(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, anyPort, filepath.Join(file, "data"), file)
}

func TestDataDirectoryWithoutPermission(t *testing.T) {
	outside(t)
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dataDir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dataDir, 0o500); err != nil {
		t.Fatal(err)
	}
	refusesToStart(t, anyPort, dataDir, dataDir)
}

// refusesToStart requires exit status 1 and one clear line that names the culprit.
func refusesToStart(t *testing.T, address, dataDir, culprit string) {
	t.Helper()
	s := launch(t, address, dataDir)
	if code := s.wait(t, stopLimit); code != 1 {
		t.Errorf("lineweir exited with status %d, want 1", code)
	}
	printed := s.printed(t)
	named := 0
	for line := range strings.Lines(printed) {
		if strings.Contains(line, culprit) && isFailure(line) {
			named++
		}
	}
	if named != 1 || strings.Contains(printed, "goroutine ") {
		t.Errorf("%d lines tell that %s is the trouble, want one:\n%s", named, culprit, printed)
	}
}

// isFailure tells an error from the news of a normal start.
func isFailure(line string) bool {
	return strings.HasPrefix(line, "lineweir: ") || strings.Contains(line, `"level":"error"`) ||
		strings.Contains(line, `"level":"fatal"`)
}
