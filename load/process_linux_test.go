package load

import (
	"os"
	"testing"
	"time"
)

func TestUsageOfThisProcess(t *testing.T) {
	gauge, err := newProcessGauge(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	begun, sum := time.Now(), 0
	for time.Since(begun) < 50*time.Millisecond { // some ticks of CPU time
		sum++
	}
	sample, err := gauge.sample(time.Since(begun))
	if err != nil {
		t.Fatal(err)
	}
	report := gauge.report()
	if sample.MemoryBytes < 1<<20 || sample.CPU < 0 || sample.CPU > 64 || sum == 0 ||
		report.PeakMemoryBytes < sample.MemoryBytes || report.CPUSeconds < 0 {
		t.Errorf("got %+v %+v", sample, report)
	}
	if _, err := newProcessGauge(1 << 30); err == nil {
		t.Error("a process that doesn't exist was measured")
	}
}
