package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRunCountsWhatIsAnswered(t *testing.T) {
	server := newStoringServer(t)
	server.write = func(w http.ResponseWriter, r *http.Request, number int) int {
		switch number {
		case 2:
			return refuse(w, 0)
		case 3:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"error":"timeout after 10s at shard 3"}`)
			return http.StatusInternalServerError
		case 4:
			readBody(r) // or the connection is reset
			panic(http.ErrAbortHandler)
		case 5:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "unable to parse 'm'")
			return http.StatusBadRequest
		}
		return http.StatusNoContent
	}
	o := smallOptions(server.URL)
	o.Pace = Pace{Writers: 1, Points: 95, Duration: time.Minute}
	report := mustRun(t, o)
	want := []AnswerCount{
		{0, "connection closed", 1}, {204, "", 9}, {400, "unable to parse", 1}, {500, "timeout after", 1}, {503, "l0_full", 1},
	}
	if diff := cmp.Diff(want, report.Answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	got := report.Totals
	got.AcknowledgedBytes = 0
	totals := Totals{
		Offered: 95, Acknowledged: 85, Refused: 10, Batches: 10, Admissions: 9, Refusals: 1, Failures: 3, Retries: 3,
		FirstReturns: 1,
	}
	if diff := cmp.Diff(totals, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if report.Run.Server != "lineweir 1.8.10-lineweir-test" || report.Label != report.Run.Server ||
		report.Run.Ended != EndedByPoints || server.stored() != 85 {
		t.Errorf("got %+v with %d points stored", report.Run, server.stored())
	}
}

// Two runs send the same bytes, compressed or not.
func TestRunsSendTheSameBytes(t *testing.T) {
	var bodies [2][]string
	for i, compress := range []bool{false, true} {
		server := newStoringServer(t)
		o := smallOptions(server.URL)
		o.Target.Gzip = compress
		o.Pace = Pace{Writers: 1, Points: 505, Duration: time.Minute}
		mustRun(t, o)
		bodies[i] = server.lines
	}
	if diff := cmp.Diff(bodies[0], bodies[1]); diff != "" || len(bodies[0]) != 505 {
		t.Errorf("%d lines, other bytes:\n%s", len(bodies[0]), diff)
	}
}

// TestAStoppedServerIsSeen is TestAStandstillIsSeen over HTTP and in real time.
func TestAStoppedServerIsSeen(t *testing.T) {
	server := newStoringServer(t)
	var begun sync.Once
	var resume time.Time
	server.write = func(_ http.ResponseWriter, _ *http.Request, number int) int {
		if number > 50 {
			begun.Do(func() { resume = time.Now().Add(time.Second) })
			timer := time.NewTimer(time.Until(resume))
			defer timer.Stop()
			<-timer.C
		}
		return http.StatusNoContent
	}
	o := smallOptions(server.URL)
	o.Pace = Pace{Writers: 2, Rate: 1000, Duration: 2 * time.Second}
	report := mustRun(t, o)
	// What a slow machine never gets to send is told as late.
	if counted := 10*report.Admitted.Count + report.Totals.Late; report.Admitted.P99 < 0.9 || counted < 1990 {
		t.Errorf("got %+v of %+v, want a p99 of at least 0.9 s over all 2,000 points", report.Admitted, report.Totals)
	}
}

func TestAnInterruptedRunReports(t *testing.T) {
	server := newStoringServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	server.write = func(w http.ResponseWriter, _ *http.Request, number int) int {
		if number > 5 {
			cancel()
			return refuse(w, 3600)
		}
		return http.StatusNoContent
	}
	o := smallOptions(server.URL)
	o.Pace.Duration = time.Hour
	o.Verify = true
	report, err := Run(ctx, o)
	if !errors.Is(err, ErrUnread) || report == nil || report.Run.Ended != EndedByInterrupt ||
		report.Totals.Acknowledged != 50 || report.Totals.GivenUp == 0 {
		t.Errorf("got %v, %+v", err, report)
	}
}

func TestWritersHaveTheirOwnAddresses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8")
	}
	server := newStoringServer(t)
	o := smallOptions(server.URL)
	o.Target.Source = netip.MustParseAddr("127.0.3.7")
	o.Pace = Pace{Writers: 3, Rate: 300, Points: 60, Duration: time.Minute}
	mustRun(t, o)
	want := map[string]bool{"127.0.3.7": true, "127.0.3.8": true, "127.0.3.9": true}
	if diff := cmp.Diff(want, server.sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestRunMeasuresPressureAndProcess(t *testing.T) {
	server := newStoringServer(t)
	server.status.Tier.CapacityBytes, server.status.Tier.SoftBytes = 1000, 600
	server.status.Admission.Waited = 5
	server.write = func(http.ResponseWriter, *http.Request, int) int {
		server.mu.Lock()
		defer server.mu.Unlock()
		status := &server.status
		status.Tier.RegisteredBytes, status.Tier.ReservedBytes = 900, 100+int64(server.writes%2)
		status.Tier.HighestBytes = 1001
		status.Admission.Waited, status.Admission.Waiting = 8, 2
		status.Admission.Refused = map[string]int64{"l0_full": 7, "memory": 0}
		return http.StatusNoContent
	}
	o := smallOptions(server.URL)
	o.Pace.Rate = 500
	o.ServerPID = os.Getpid()
	if runtime.GOOS != "linux" {
		o.ServerPID = 0
	}
	var shown atomic.Int64
	o.Progress = func(p Progress) {
		if p.Pressure != nil && p.Planned == time.Second {
			shown.Add(1)
		}
	}
	report := mustRun(t, o)
	p := report.Pressure
	if p == nil || p.Samples == 0 || p.CapacityBytes != 1000 || p.HighestBytes != 1001 || p.WaitingMax != 2 ||
		p.Waited != 3 || p.Refused["l0_full"] != 7 || len(p.Refused) != 1 || p.HighestSeenBytes < 1000 {
		t.Errorf("got %+v", p)
	}
	sampled := slices.ContainsFunc(report.Seconds, func(s Second) bool { return s.Pressure != nil })
	if !sampled || shown.Load() == 0 {
		t.Errorf("no second has a sample, or no progress was shown: %d", shown.Load())
	}
	if o.ServerPID > 0 && (report.Server == nil || report.Server.PeakMemoryBytes == 0) {
		t.Errorf("got %+v of the process", report.Server)
	}
}

func TestOtherServers(t *testing.T) {
	var paths sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths.Store(r.Method+" "+r.URL.String(), true)
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/health":
			fmt.Fprint(w, `{"name":"otherdb","version":"7"}`)
		case "/ping", "/api/status":
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	o := smallOptions(server.URL)
	o.Target.API, o.Target.Create, o.Label, o.Pace.Points = APIV3, true, "other", 20
	report := mustRun(t, o)
	if report.Run.Server != "otherdb 7" || report.Label != "other" || report.Pressure != nil ||
		report.Totals.Acknowledged != 20 {
		t.Errorf("got %+v %+v", report.Run, report.Totals)
	}
	for _, path := range []string{
		"POST /api/v3/write_lp?db=load&precision=nanosecond", "POST /query?q=CREATE+DATABASE+%22load%22",
	} {
		if _, found := paths.Load(path); !found {
			t.Errorf("nobody asked %s", path)
		}
	}
}

func TestADatabaseThatCannotBeCreated(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/query" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"authorization failed"}`)
		}
	}))
	defer server.Close()
	o := smallOptions(server.URL)
	o.Target.Create = true
	want := "create the database: the server answered 401: authorization failed"
	if _, err := Run(t.Context(), o); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBuffersHaveToFit(t *testing.T) {
	server := newStoringServer(t)
	o := smallOptions(server.URL)
	o.Workload.Batch, o.Workload.Series, o.Pace.Writers, o.MemoryBytes = 5000, 4000, 100, 64<<20
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrMemory) {
		t.Errorf("got %v, want %v", err, ErrMemory)
	}
}

