package suite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// recordFormat is the version of the JSON of a Record.
const recordFormat = 1

// Record is what one scenario measured. FORMAT.md of package load describes its JSON.
type Record struct {
	Format   int                `json:"format"`
	Scenario string             `json:"scenario"`
	Short    bool               `json:"short,omitempty"`
	Started  time.Time          `json:"started"`
	Seconds  float64            `json:"seconds"`
	Version  string             `json:"version"`
	Machine  string             `json:"machine"`
	Seed     uint64             `json:"seed"`
	Server   string             `json:"server"` // its configuration
	Maximum  float64            `json:"maximum_points_per_second,omitempty"`
	Seals    float64            `json:"seals_per_second,omitempty"`
	Figures  Figures            `json:"figures"`
	Goodput  map[string][]int64 `json:"goodput_points_of_each_second,omitempty"`
	Failure  string             `json:"failure,omitempty"` // why there are no figures
}

func (b *bench) newRecord(s *scenario) *Record {
	return &Record{
		Format: recordFormat, Scenario: s.name, Short: b.form.short, Started: time.Now().UTC().Truncate(time.Second),
		Version: b.version, Machine: machine(), Seed: b.seed, Server: b.form.describe(),
	}
}

// finite drops what is no number: it counts as not measured, and JSON can't hold it.
func (f Figures) finite() {
	maps.DeleteFunc(f, func(_ string, figure float64) bool { return math.IsNaN(figure) || math.IsInf(figure, 0) })
}

// writeInto writes the record into a directory, under the name of its scenario.
func (r *Record) writeInto(dir string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Scenario, err)
	}
	return os.WriteFile(filepath.Join(dir, "suite-"+r.Scenario+".json"), append(text, '\n'), 0o644)
}

// ErrRecord says that a file holds no record that can be read.
var ErrRecord = errors.New("this is no record of lineweir load suite")

// readRecord reads what writeInto wrote.
func readRecord(path string) (*Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrRecord, err)
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("%s: %w: its format is %d, want %d", path, ErrRecord, r.Format, recordFormat)
	}
	return &r, nil
}

// machine is what figures depend on and what names nobody.
func machine() string {
	text := fmt.Sprintf("%d CPUs", runtime.NumCPU())
	if model := cpuModel(); model != "" {
		text += " (" + model + ")"
	}
	return text + ", " + runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()
}

// cpuModel is "" where the system does not tell.
func cpuModel() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, model, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return ""
}
