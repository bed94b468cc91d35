package load

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sampleReport is what a run in fake time measures, with what only a real server tells added.
func sampleReport(t *testing.T) *Report {
	t.Helper()
	var report *Report
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(0)
		o.Label, o.Note, o.Version = "run | one", "fsync before each answer", "lineweir v0"
		o.Pace.Profile = Profile{{0.5, 2 * time.Second}, {10, 2 * time.Second}}
		report, _ = simulate(t, o, func(at time.Duration, number int) (time.Duration, answer) {
			if at > 2*time.Second && number%3 == 0 {
				return 200 * time.Microsecond, full
			}
			return time.Duration(1+number%20) * time.Millisecond, taken
		})
	})
	report.Started = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	report.Run.GoVersion, report.Run.System, report.Run.CPUs = "go1.26", "linux/amd64", 2
	report.Run.Server, report.Run.URL = "lineweir v0", "http://127.0.0.1:8086/write?db=load"
	report.Server = &ProcessReport{CPUSeconds: 3, PeakMemoryBytes: 100 << 20, WrittenBytes: 1 << 20}
	report.Tester = &ProcessReport{CPUSeconds: 0.5}
	report.Pressure = &PressureReport{
		CapacityBytes: 1 << 20, SoftBytes: 1 << 19, HighestSeenBytes: 1<<20 - 1, HighestBytes: 1 << 20, Samples: 16,
		SamplesBlocked: 4, Waited: 30, WaitingMax: 2, Refused: map[string]int64{"memory": 1, "l0_full": 7},
	}
	for i := range report.Seconds {
		report.Seconds[i].Pressure = &PressureSample{LevelBytes: int64(i) << 18, CapacityBytes: 1 << 20, SoftBytes: 1 << 19}
	}
	report.Verified = &Verification{
		Acknowledged: 5000, Found: 4998, Missing: 2, Unknown: 10, UnknownStored: 4, Foreign: 1,
		Gaps: []Gap{{Batch: 3, First: 4, Last: 5, Point: "m f=\"</script>\" 1"}},
	}
	return report
}

// The golden files are what a reader sees: go test ./load -update writes them anew.
func TestTables(t *testing.T) {
	one, two := sampleReport(t), sampleReport(t)
	two.Label, two.Note, two.Verified, two.Pressure, two.Server = "run two", "", nil, nil, nil
	two.Answers = []AnswerCount{{204, "", 400}, {0, "timeout", 3}}
	var text, beside, markdown bytes.Buffer
	err1 := WriteText(&text, one)
	err2 := WriteText(&beside, one, two)
	err3 := WriteMarkdown(&markdown, one, two)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", text.Bytes())
	golden(t, "beside.txt", beside.Bytes())
	golden(t, "beside.md", markdown.Bytes())
}

func TestReportsAreReadBack(t *testing.T) {
	want := sampleReport(t)
	var text bytes.Buffer
	if err := want.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", text.Bytes())
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadReport(path)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestWhatIsNoReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	for _, text := range []string{"", "[]", "{}", `{"format":2}`, `{"format":1`} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadReport(path); !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %v", text, err, ErrReport)
		}
	}
}

// A report must not hold a credential.
func TestReportsHoldNoToken(t *testing.T) {
	o := DefaultOptions()
	o.Target.Token = "secret"
	o.Target.URL = "http://127.0.0.1:8086/write?db=x&u=root&p=secret"
	c := mustCorpus(t, workload(ShapeTSBS, 10, 10), corpusOptions{bytesMax: 20_000})
	var text bytes.Buffer
	if err := newReport(&o, c).WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "secret") {
		t.Errorf("the token is in:\n%s", text.String())
	}
}

