package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	scans "lineweir/query"
	"lineweir/shard"
)

// served is a server as clients find it: over a connection, and with scans by which they read back what they wrote.
type served struct {
	*httptest.Server
	handler *Handler
	t       testing.TB
}

// startServer starts a server of a new engine.
func startServer(t testing.TB, change ...func(*Options)) *served {
	t.Helper()
	return startServerOf(t, newTestEngine(t), change...)
}

func startServerOf(t testing.TB, engine *shard.Engine, change ...func(*Options)) *served {
	t.Helper()
	scan, err := scans.NewHandler(scans.Options{Store: engine, Logger: zap.NewNop(), WriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	h := newHandlerOf(t, engine, append([]func(*Options){func(o *Options) { o.Scan = scan.Scan }}, change...)...)
	s := &served{Server: httptest.NewServer(h), handler: h, t: t}
	t.Cleanup(s.Close)
	return s
}

// received is an answer, read to its end.
type received struct {
	*http.Response
	body []byte
}

// send sends a request with headers given as name, value, name, value, and reads the whole answer. It asks for a
// compressed answer, as Go's clients do, and would see that it is one.
func (s *served) send(method, path string, body io.Reader, headers ...string) received {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := s.Client().Do(r)
	if err != nil {
		s.t.Fatalf("%s %.100s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatalf("%s %.100s: read the answer: %v", method, path, err)
	}
	return received{response, text}
}

// post writes a body as it is.
func (s *served) post(path, body string, headers ...string) received {
	s.t.Helper()
	return s.send(http.MethodPost, path, strings.NewReader(body), headers...)
}

// mustWrite writes lines that are good.
func (s *served) mustWrite(path, lines string, headers ...string) {
	s.t.Helper()
	if answer := s.post(path, lines, headers...); answer.StatusCode != http.StatusNoContent {
		s.t.Fatalf("%.100s: got %d %s, want 204", path, answer.StatusCode, answer.body)
	}
}

// statement executes a statement and returns the names in its answer.
func (s *served) statement(database, q string) []string {
	s.t.Helper()
	form := url.Values{"q": {q}, "db": {database}}.Encode()
	answer := s.post("/query", form, "Content-Type", "application/x-www-form-urlencoded")
	var body struct {
		Results []struct {
			Error  string
			Series []struct{ Values [][]any }
		}
	}
	if err := json.Unmarshal(answer.body, &body); err != nil || answer.StatusCode != http.StatusOK ||
		body.Results[0].Error != "" {
		s.t.Fatalf("%s: got %d %s, %v", q, answer.StatusCode, answer.body, err)
	}
	var found []string
	for _, table := range body.Results[0].Series {
		for _, row := range table.Values {
			found = append(found, fmt.Sprint(row[0]))
		}
	}
	return found
}

// databases lists what there is.
func (s *served) databases() []string {
	s.t.Helper()
	return s.statement("", "SHOW DATABASES")
}

// lines reads a whole database back, as lines in ascending order with ascending fields.
func (s *served) lines(database string) []string {
	s.t.Helper()
	if !slices.Contains(s.databases(), database) {
		return nil
	}
	all := map[string]map[string]string{}
	for _, measurement := range s.statement(database, "SHOW MEASUREMENTS") {
		answer := s.send(http.MethodGet, "/api/scan?db="+url.QueryEscape(database)+"&measurement="+
			url.QueryEscape(measurement), nil)
		if answer.StatusCode != http.StatusOK {
			s.t.Fatalf("scan %q: got %d %s", measurement, answer.StatusCode, answer.body)
		}
		gather(s.t, all, answer.body)
	}
	return canonical(all)
}

// gather adds the points of lines to what was written before: by series and time, the newest value of each field.
func gather(t testing.TB, all map[string]map[string]string, lines []byte) {
	t.Helper()
	var r pointRecorder
	result, err := NewParser(replayLimits()).Parse(lines, PrecisionNanosecond, testDefaultTime, &gatherer{&r, all})
	if err != nil || result.Refused > 0 {
		t.Fatalf("%.200q: %v, %v", lines, err, result.Errors)
	}
}

type gatherer struct {
	recorder *pointRecorder
	all      map[string]map[string]string
}

func (g *gatherer) Append(p *shard.Point) error {
	fields := p.Fields
	series := *p
	series.Fields = nil
	if err := g.recorder.Append(&series); err != nil {
		return err
	}
	key := g.recorder.lines[len(g.recorder.lines)-1]
	if g.all[key] == nil {
		g.all[key] = map[string]string{}
	}
	for i := range fields {
		name := string(appendEscaped(nil, fields[i].Key, true))
		g.all[key][name] = string(appendValue(nil, &fields[i]))
	}
	return nil
}

// canonical forms lines of what was gathered.
func canonical(all map[string]map[string]string) []string {
	var lines []string
	for key, fields := range all {
		at := strings.LastIndexByte(key, ' ')
		var list []string
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			list = append(list, name+"="+fields[name])
		}
		lines = append(lines, key[:at]+" "+strings.Join(list, ",")+key[at:])
	}
	slices.Sort(lines)
	return lines
}

// writeAPIsUnderTest are the three write APIs as clients call them, all with timestamps in nanoseconds.
var writeAPIsUnderTest = []apiUnderTest{
	{"v1", "/write?db=", "ns", "error"},
	{"v2", "/api/v2/write?bucket=", "ns", "message"},
	{"v3", "/api/v3/write_lp?db=", "nanosecond", "error"},
}

type apiUnderTest struct {
	name, path string // path up to the database
	ns         string // how it calls nanoseconds
	text       string // key of the text of an error
}

// url is where lines of a database go.
func (a apiUnderTest) url(database string) string {
	return a.path + url.QueryEscape(database) + "&precision=" + a.ns
}

// refusal is the error that an answer tells.
type refusal struct {
	Text       string
	Code       string
	Line       int
	Data       []lineInV3
	Cause      string
	RetryAfter int
}

// refusal checks that an answer is an error in the shape of the API, of the right types and with nothing beside.
func (a apiUnderTest) refusal(t testing.TB, answer received) refusal {
	t.Helper()
	var known any
	var got refusal
	switch a.name {
	case "v1":
		var body errorBodyV1
		known, got = &body, refusal{}
		decodeStrictly(t, answer, known)
		got = refusal{Text: body.Error, Cause: body.Cause, RetryAfter: body.RetryAfter}
	case "v2":
		var body errorBodyV2
		decodeStrictly(t, answer, &body)
		got = refusal{
			Text: body.Message, Code: body.Code, Line: body.Line, Cause: body.Cause, RetryAfter: body.RetryAfter,
		}
		if body.Code == "" {
			t.Errorf("%s: no code in %s", a.name, answer.body)
		}
	default:
		var body errorBodyV3
		decodeStrictly(t, answer, &body)
		got = refusal{Text: body.Error, Data: body.Data, Cause: body.Cause, RetryAfter: body.RetryAfter}
	}
	if got.Text == "" {
		t.Errorf("%s: no text in %s", a.name, answer.body)
	}
	return got
}

func decodeStrictly(t testing.TB, answer received, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(answer.body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		t.Errorf("the answer %d %q is not one JSON object of the API: %v", answer.StatusCode, answer.body, err)
	}
}

// checkContract checks what holds for every answer of a write API, whatever happened.
func (a apiUnderTest) checkContract(t testing.TB, answer received, secrets ...string) {
	t.Helper()
	for _, name := range []string{"X-Influxdb-Version", "X-Influxdb-Build", "Request-Id", "X-Request-Id"} {
		if values := answer.Header.Values(name); len(values) != 1 || values[0] == "" {
			t.Errorf("%s: the answer has %s %q, want one", a.name, name, values)
		}
	}
	if encoding := answer.Header.Get("Content-Encoding"); encoding != "" {
		t.Errorf("%s: the answer has Content-Encoding %q", a.name, encoding)
	}
	if answer.StatusCode == http.StatusNoContent {
		a.checkSuccess(t, answer)
		return
	}
	if answer.StatusCode < 400 || answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusRequestTimeout {
		t.Errorf("%s: got %d, which makes some client do the wrong thing", a.name, answer.StatusCode)
	}
	if answer.Header.Get("Content-Type") != "application/json" || len(answer.body) > answerBytesMax {
		t.Errorf("%s: got %q and %d bytes, want bounded JSON", a.name, answer.Header.Get("Content-Type"), len(answer.body))
	}
	a.checkTexts(t, answer, a.refusal(t, answer), secrets)
	a.checkRetry(t, answer, a.refusal(t, answer))
}

// answerBytesMax bounds every error, however many lines are bad.
const answerBytesMax = 8 << 10

func (a apiUnderTest) checkSuccess(t testing.TB, answer received) {
	t.Helper()
	for _, name := range []string{"Content-Type", "Retry-After", "X-Influxdb-Error", "Transfer-Encoding"} {
		if value := answer.Header.Get(name); value != "" {
			t.Errorf("%s: a 204 has %s %q", a.name, name, value)
		}
	}
	if len(answer.body) > 0 || answer.ContentLength > 0 {
		t.Errorf("%s: a 204 has a body of %d bytes: %q", a.name, answer.ContentLength, answer.body)
	}
}

// checkTexts looks for what may not stand in an answer.
func (a apiUnderTest) checkTexts(t testing.TB, answer received, told refusal, secrets []string) {
	t.Helper()
	shown := string(answer.body) + answer.Header.Get("X-Influxdb-Error")
	for _, c := range shown {
		if c < ' ' && c != '\n' || c == 0x7f || c == 0xfffd {
			t.Errorf("%s: the answer holds %q: %q", a.name, c, shown)
		}
	}
	if strings.Contains(strings.TrimSuffix(string(answer.body), "\n"), "\n") || strings.Contains(shown, "\\u0000") {
		t.Errorf("%s: the answer holds a control character: %q", a.name, shown)
	}
	for _, secret := range secrets {
		if strings.Contains(fmt.Sprint(shown, answer.Header), secret) {
			t.Errorf("%s: the answer holds the token: %q %v", a.name, shown, answer.Header)
		}
	}
	text := told.Text
	if a.name == "v1" && answer.StatusCode < 500 {
		text = strings.TrimPrefix(text, partialWrite) // there it belongs
		text = strings.ReplaceAll(text, "unable to parse '", "")
	}
	for _, active := range append([]string{"database not found"}, activeText...) {
		if strings.Contains(text, active) {
			t.Errorf("%s: %d with %q, on which a client acts: %q", a.name, answer.StatusCode, active, told.Text)
		}
	}
}

// checkRetry checks that what goes away says when, and nothing else does.
func (a apiUnderTest) checkRetry(t testing.TB, answer received, told refusal) {
	t.Helper()
	after := answer.Header.Get("Retry-After")
	if answer.StatusCode != http.StatusServiceUnavailable {
		if after != "" || told.Cause != "" || told.RetryAfter != 0 {
			t.Errorf("%s: %d with Retry-After %q and %+v", a.name, answer.StatusCode, after, told)
		}
		return
	}
	seconds, err := strconv.Atoi(after)
	if err != nil || seconds < 1 || told.RetryAfter != seconds || told.Cause == "" {
		t.Errorf("%s: 503 with Retry-After %q and %+v", a.name, after, told)
	}
}
