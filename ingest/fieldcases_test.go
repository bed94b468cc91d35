package ingest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/zap"

	"lineweir/shard"
)

// fieldCases are what went wrong on the write path of real systems: each by the number under which it is known here,
// with a public report of it.
var fieldCases = []struct {
	number, report string
	run            func(t *testing.T)
}{
	{"A-01", "influxdata/telegraf#8571", fieldCase01},
	{"A-02", "influxdata/telegraf#9353", fieldCase02},
	{"A-03", "influxdata/telegraf#7268", fieldCase03},
	{"A-04", "influxdata/telegraf#15361", fieldCase04},
	{"A-05", "influxdata/influxdb-client-js#372", fieldCase05},
	{"A-06", "influxdata/influxdb-relay#71", fieldCase06},
	{"A-07", "VictoriaMetrics/VictoriaMetrics#8704", fieldCase07},
	{"A-08", "ArcadeData/arcadedb#3821", fieldCase08},
	{"A-09", "ArcadeData/arcadedb#7772", fieldCase09},
	{"A-10", "influxdata/influxdb#6061", fieldCase10},
	{"A-11", "influxdata/telegraf#10900", fieldCase11},
	{"A-12", "influxdata/influxdb-php#117", fieldCase12},
	{"A-13", "toni-moreno/influxdb-srelay#39", fieldCase13},
	{"A-14", "influxdata/telegraf#7650", fieldCase14},
	{"A-15", "m3db/m3#3373", fieldCase15},
	{"A-16", "InfluxCommunity/influxdb-ruby#116", fieldCase16},
	{"A-17", "influxdata/influxdb#21746", fieldCase17},
	{"A-18", "GreptimeTeam/greptimedb#3739", fieldCase18},
	{"A-19", "influxdata/telegraf#11771", fieldCase19},
	{"A-20", "influxdata/telegraf#3754", fieldCase20},
	{"A-21", "influxdata/influxdb-java#626", fieldCase21},
	{"A-22", "influxdata/influxdb#9203", fieldCase22},
	{"A-23", "influxdata/influxdb#5407", fieldCase23},
	{"A-24", "influxdata/influxdb#10087", fieldCase24},
	{"A-25", "influxdata/influxdb-java#578", fieldCase25},
	{"A-26", "VictoriaMetrics/VictoriaMetrics#10049", fieldCase26},
	{"A-27", "influxdata/influxdb_iox#4398", fieldCase27},
	{"A-28", "influxdata/influxdb#23024", fieldCase28},
	{"A-29", "davidB/metrics-influxdb#47", fieldCase29},
	{"A-30", "influxdata/influxdb#7454", fieldCase30},
	{"A-31", "influxdata/influxdb#9102", fieldCase31},
	{"A-32", "influxdata/influxdb#11621", fieldCase32},
	{"A-33", "VictoriaMetrics/VictoriaMetrics#127", fieldCase33},
	{"A-34", "influxdata/influxdb#7815", fieldCase34},
	{"A-35", "prometheus/influxdb_exporter#116", fieldCase35},
	{"A-36", "influxdata/influxdb#25833", fieldCase36},
}

func TestFieldCases(t *testing.T) {
	for _, c := range fieldCases {
		t.Run(c.number, func(t *testing.T) {
			t.Log(c.report)
			c.run(t)
		})
	}
}

func TestNoFieldCaseIsMissing(t *testing.T) {
	const count = 36
	if len(fieldCases) != count {
		t.Errorf("got %d cases, want %d", len(fieldCases), count)
	}
	for i, c := range fieldCases {
		if want := fmt.Sprintf("A-%02d", i+1); c.number != want || c.report == "" || c.run == nil {
			t.Errorf("case %d is %q with %q, want %s", i, c.number, c.report, want)
		}
	}
}

// lineCase is a body, and what becomes of its lines on every API.
type lineCase struct {
	body    string
	stored  []string // at any default time, which stands as T
	refused []string // parts of the reasons, one for each refused line
}

// checkLines writes bodies through each API.
func checkLines(t *testing.T, cases []lineCase) {
	t.Helper()
	s := startServer(t)
	for i, c := range cases {
		for _, api := range writeAPIsUnderTest {
			name := fmt.Sprintf("%s_%d", api.name, i)
			before := time.Now().UnixNano()
			answer := s.post(api.url(name), c.body)
			after := time.Now().UnixNano()
			api.checkContract(t, answer)
			checkReasons(t, api, c.refused, answer)
			got := s.lines(name)
			for i := range got {
				got[i] = strings.ReplaceAll(markDefaultTime(got[i], before, after),
					strconv.FormatInt(testDefaultTime.UnixNano(), 10), "T")
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.stored, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %q: stored (-want +got):\n%s", api.name, c.body, diff)
			}
		}
	}
}

