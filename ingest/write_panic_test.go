package ingest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// panicVariable tells a copy of the test binary to panic in the middle of a write.
const panicVariable = "INGEST_TEST_PANIC_IN_WRITE"

// TestAPanicWhileAWriteIsMadeDurableEndsTheProcess runs a server in a process of its own.
func TestAPanicWhileAWriteIsMadeDurableEndsTheProcess(t *testing.T) {
	if os.Getenv(panicVariable) != "" {
		panicInWrite(t)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	// The child has no time to remove its directory, so that is in one of the parent.
	command.Env = append(os.Environ(), panicVariable+"=1", "TMPDIR="+t.TempDir())
	output, err := command.CombinedOutput()
	if err == nil || command.ProcessState.ExitCode() != 2 {
		t.Errorf("got %v, want exit status 2", err)
	}
	if text := string(output); !strings.Contains(text, "half-applied, while a write was made durable") ||
		!strings.Contains(text, "panicInWrite") || strings.Contains(text, "answered") {
		t.Errorf("output:\n%s", text)
	}
}

func panicInWrite(t *testing.T) {
	h := newTestHandler(t)
	fake(h).write = func() error { panic("half-applied") }
	server := httptest.NewServer(h)
	defer server.Close()
	_, err := http.Post(server.URL+"/write?db=d", "", strings.NewReader("m v=1i 1"))
	t.Errorf("answered: %v", err)
}