// The page fetches nothing, and no text of a run can break out of its place.
func TestPageIsSelfContained(t *testing.T) {
	report := sampleReport(t)
	report.Label = "</script><script>alert(1)</script>"
	var page bytes.Buffer
	if err := WriteHTML(&page, report, report); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, part := range []string{"Permission is hereby granted", "new uPlot(", `"offered_points":`, "uPlot=function", "µs per point"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page has no %q", part)
		}
	}
	if got := strings.Count(text, "<script>"); got != 3 {
		t.Errorf("the page has %d scripts, want 3", got)
	}
	fetches := regexp.MustCompile(`(src|href)\s*=\s*"?[^d"]|@import|url\(`)
	if found := fetches.FindString(text); found != "" {
		t.Errorf("the page fetches something: %s", found)
	}
	if len(text) > 200<<10 {
		t.Errorf("the page has %d bytes", len(text))
	}
}

func TestFigures(t *testing.T) {
	r := &Report{Run: RunReport{Seconds: 5.5, Planned: 5}}
	for _, points := range []int64{999, 10, 10, 0, 20, 999} {
		r.Seconds = append(r.Seconds, Second{Acknowledged: points})
	}
	r.Clients = []ClientCounts{{Acknowledged: 1}, {Acknowledged: 0}}
	r.RetryAfter = []RetryAfterCount{{1, 1}, {2, 2}, {9, 1}}
	median, _ := r.medianRetryAfter()
	type figures struct {
		Variation, Jain float64
		Silent, Median  int
	}
	want := figures{0.7071067811865476, 0.5, 1, 2}
	if diff := cmp.Diff(want, figures{r.Variation(), r.Jain(), r.SilentSeconds(), median}); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	empty := &Report{}
	if empty.Variation() != 0 || empty.Jain() != 0 || empty.Goodput() != 0 || empty.RefusalsPerAdmission() != 0 {
		t.Error("a report of nothing has figures")
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{grouped(0), "0"}, {grouped(999), "999"}, {grouped(1000), "1,000"}, {grouped(-1234567), "-1,234,567"},
		{scaled(0.4), "0"}, {scaled(999), "999"}, {scaled(12345), "12.3k"}, {scaled(2e6), "2M"}, {scaled(3.21e9), "3.21G"},
		{sized(5), "5 B"}, {sized(1536), "1.5 KiB"}, {sized(3 << 30), "3.0 GiB"},
		{briefly(1234 * time.Nanosecond), "1µs"}, {briefly(123456 * time.Microsecond), "123.5ms"},
		{briefly(12345 * time.Millisecond), "12.35s"}, {briefly(200*time.Second + 1), "3m20s"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

func TestLatency(t *testing.T) {
	l := newLatency(runDigits)
	if diff := cmp.Diff(Latency{}, l.summary()); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
	for i := range 1000 {
		l.record(time.Duration(i+1) * time.Millisecond)
	}
	got := l.summary()
	for _, test := range []struct{ got, want float64 }{
		{got.P50, 0.5}, {got.P90, 0.9}, {got.P99, 0.99}, {got.P999, 0.999}, {got.Max, 1},
	} {
		if test.got < test.want || test.got > test.want*1.001 {
			t.Errorf("got %v, want %v", test.got, test.want)
		}
	}
	l.record(2 * latencyMax)
	l.record(-1)
	if got := l.summary(); got.Max != latencyMax.Seconds() || got.Count != 1002 {
		t.Errorf("got %+v", got)
	}
}

func TestProgressIsOneShortLine(t *testing.T) {
	p := Progress{
		Elapsed: 12 * time.Second, Planned: time.Minute, Offered: 2e5, Acknowledged: 1.5e5, Refused: 5e4,
		P99: 12345 * time.Microsecond, Cause: "l0_full",
		Pressure: &PressureSample{LevelBytes: 45, CapacityBytes: 100, Waiting: 3},
	}
	want := "  12s/60s  150k of 200k points/s, 50k refused  p99 12.3ms  l0_full  tier 45 %"
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	p.Elapsed, p.Planned, p.Cause = 23*time.Hour, DurationMax, strings.Repeat("x", 60)
	if got := p.String(); len(got) > 79 || !strings.HasSuffix(got, "tier 45 %") {
		t.Errorf("%q has %d columns, want at most 79", got, len(got))
	}
}