func fieldCase01(t *testing.T) {
	s := startServer(t)
	now := time.Now()
	old, young := now.Add(-4*7*24*time.Hour).UnixNano(), now.UnixNano()
	for _, api := range writeAPIsUnderTest {
		s.statement("", "CREATE DATABASE "+api.name+" WITH DURATION 2w")
		answer := s.post(api.url(api.name), fmt.Sprintf("m,s=old v=1i %d\nm,s=young v=2i %d", old, young))
		api.checkContract(t, answer)
		checkReasons(t, api, []string{"retention"}, answer)
		want := []string{fmt.Sprintf("m,s=young v=2i %d", young)}
		if diff := cmp.Diff(want, s.lines(api.name)); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", api.name, diff)
		}
		// A batch of nothing else is refused the same way, however often it comes.
		for range 3 {
			if answer = s.post(api.url(api.name), fmt.Sprintf("m v=1i %d", old)); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: got %d, want 400", api.name, answer.StatusCode)
			}
		}
	}
}

func fieldCase02(t *testing.T) {
	s := startServer(t)
	f := fake(s.handler)
	for _, cause := range shard.Causes() {
		f.admit = busy(cause)
		for _, api := range writeAPIsUnderTest {
			answer := s.post(api.url("d"), "m v=1i 1")
			api.checkContract(t, answer) // 503, Retry-After in whole seconds, and the cause
			if told := api.refusal(t, answer); answer.StatusCode != http.StatusServiceUnavailable || told.Cause != cause {
				t.Errorf("%s, %s: got %d %+v", api.name, cause, answer.StatusCode, told)
			}
		}
	}
	f.admit = nil
	s.handler.engine.Drain()
	for _, path := range []string{"/api/seal", "/query?q=CREATE+DATABASE+x"} {
		answer := s.post(path, "")
		after, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if answer.StatusCode != http.StatusServiceUnavailable || err != nil || after < 1 {
			t.Errorf("%s: got %d with Retry-After %q", path, answer.StatusCode, answer.Header.Get("Retry-After"))
		}
	}
}

func fieldCase03(t *testing.T) {
	made := newTokens(t)
	s := startServer(t, made.use, func(o *Options) {
		o.Limits.BodyBytesMax, o.Limits.InFlightBytesMax = 1000, 1<<20
		o.Scan = func(http.ResponseWriter, *http.Request) error { panic("Site Disabled") }
	})
	admin := made.header("admin")
	for _, tc := range []struct {
		method, path, body string
		headers            []string
		status             int
	}{
		{"POST", "/write?db=d", "m v=1i 1", nil, 401},
		{"POST", "/write?db=d", "m v=1i 1", made.header("read"), 403},
		{"POST", "/write", "m v=1i 1", admin, 400},
		{"POST", "/nope", "m v=1i 1", admin, 404},
		{"POST", "/write/", "m v=1i 1", admin, 404},
		{"GET", "/write?db=d", "", admin, 405},
		{"BREW", "/write?db=d", "", admin, 405},
		{"POST", "/write?db=d", strings.Repeat("m v=1i 1\n", 1000), admin, 413},
		{"GET", "/api/scan?db=d&measurement=m", "", admin, 500},
		{"POST", "/query", "", admin, 400},
		{"PUT", "/api/compaction", "", admin, 400},
	} {
		answer := s.send(tc.method, tc.path, strings.NewReader(tc.body), tc.headers...)
		if answer.StatusCode != tc.status {
			t.Errorf("%s %s: got %d, want %d", tc.method, tc.path, answer.StatusCode, tc.status)
		}
		writeAPIsUnderTest[0].checkContract(t, answer)
	}
}

func fieldCase04(t *testing.T) {
	s := startServerOf(t, newTestEngine(t, func(o *shard.Options) {
		o.Shards, o.Memtable.MaxRows, o.Memtable.MaxBytes = 1, 10, 64<<10
	}))
	for _, api := range writeAPIsUnderTest {
		body := func(points int) string {
			var b strings.Builder
			for i := range points {
				fmt.Fprintf(&b, "m v=1i %d\n", i)
			}
			return b.String()
		}
		for i := range 5 { // an idle gateway says so every time, and never that there is no room now
			answer := s.post(api.url(api.name), body(11))
			api.checkContract(t, answer)
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s, try %d: 11 points of 10: got %d %s, want 413", api.name, i, answer.StatusCode, answer.body)
			}
			answer = s.post(api.url(api.name), `m s="`+strings.Repeat("x", 100<<10)+`"`)
			api.checkContract(t, answer)
			if answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%s, try %d: a line of twice the memtable: got %d %s, want 400", api.name, i, answer.StatusCode,
					answer.body)
			}
		}
		if got := s.lines(api.name); len(got) > 0 {
			t.Errorf("%s: stored is %q", api.name, got)
		}
		s.mustWrite(api.url(api.name), body(10))
	}
}

