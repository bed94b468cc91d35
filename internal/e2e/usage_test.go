package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// usage is what a server takes of the machine.
type usage struct {
	ResidentBytes, OpenFiles, Goroutines, InFlightBytes float64
}

func (s *server) usage(t *testing.T) usage {
	t.Helper()
	values := map[string]float64{}
	for line := range strings.Lines(s.must(t, http.MethodGet, "/metrics", "", http.StatusOK).body) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseFloat(text, 64); ok && err == nil {
			values[name] = value
		}
	}
	return usage{
		ResidentBytes: values["process_resident_memory_bytes"], OpenFiles: values["process_open_fds"],
		Goroutines: values["go_goroutines"], InFlightBytes: values["lineweir_write_in_flight_bytes"],
	}
}
