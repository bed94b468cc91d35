package e2e

import (
	"net/http"
	"strings"
	"testing"
)

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