func TestVerify(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(w http.ResponseWriter, r *http.Request, number int) int
		scan  func(lines []string) []string
		want  Verification // but for the texts
		finds string       // in the texts
	}{
		{name: "all is there", want: Verification{Acknowledged: 200, Found: 200, Rows: 200}},
		{
			name: "order and spelling do not matter",
			scan: func(lines []string) []string {
				rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
				for i, line := range lines {
					head, rest, _ := strings.Cut(line, ",")
					tags, rest, _ := strings.Cut(rest, " ")
					fields, at, _ := strings.Cut(rest, " ")
					lines[i] = head + "," + backwards(tags) + " " + backwards(fields) + " " + at
				}
				return lines
			},
			want: Verification{Acknowledged: 200, Found: 200, Rows: 200},
		},
		{
			name:  "missing",
			scan:  func(lines []string) []string { return append(lines[:42], lines[45:]...) },
			want:  Verification{Acknowledged: 200, Found: 197, Missing: 3, Rows: 197},
			finds: "lines 3 to 5 of batch 4: cpu,hostname=host_2",
		},
		{
			name:  "double",
			scan:  func(lines []string) []string { return append(lines, lines[0], lines[0]) },
			want:  Verification{Acknowledged: 200, Found: 200, Double: 2, Rows: 202},
			finds: "double: cpu,hostname=host_0",
		},
		{
			name: "altered",
			scan: func(lines []string) []string {
				lines[7] = strings.Replace(lines[7], "usage_user=", "usage_user=1", 1)
				return lines
			},
			want:  Verification{Acknowledged: 200, Found: 200, Altered: 1, Rows: 200},
			finds: "altered: cpu,hostname=host_7",
		},
		{
			name: "not of this run",
			scan: func(lines []string) []string {
				return append(lines, "cpu,hostname=nobody usage_user=1i 1767225600000000000")
			},
			want: Verification{Acknowledged: 200, Found: 200, Foreign: 1, Rows: 201},
		},
		{
			name: "refused and unknown",
			write: func(w http.ResponseWriter, r *http.Request, number int) int {
				switch number {
				case 3:
					return refuse(w, 1)
				case 4:
					w.WriteHeader(http.StatusServiceUnavailable)
					fmt.Fprint(w, `{"error":"the fsync failed","cause":"outcome_unknown"}`)
					return http.StatusServiceUnavailable
				}
				return http.StatusNoContent
			},
			want: Verification{Acknowledged: 180, Found: 180, Unknown: 10, Rows: 180},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newStoringServer(t)
			server.write, server.scan = test.write, func(lines []string) []string {
				if test.scan == nil || len(lines) == 0 {
					return lines
				}
				return test.scan(lines)
			}
			o := smallOptions(server.URL)
			o.Verify, o.Refusals.Policy = true, Drop
			o.Pace = Pace{Writers: 1, Points: 200, Duration: time.Minute}
			report, err := Run(t.Context(), o)
			if report == nil {
				t.Fatal(err)
			}
			got := *report.Verified
			if got.Sound() != (err == nil) || err != nil && !errors.Is(err, ErrUnsound) {
				t.Errorf("got the error %v", err)
			}
			var text bytes.Buffer
			if err := WriteText(&text, report); err != nil || !strings.Contains(text.String(), test.finds) {
				t.Errorf("%q is missing in:\n%s", test.finds, text.String())
			}
			got.Seconds, got.Gaps, got.Examples = 0, nil, nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("verification (-want +got):\n%s", diff)
			}
		})
	}
}

