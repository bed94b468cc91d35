package load

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares a text with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// smallOptions is a run of few, short bodies.
func smallOptions(url string) Options {
	o := DefaultOptions()
	o.Target.URL = url
	o.Target.Timeout = 10 * time.Second
	o.Workload.Series, o.Workload.Batch, o.MemoryBytes = 20, 10, MemoryBytesMin
	o.Pace = Pace{Writers: 2, Duration: time.Second}
	o.Refusals.Delay = time.Millisecond
	return o
}