func fieldCase05(t *testing.T) {
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.url(api.name), "m v=1i 1")
		api.checkContract(t, answer)
		if answer.StatusCode != http.StatusNoContent || len(s.lines(api.name)) != 1 {
			t.Errorf("%s: got %d and %q", api.name, answer.StatusCode, s.lines(api.name))
		}
	}
	for _, path := range []string{
		"/api/v2/api/v2/write?bucket=d", "/write/write?db=d", "/api/v3/api/v3/write_lp?db=d", "/api/write?db=d",
		"/influx/write?db=d", "/api/v2/write/?bucket=d", "/Write?db=d", "//write?db=d", "/query/write?db=d", "/v1/write?db=d",
	} {
		if answer := s.post(path, "m v=1i 1"); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, answer.StatusCode)
		}
	}
	if answer := s.post("/", "m v=1i 1"); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("/: got %d, want 405", answer.StatusCode)
	}
	if got := s.databases(); slices.Contains(got, "d") {
		t.Errorf("got databases %q", got)
	}
}

func fieldCase06(t *testing.T) {
	s := startServer(t)
	const tries = 50
	var clients sync.WaitGroup
	for _, wrong := range []string{
		"/write?db=d&rp=a%2Fb", "/write?db=d&rp=%00", "/api/v2/write?bucket=a%2Fb%2Fc", "/write?db=x&precision=wrong",
	} {
		clients.Go(func() {
			for range tries {
				answer := s.post(wrong, "m v=1i 1")
				if answer.StatusCode != http.StatusBadRequest || answer.Header.Get("Retry-After") != "" {
					t.Errorf("%s: got %d, Retry-After %q; want 400", wrong, answer.StatusCode, answer.Header.Get("Retry-After"))
					return
				}
			}
		})
	}
	for i := range tries {
		s.mustWrite("/write?db=d", fmt.Sprintf("m v=1i %d", i))
	}
	clients.Wait()
	if got := s.lines("d"); len(got) != tries || !slices.Equal(s.databases(), []string{"d"}) {
		t.Errorf("got %d points in %q", len(got), s.databases())
	}
	if used := s.handler.budget.usedBytes.Load(); used != 0 {
		t.Errorf("%d bytes are still held", used)
	}
}

func fieldCase07(t *testing.T) {
	engine := newTestEngine(t, func(o *shard.Options) {
		o.Shards, o.Memtable.MaxBytes, o.Tier.CapacityBytes = 1, 64<<10, 512<<10
		o.Admission.MaxWait = 50 * time.Millisecond
	})
	s := startServerOf(t, engine)
	if answer := s.send(http.MethodPut, "/api/compaction", strings.NewReader(`{"paused":true}`)); answer.StatusCode != 200 {
		t.Fatalf("got %d %s", answer.StatusCode, answer.body)
	}
	text := randomText(20 << 10)
	var answer received
	waitUntil(t, "the tier to be full", func() bool {
		answer = s.post("/write?db=full", `m s="`+text+`"`)
		return answer.StatusCode != http.StatusNoContent
	})
	// It waited for a moment at most, and was then told when to come back.
	writeAPIsUnderTest[0].checkContract(t, answer)
	told := writeAPIsUnderTest[0].refusal(t, answer)
	if answer.StatusCode != http.StatusServiceUnavailable || told.Cause != shard.CauseL0Full &&
		told.Cause != shard.CauseFrozenFull {
		t.Errorf("got %d %+v, want 503 with l0_full", answer.StatusCode, told)
	}
	checkGoneClients(t)
}

// checkGoneClients lets clients leave while their writes wait: nothing is committed for them, and it is not taken for a
// fault of their lines.
func checkGoneClients(t *testing.T) {
	t.Helper()
	s := startServer(t)
	held := make(chan error, 1)
	s.handler.committer = &contextCommitter{fakeEngine: fake(s.handler), held: held, hold: time.Minute}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/write?db=d", strings.NewReader("m v=1i 1"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		response, err := s.Client().Do(r)
		if err == nil {
			err = response.Body.Close()
		}
		done <- err
	}()
	waitUntil(t, "the write to be read", func() bool {
		return exposed(t, s.handler)[`lineweir_write_stage_seconds_count{stage="parse"}`] == "1"
	})
	leave()
	if err := <-held; err == nil {
		t.Error("the write does not know that its client has left")
	}
	<-done
	const gone = `lineweir_write_requests_total{api="/write",outcome="client_gone"}`
	waitUntil(t, "the write to end", func() bool { return exposed(t, s.handler)[gone] == "1" })
	if got := s.databases(); len(got) > 0 {
		t.Errorf("got databases %q, want nothing committed", got)
	}
}