func backwards(list string) string {
	parts := strings.Split(list, ",")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ",")
}

// A refused batch must leave no trace.
func TestVerifyFindsWhatWasStoredThoughRefused(t *testing.T) {
	server := newStoringServer(t)
	server.write = func(w http.ResponseWriter, r *http.Request, number int) int {
		if number == 2 {
			server.store(readBody(r))
			return refuse(w, 1)
		}
		return http.StatusNoContent
	}
	o := smallOptions(server.URL)
	o.Verify, o.Refusals.Policy = true, Drop
	o.Pace = Pace{Writers: 1, Points: 50, Duration: time.Minute}
	report, err := Run(t.Context(), o)
	if !errors.Is(err, ErrUnsound) || report.Verified.RefusedStored != 10 || report.Verified.Acknowledged != 40 {
		t.Errorf("got %v, %+v", err, report.Verified)
	}
}

// Points of an earlier run are told, because they would hide what this one loses.
func TestVerifyWarnsOfEarlierPoints(t *testing.T) {
	server := newStoringServer(t)
	o := smallOptions(server.URL)
	o.Verify, o.Pace = true, Pace{Writers: 1, Points: 10, Duration: time.Minute}
	if report := mustRun(t, o); len(report.Warnings) != 0 {
		t.Errorf("got the warnings %q", report.Warnings)
	}
	report, err := Run(t.Context(), o)
	if report == nil || len(report.Warnings) != 1 || report.Verified.Double != 10 {
		t.Errorf("got %v, %+v", err, report)
	}
}

