package e2e

import (
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCurlRetryThroughAShutGate lets curl be refused, come back when it was told to, and be accepted.
func TestCurlRetryThroughAShutGate(t *testing.T) {
	outside(t)
	require(t, "curl", found("curl"))

	settings := append(slices.Clone(tinyTier), "admission.retry_after_min=3s", "admission.retry_after_max=3s")
	s := start(t, t.TempDir(), settings...)
	s.drain(t, true)
	accepted, refused := fillTier(t, s)
	curl := startProcess(t, exec.Command("curl", "--no-progress-meter", "--retry", "9",
		"--write-out", "last status %{http_code}\n", "--data-binary", refused, "http://"+s.address+"/write?db=weir"))
	eventually(t, time.Minute, "curl is told to come back after 3 seconds", func() bool {
		return regexp.MustCompile(`Will retry in 3(\.0+)? second`).MatchString(curl.printed(t))
	})
	told := time.Now()
	s.drain(t, false)
	if code := curl.wait(t, time.Minute); code != 0 {
		t.Fatalf("curl exited with status %d", code)
	}
	if waited := time.Since(told); waited < 2900*time.Millisecond {
		t.Errorf("curl was done %v after it was told to wait 3 seconds", waited)
	}
	if printed := curl.printed(t); !strings.HasSuffix(printed, "last status 204\n") {
		t.Errorf("curl printed %q, want 204 as its last status", printed)
	}
	want, err := parsePoints(accepted + refused)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "after the retry", s.scan(t, "weir", "known"), want)
	if got := s.status(t).Tier; got.HighestBytes > got.CapacityBytes {
		t.Errorf("the tier held %d bytes, above its bound of %d", got.HighestBytes, got.CapacityBytes)
	}
}

// fillTier writes until the gate refuses, and returns the lines that it accepted and those of the refused body.
func fillTier(t *testing.T, s *server) (accepted, refused string) {
	t.Helper()
	const bodyPoints = 100
	for body := range 1000 {
		lines := knownLines(body*bodyPoints, bodyPoints)
		got, err := s.send(t.Context(), http.MethodPost, "/write?db=weir", lines)
		switch {
		case err != nil:
			t.Fatal(err)
		case got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "l0_full"):
			return accepted, lines
		case got.status != http.StatusNoContent:
			t.Fatalf("a write was answered %d: %s", got.status, got.body)
		}
		accepted += lines
	}
	t.Fatalf("the tier took %d bytes of lines and refused none", len(accepted))
	return "", ""
}