func fieldCase08(t *testing.T) {
	refusedLines := map[string]string{
		"cpu,time=1 usage=1 1700000000000000000":             "time",
		"cpu usage=1":                                        "",
		"cpu usage=1 9223372036854775807":                    "time outside range",
		"cpu usage=NaN":                                      "",
		"cpu,usage=a usage=1":                                "tag",
		"cpu,a=b,a=b usage=1":                                "duplicate",
		"cpu usage=\"" + strings.Repeat("x", 1<<20+1) + "\"": "string is longer",
	}
	s := startServer(t)
	s.mustWrite("/write?db=d", "cpu usage=1i 1") // so a float is of another type
	for line := range refusedLines {
		for _, api := range writeAPIsUnderTest {
			answer := s.post(api.url("d"), "ok v=1i 1\n"+line+"\nok v=2i 2")
			api.checkContract(t, answer)
			checkReasons(t, api, []string{refusedLines[line]}, answer)
		}
	}
	if diff := cmp.Diff([]string{"cpu usage=1i 1", "ok v=1i 1", "ok v=2i 2"}, s.lines("d")); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func fieldCase09(t *testing.T) {
	const limit, line = 1 << 20, "m v=1i 1\n"
	h := newTestHandler(t, func(o *Options) { o.Limits.BodyBytesMax = limit })
	rest := strings.NewReader(strings.Repeat(line, 10*limit/len(line)))
	size := rest.Len()
	answer := do(t, h, http.MethodPost, "/write?db=d", io.MultiReader(rest))
	if read := size - rest.Len(); answer.Code != http.StatusRequestEntityTooLarge || read > 2*limit {
		t.Errorf("got %d after %d bytes, want 413 after %d", answer.Code, read, limit)
	}
	s := startServer(t, func(o *Options) { o.Limits.BodyBytesMax = limit })
	for _, api := range writeAPIsUnderTest {
		answer := s.send(http.MethodPost, api.url("d"), chunked(strings.Repeat(line, (limit+100<<10)/len(line))))
		api.checkContract(t, answer)
		if answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d %s, want 413", api.name, answer.StatusCode, answer.body)
		}
	}
	if got := s.databases(); len(got) > 0 {
		t.Errorf("got databases %q", got)
	}
}

func fieldCase10(t *testing.T) {
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		for i, contentType := range []string{
			"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json", "text/plain", "", "%/",
		} {
			name := fmt.Sprint(api.name, i)
			s.mustWrite(api.url(name), "cpu v=1i 1", "Content-Type", contentType)
			if got := s.lines(name); !slices.Equal(got, []string{"cpu v=1i 1"}) {
				t.Errorf("%s, %q: stored is %q", api.name, contentType, got)
			}
		}
	}
}

func fieldCase11(t *testing.T) {
	h := newTestHandler(t)
	for _, url := range writeURLs() {
		for _, body := range []string{"m v=1i 1", "m v=bad", ""} {
			for encoding, sent := range map[string]string{"gzip": gzipped(t, body), "identity": body, "unknown": body} {
				do(t, h, http.MethodPost, url, strings.NewReader(sent), "Content-Encoding", encoding) // one answer, or it fails
			}
		}
	}
	// One line was good, of two encodings, on three APIs: each was committed once.
	if got := exposed(t, h)["lineweir_write_points_total"]; got != "6" {
		t.Errorf("got %s points, want 6", got)
	}
	if got := h.engine.Status().WAL.LastSequence; got != 6 {
		t.Errorf("got %d frames, want 6", got)
	}
}

func fieldCase12(t *testing.T) {
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.url("d"), zlibbed(t, "cpu v=1"), "Content-Encoding", "gzip")
		api.checkContract(t, answer)
		if told := api.refusal(t, answer); answer.StatusCode != http.StatusBadRequest || !strings.Contains(told.Text, "gzip") {
			t.Errorf("%s: got %d %+v, want 400 that names gzip", api.name, answer.StatusCode, told)
		}
	}
	if got := s.databases(); len(got) > 0 {
		t.Errorf("got databases %q", got)
	}
}

// afterKill starts another server over what a kill of the first one would leave of its data directory now. Nothing is
// flushed there, so all is in the log.
func (s *served) afterKill(dataDir string) *served {
	s.t.Helper()
	left := s.t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dataDir)); err != nil {
		s.t.Fatal(err)
	}
	return startServerOf(s.t, newTestEngine(s.t, func(o *shard.Options) { o.DataDir = left }))
}

func fieldCase13(t *testing.T) {
	dir := t.TempDir()
	s := startServerOf(t, newTestEngine(t, func(o *shard.Options) { o.DataDir = dir }))
	want := []string{"a v=1i 1", "b v=1i 2", "c,x=y s=\"two\nlines\" 3"}
	for _, line := range want {
		s.mustWrite("/write?db=d", line) // without a line feed
	}
	s = s.afterKill(dir)
	if status := s.handler.engine.Status(); status.Recovery.FramesReplayed != 3 {
		t.Errorf("got %d frames replayed, want 3", status.Recovery.FramesReplayed)
	}
	if diff := cmp.Diff(want, s.lines("d")); diff != "" {
		t.Errorf("after the replay (-want +got):\n%s", diff)
	}
	if answer := s.post("/api/seal?wait=true", ""); answer.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", answer.StatusCode, answer.body)
	}
	if diff := cmp.Diff(want, s.lines("d")); diff != "" {
		t.Errorf("after the flush (-want +got):\n%s", diff)
	}
}