func TestVerifyNeedsAWholeScan(t *testing.T) {
	server := newStoringServer(t)
	server.scan = func(lines []string) []string {
		if len(lines) > 0 {
			panic(http.ErrAbortHandler)
		}
		return lines
	}
	o := smallOptions(server.URL)
	o.Verify, o.Pace = true, Pace{Writers: 1, Points: 10, Duration: time.Minute}
	report, err := Run(t.Context(), o)
	if !errors.Is(err, ErrUnread) || report == nil || report.Verified != nil {
		t.Errorf("got %v, want %v", err, ErrUnread)
	}
}

// A server that has no room for a scan now is asked again, as often as it says so, and until the run is ended.
func TestVerifyComesBack(t *testing.T) {
	server := newStoringServer(t)
	server.busy.Store(2)
	o := smallOptions(server.URL)
	o.Verify, o.Pace = true, Pace{Writers: 1, Points: 10, Duration: time.Minute}
	report, err := Run(t.Context(), o)
	if err != nil || report.Verified == nil || report.Verified.Found != 10 || server.busy.Load() >= 0 {
		t.Errorf("got %v, and the server would refuse %d more", err, server.busy.Load())
	}
	server.busy.Store(math.MaxInt32)
	v := &verifier{target: &o.Target, transport: o.Target.transport(netip.Addr{})}
	defer v.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err = v.scan(ctx, "m", 0, 1, "lp", func(io.Reader) error { return nil }); err == nil {
		t.Error("got no error of a scan that was refused to the end")
	}
}

func TestScanWait(t *testing.T) {
	for _, tc := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{503, "7", 7 * time.Second}, {503, "0", time.Second}, {503, "86400", time.Minute}, {503, "", 0}, {400, "7", 0},
	} {
		response := &http.Response{StatusCode: tc.status, Header: http.Header{"Retry-After": {tc.header}}}
		if got := scanWait(response); got != tc.want {
			t.Errorf("%d, Retry-After %q: got %s, want %s", tc.status, tc.header, got, tc.want)
		}
	}
}

// Rounds are read in windows, so that memory does not grow with the run.
func TestVerifyInWindows(t *testing.T) {
	server := newStoringServer(t)
	target := smallOptions(server.URL).Target
	c := mustCorpus(t, workload(ShapeTSBS, 10, 7), corpusOptions{bytesMax: 20_000})
	p := newPlan(c, &Pace{Duration: time.Second})
	var f fates
	rounds := int64(5)
	for number := range rounds * int64(len(c.bodies)) {
		b, _ := p.batch(number)
		if number%3 != 0 {
			server.store(c.bodies[b.body].appendLines(nil, b.points, b.shift))
			f.settle(number, acknowledged)
		}
	}
	v, err := newVerifier(&target, c)
	if err != nil {
		t.Fatal(err)
	}
	whole, err1 := v.verify(t.Context(), p, &f, 1<<20)
	windows, err2 := v.verify(t.Context(), p, &f, 1)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	whole.Seconds, windows.Seconds = 0, 0
	if diff := cmp.Diff(whole, windows); diff != "" || !whole.Sound() || whole.Found != int64(server.stored()) {
		t.Errorf("%d of %d points found; in windows (-whole +windows):\n%s", whole.Found, server.stored(), diff)
	}
}

// A file may have a point twice; the later fields are added to the earlier ones.
func TestVerifyAFileWithRepeatedPoints(t *testing.T) {
	server := newStoringServer(t)
	server.scan = func(lines []string) []string {
		if len(lines) > 0 {
			lines = []string{"m f=1,g=2 " + lines[0][strings.LastIndexByte(lines[0], ' ')+1:]}
		}
		return lines
	}
	o := smallOptions(server.URL)
	o.Workload = lineFile(t, "m f=1 5\nm g=2 5\n")
	o.Verify, o.Pace = true, Pace{Writers: 1, Points: 2, Duration: time.Minute}
	if report := mustRun(t, o); report.Verified.Found != 2 {
		t.Errorf("got %+v", report.Verified)
	}
}
