package load

import "time"

// ProcessSample is what a process used in one second.
type ProcessSample struct {
	CPU         float64 `json:"cpu"` // in cores
	MemoryBytes int64   `json:"memory_bytes"`
}

// ProcessReport is what a process used during a run.
type ProcessReport struct {
	CPUSeconds      float64 `json:"cpu_seconds"`
	PeakMemoryBytes int64   `json:"peak_memory_bytes"` // since its start
	WrittenBytes    int64   `json:"written_bytes"`     // to disks, as far as the system tells
}

// processUsage is what a process has used since its start.
type processUsage struct {
	cpu             time.Duration
	memoryBytes     int64
	peakMemoryBytes int64
	writtenBytes    int64
}

// processGauge measures a process from one reading to the next.
type processGauge struct {
	pid         int
	first, last processUsage
	lastAt      time.Duration
}

// newProcessGauge fails where the process can't be measured.
func newProcessGauge(pid int) (*processGauge, error) {
	usage, err := usageOf(pid)
	if err != nil {
		return nil, err
	}
	return &processGauge{pid: pid, first: usage, last: usage}, nil
}

// sample measures what was used since the last sample.
func (g *processGauge) sample(at time.Duration) (*ProcessSample, error) {
	usage, err := usageOf(g.pid)
	if err != nil {
		return nil, err
	}
	sample := &ProcessSample{MemoryBytes: usage.memoryBytes}
	if at > g.lastAt {
		sample.CPU = float64(usage.cpu-g.last.cpu) / float64(at-g.lastAt)
	}
	g.last, g.lastAt = usage, at
	return sample, nil
}

// report is of the last sample.
func (g *processGauge) report() *ProcessReport {
	return &ProcessReport{
		CPUSeconds: (g.last.cpu - g.first.cpu).Seconds(), PeakMemoryBytes: g.last.peakMemoryBytes,
		WrittenBytes: g.last.writtenBytes - g.first.writtenBytes,
	}
}