func fieldCase14(t *testing.T) {
	options := DefaultServerOptions()
	options.Handler, options.Logger = newTestHandler(t), zap.NewNop()
	server, err := NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	// Clients flush once a minute, and some more seldom.
	if server.IdleTimeout < 3*time.Minute {
		t.Errorf("idle connections are closed after %s", server.IdleTimeout)
	}
	s := startServer(t)
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	})
	for i := range 3 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/write?db=d", chunked("m v=1i 1"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNoContent || response.Close || reused != (i > 0) {
			t.Errorf("write %d: got %d, close %v, connection reused %v", i, response.StatusCode, response.Close, reused)
		}
	}
}

func fieldCase15(t *testing.T) {
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		s.mustWrite(api.url(api.name), "")
		s.mustWrite(api.url(api.name), "", "Content-Encoding", "gzip")
		s.mustWrite(api.url(api.name), gzipped(t, ""), "Content-Encoding", "gzip")
		s.mustWrite(api.url(api.name), gzipped(t, "cpu v=1i 5"), "Content-Encoding", "gzip")
		s.mustWrite(api.path+api.name+"&precision=s", "cpu v=2i 1700000000")
		want := []string{"cpu v=1i 5", "cpu v=2i 1700000000000000000"}
		if diff := cmp.Diff(want, s.lines(api.name)); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", api.name, diff)
		}
	}
}

func fieldCase16(t *testing.T) {
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		for _, accepts := range []string{"gzip", "gzip, deflate, br, zstd", "identity", "*"} {
			answer := s.post(api.url("d"), "m v=1i 1", "Accept-Encoding", accepts)
			api.checkContract(t, answer) // a 204 has neither Content-Encoding nor body
			if answer.StatusCode != http.StatusNoContent {
				t.Errorf("%s: got %d", api.name, answer.StatusCode)
			}
			api.checkContract(t, s.post(api.url("d"), "bad", "Accept-Encoding", accepts))
		}
	}
}

func fieldCase17(t *testing.T) {
	s := startServer(t)
	for _, path := range []string{
		"/write?db=1&rp=2&precision=aa", "/write?db=1&precision=x", "/write?db=1&precision=S", "/write?db=1&precision=%00",
		"/api/v2/write?bucket=1&precision=m", "/api/v3/write_lp?db=1&precision=h",
	} {
		answer := s.post(path, "cpu v=1i 1")
		api := writeAPIsUnderTest[map[bool]int{true: 0, false: 1}[strings.HasPrefix(path, "/write")]+
			map[bool]int{true: 1}[strings.HasPrefix(path, "/api/v3")]]
		api.checkContract(t, answer) // one JSON object
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d %s, want 400", path, answer.StatusCode, answer.body)
		}
	}
	if got := s.databases(); len(got) > 0 {
		t.Errorf("got databases %q, want nothing written", got)
	}
}

func fieldCase18(t *testing.T) {
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.path+api.name+"&precision=s",
			"census,location=klamath bees=23 1566086400000000000\ncensus,location=klamath bees=24 1566086400\n"+
				"census,location=klamath bees=25 -1566086400000000000")
		api.checkContract(t, answer)
		checkReasons(t, api, []string{"time outside range", "time outside range"}, answer)
		if answer.Close {
			t.Errorf("%s: the connection is closed", api.name)
		}
		want := []string{"census,location=klamath bees=24 1566086400000000000"}
		if diff := cmp.Diff(want, s.lines(api.name)); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", api.name, diff)
		}
	}
}

func fieldCase19(t *testing.T) {
	s := startServer(t)
	s.mustWrite("/write?db=d&precision=m", "cpu v=1i 28333333")
	s.mustWrite("/write?db=d&precision=h", "cpu v=2i 472222")
	s.mustWrite("/write?db=d&precision=h", "cpu v=3i -1")
	want := []string{"cpu v=1i 1699999980000000000", "cpu v=2i 1699999200000000000", "cpu v=3i -3600000000000"}
	if diff := cmp.Diff(want, s.lines("d")); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/api/v2/write?bucket=d&precision=m", "/api/v3/write_lp?db=d&precision=m"} {
		if answer := s.post(path, "cpu v=9i 28333333"); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", path, answer.StatusCode)
		}
	}
	if got := s.lines("d"); len(got) != 3 {
		t.Errorf("a refused precision stored %q", got)
	}
}

func fieldCase20(t *testing.T) {
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		path := api.path + api.name + "&precision=ms"
		before := time.Now().Truncate(time.Millisecond).UnixNano()
		s.mustWrite(path, "cpu,n=1 value=42\ncpu,n=2 value=42\ncpu,n=3 value=42")
		after := time.Now().UnixNano()
		var stamps []int64
		for _, line := range s.lines(api.name) {
			stamp, err := strconv.ParseInt(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
			if err != nil || stamp%int64(time.Millisecond) != 0 || stamp < before || stamp > after {
				t.Errorf("%s: got %q, want a whole millisecond of now", api.name, line)
			}
			stamps = append(stamps, stamp)
		}
		if len(slices.Compact(stamps)) != 1 {
			t.Errorf("%s: got times %d, want one for all lines", api.name, stamps)
		}
	}
}

func fieldCase21(t *testing.T) {
	const outside = "time outside range"
	checkLines(t, []lineCase{
		{"m1 a=1.2 9223372036854775807", nil, []string{outside}},
		{"m1 a=1.2 9223372036854775806", []string{"m1 a=1.2 9223372036854775806"}, nil},
		{"m1 a=1.2 9223372036854775808", nil, []string{outside}},
		{"m1 a=1.2 -9223372036854775808", nil, []string{outside}},
		{"m1 a=1.2 -9223372036854775807", nil, []string{outside}},
		{"m1 a=1.2 -9223372036854775806", []string{"m1 a=1.2 -9223372036854775806"}, nil},
		{"m1 a=1.2 99999999999999999999999", nil, []string{outside}},
	})
}

func fieldCase22(t *testing.T) {
	const reason = `carriage return, \r`
	checkLines(t, []lineCase{
		{"yla1,host=server01 httpsRequests=100i\r\nyla1,host=server01 bodySize=7528i\r\n", nil, []string{reason, reason}},
		{"a s=\"x\"\r\nb s=\"y\" 1", []string{`b s="y" 1`}, []string{reason}},
		{"a v=1i 1\r\nb v=1i 1", []string{"b v=1i 1"}, []string{reason}},
		{"a v=t\r", nil, []string{reason}},
	})
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.url("d"), "a v=1i 1\r\n")
		api.checkContract(t, answer)
		if !strings.Contains(string(answer.body), `a v=1i 1\\r`) && api.name != "v2" {
			t.Errorf("%s: got %s, want it to show the line with its \\r", api.name, answer.body)
		}
	}
}

func fieldCase23(t *testing.T) {
	dir := t.TempDir()
	s := startServerOf(t, newTestEngine(t, func(o *shard.Options) { o.DataDir = dir }))
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.url(api.name), "Disk,check=C:\\,host=web01 value=52.45 1\nok v=1i 1\nDisk,check=C:\\ v=1i 1")
		api.checkContract(t, answer)
		checkReasons(t, api, []string{"tag key", "tag key"}, answer)
	}
	// What is accepted stays what it is, through the log and its replay.
	accepted := []string{
		`Disk,check=C:\\dir\\x v=1i 1`, `Disk,check=C:\\\,host\=web01 v=1i 1`, `Disk,check=a\ b\,c v=1i 1`,
		`Disk\\,a=b v=1i 1`, `Disk,a\\b=\c v=1i 1`, `Disk path="C:\\",q="\"" 1`, `Disk path="C:\new" 2`,
	}
	s.mustWrite("/write?db=d", strings.Join(accepted, "\n"))
	before := s.lines("d")
	if len(before) != len(accepted) {
		t.Errorf("got %d points, want %d", len(before), len(accepted))
	}
	s = s.afterKill(dir)
	if diff := cmp.Diff(before, s.lines("d")); diff != "" {
		t.Errorf("after the replay (-before +after):\n%s", diff)
	}
	// And what a scan shows can be written again, to the same points.
	s.mustWrite("/write?db=again", strings.Join(before, "\n"))
	if diff := cmp.Diff(before, s.lines("again")); diff != "" {
		t.Errorf("written again (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ok v=1i 1"}, s.lines("v1")); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func fieldCase24(t *testing.T) {
	checkLines(t, []lineCase{
		{"m f=\"blah\"=123,r 1531703600000000000", nil, []string{"unexpected character '='"}},
		{"ok v=1i 1\nm f=\"blah\"=123,r 1531703600000000000\nok v=2i 2", []string{"ok v=1i 1", "ok v=2i 2"},
			[]string{"unexpected character '='"}},
	})
	s := startServer(t)
	s.handler.committer = panicking{fake(s.handler), "failed to parse point"}
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.url("d"), "m v=1i 1")
		api.checkContract(t, answer)
		if answer.StatusCode < 500 {
			t.Errorf("%s: a panic is answered %d", api.name, answer.StatusCode)
		}
	}
	s.handler.committer = s.handler.engine
	if got := s.databases(); len(got) > 0 {
		t.Errorf("a panic left %q", got)
	}
	s.mustWrite("/write?db=d", "m v=1i 1")
}

func fieldCase25(t *testing.T) {
	const body = "# comment\nok v=1i 1\ncpu,tag=foo\nbar count=1i 1\nnone\n"
	checkLines(t, []lineCase{
		{body, []string{"bar count=1i 1", "ok v=1i 1"}, []string{"missing fields", "missing fields"}},
	})
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.url("d"), body)
		told := api.refusal(t, answer)
		lines := fmt.Sprint(told.Text, told.Line, told.Data)
		want := map[string]string{"v1": "line 3: missing fields; unable to parse 'none': line 5", "v2": "line 3", "v3": " 3 missing"}
		if !strings.Contains(lines, want[api.name]) {
			t.Errorf("%s: got %s, want the physical line 3", api.name, lines)
		}
	}
}

func fieldCase26(t *testing.T) {
	checkLines(t, []lineCase{
		{"foo,tag1=xyz field1=1.23 \nok v=1i 1", []string{"foo,tag1=xyz field1=1.23 T", "ok v=1i 1"}, nil},
		{"foo field1=1.23   \n", []string{"foo field1=1.23 T"}, nil},
		{"foo field1=1.23 5  \n", []string{"foo field1=1.23 5"}, nil},
		{"  foo   field1=1.23   5", []string{"foo field1=1.23 5"}, nil},
	})
}

func fieldCase27(t *testing.T) {
	checkLines(t, []lineCase{
		{"t A=1,A=1 1", []string{"t A=1 1"}, nil},
		{"t A=1,A=2 1", []string{"t A=2 1"}, nil},
		{"t A=1,B=2,A=3,B=4 1", []string{"t A=3,B=4 1"}, nil},
		{"t A=1,A=1i 1", nil, []string{"type conflict"}},
		{"t,x=1,x=2 A=1 1", nil, []string{"duplicate tag"}},
		{"t,x=1,x=1 A=1 1", nil, []string{"duplicate tag"}},
		{"t,x=1,y=1,x=1 A=1 1", nil, []string{"duplicate tag"}},
		{"t,A=1 A=1 1", nil, []string{"has the key of a tag"}},
		{"t A=1 1\nt,A=1 B=1 2", []string{"t A=1 1"}, []string{"has the key of a field"}},
	})
}

func fieldCase28(t *testing.T) {
	const reason = "a field can't be called time"
	checkLines(t, []lineCase{
		{"weather,location=ca time=82", nil, []string{reason}},
		{"weather,location=ca time=82,temperature=82", nil, []string{reason}},
		{"weather,location=ca temperature=82,time=82 1\nok v=1i 1", []string{"ok v=1i 1"}, []string{reason}},
		{"weather,time=x temperature=82", nil, []string{"a tag can't be called time"}},
		{"weather,Time=x Time2=82 1", []string{"weather,Time=x Time2=82 1"}, nil},
		{"time v=1i 1", []string{"time v=1i 1"}, nil}, // a measurement may
	})
}

func fieldCase29(t *testing.T) {
	const body = "cpu v=1i 1\ncpu mean=%s 1464880881814000000\ncpu v=2i 2"
	stored := []string{"cpu v=1i 1", "cpu v=2i 2"}
	var cases []lineCase
	for _, value := range []string{
		"NaN", "nan", "Inf", "+Inf", "-Inf", "inf", "Infinity", "-Infinity", "1e400", "-1e400", strings.Repeat("9", 400),
		"1#INF", "null", "",
	} {
		cases = append(cases, lineCase{fmt.Sprintf(body, value), stored, []string{""}})
	}
	checkLines(t, append(cases,
		lineCase{fmt.Sprintf(body, "1.7976931348623157e308"), []string{
			"cpu mean=1.7976931348623157e+308 1464880881814000000", "cpu v=1i 1", "cpu v=2i 2",
		}, nil}))
}

func fieldCase30(t *testing.T) {
	checkLines(t, []lineCase{
		{"cpu,host=a host=\"b\",v=1", nil, []string{"has the key of a tag"}},
		{"cpu,host=a v=1,host=\"b\"\nok v=1i 1", []string{"ok v=1i 1"}, []string{"has the key of a tag"}},
		{"cpu,host=a v=1 1\ncpu host=1 2\ncpu,v=x w=1 3", []string{"cpu,host=a v=1 1"},
			[]string{"has the key of a tag", "has the key of a field"}},
	})
}

func fieldCase31(t *testing.T) {
	checkLines(t, []lineCase{
		{`foo value="a "b" c"`, nil, []string{"unexpected character 'b'"}},
		{`foo value="abc"x 1`, nil, []string{"unexpected character 'x'"}},
		{"foo value=\"a \"b\" c\" 1\nok v=1i 1", []string{"ok v=1i 1"}, []string{"unexpected character 'b'"}},
		{`foo value="abc""def" 1`, nil, []string{""}},
		{`foo value="a \"b\" c" 1`, []string{`foo value="a \"b\" c" 1`}, nil},
		{"foo v=bad,f=\"x\ncpu usage=100 5\n\"\nok v=1i 1\n", []string{"ok v=1i 1"}, []string{"unrecognized type"}},
	})
}

func fieldCase32(t *testing.T) {
	checkLines(t, []lineCase{
		{"****8&^@", nil, []string{"missing fields"}},
		{"hello", nil, []string{"missing fields"}},
		{"{\"v\": 1}", nil, []string{""}},
		{"<html>\n<body>", nil, []string{"missing fields", "missing fields"}},
		{"\x1f\x8b\x08", nil, []string{""}},
		{"ok v=1i 1\n****8&^@", []string{"ok v=1i 1"}, []string{"missing fields"}},
	})
}

func fieldCase33(t *testing.T) {
	checkLines(t, []lineCase{
		{"# ERROR: NaN value\ncpu v=1i 1\n", []string{"cpu v=1i 1"}, nil},
		{"  # indented\ncpu v=1i 1\n", []string{"cpu v=1i 1"}, nil},
		{"#\ta\tTAB\ncpu v=1i 1\n#\x01\x7f\xff \"\n", []string{"cpu v=1i 1"}, nil},
		{"cpu v=1i 1\n# the last line", []string{"cpu v=1i 1"}, nil},
		{"#", nil, nil},
	})
}

func fieldCase34(t *testing.T) {
	for _, api := range writeAPIsUnderTest {
		s := startServer(t)
		s.mustWrite(api.url("d"), "test value=1 1")
		answer := s.post(api.url("d"), "test2 value=1 1\ntest3 value=1 1\ntest value=1i 2")
		api.checkContract(t, answer)
		checkReasons(t, api, []string{"type conflict"}, answer)
		want := []string{"test value=1 1", "test2 value=1 1", "test3 value=1 1"}
		if diff := cmp.Diff(want, s.lines("d")); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", api.name, diff)
		}
	}
	// All or nothing leaves no trace: no database, measurement, column or count.
	s, api := startServer(t), writeAPIsUnderTest[2]
	s.mustWrite(api.url("d"), "test value=1 1")
	frames := s.handler.engine.Status().WAL.LastSequence
	for _, database := range []string{"d", "new"} {
		answer := s.post(api.url(database)+"&accept_partial=false", "test2,tag=x value=1 1\ntest value=bad 2")
		api.checkContract(t, answer)
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d, want 400", answer.StatusCode)
		}
	}
	if got := s.databases(); !slices.Equal(got, []string{"d"}) {
		t.Errorf("got databases %q", got)
	}
	if got := s.statement("d", "SHOW MEASUREMENTS"); !slices.Equal(got, []string{"test"}) {
		t.Errorf("got measurements %q", got)
	}
	if got := s.handler.engine.Status().WAL.LastSequence; got != frames {
		t.Errorf("got %d frames, want %d", got, frames)
	}
	if got := exposed(t, s.handler)["lineweir_write_points_total"]; got != "1" {
		t.Errorf("got %s points counted, want 1", got)
	}
	s.mustWrite(api.url("d"), "test2,value=x tag=\"now a field\" 1") // so neither column was bound
}

func fieldCase35(t *testing.T) {
	made := newTokens(t)
	s := startServer(t, made.use) // a probe needs no token
	for _, tc := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/ping", 204}, {"HEAD", "/ping", 204}, {"GET", "/ping?verbose=true", 200}, {"GET", "/ping?verbose=1", 200},
		{"GET", "/ping?verbose=false", 204}, {"GET", "/health", 200}, {"HEAD", "/health", 200}, {"GET", "/ready", 200},
	} {
		answer := s.send(tc.method, tc.path, nil)
		version := answer.Header.Get("X-Influxdb-Version")
		if answer.StatusCode != tc.status || !strings.HasPrefix(version, "1.") || answer.Header.Get("X-Influxdb-Build") == "" {
			t.Errorf("%s %s: got %d, version %q, want %d", tc.method, tc.path, answer.StatusCode, version, tc.status)
		}
		var body struct{ Version string }
		if strings.Contains(tc.path, "verbose") && tc.status == 200 {
			if err := json.Unmarshal(answer.body, &body); err != nil || body.Version != version {
				t.Errorf("%s: got %s, want the version %q", tc.path, answer.body, version)
			}
		}
	}
}

func fieldCase36(t *testing.T) {
	made := newTokens(t)
	s := startServer(t, made.use)
	secret := made.secrets["write"]
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, api := range writeAPIsUnderTest {
		for _, tc := range []struct {
			authorization, query string
			status               int
		}{
			{basic("ignored", secret), "", 204},
			{basic("", secret), "", 204},
			{strings.Replace(basic("ignored", secret), "Basic", "bAsIc", 1), "", 204},
			{"Token " + secret, "", 204},
			{"Token user:" + secret, "", 204},
			{"bearer " + secret, "", 204},
			{"", "&u=ignored&p=" + secret, 204},
			{"", "&p=" + secret, 204},
			{basic(secret, "wrong"), "", 401},
			{basic("ignored", "wrong"), "", 401},
			{"", "&u=" + secret + "&p=wrong", 401},
			{"", "", 401},
		} {
			var headers []string
			if tc.authorization != "" {
				headers = []string{"Authorization", tc.authorization}
			}
			answer := s.post(api.url("d")+tc.query, "m v=1i 1", headers...)
			api.checkContract(t, answer, secret)
			if answer.StatusCode != tc.status {
				t.Errorf("%s, %q, %q: got %d, want %d", api.name, tc.authorization, tc.query, answer.StatusCode, tc.status)
			}
		}
	}
}
