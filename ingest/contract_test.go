package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/auth"
	"lineweir/shard"
)

// contractCase is one event of the contract: how it comes about, and what a client is told.
type contractCase struct {
	name    string
	change  func(*Options)
	arrange func(t *testing.T, s *served)
	body    string
	headers []string
	// status for versions 1, 2 and 3.
	status [3]int
	cause  string   // of a 503
	text   string   // part of the text
	stored []string // lines of the database d
	closes bool
}

func all(status int) [3]int { return [3]int{status, status, status} }

// engineSays replaces answers of the engine.
func engineSays(set func(f *fakeEngine)) func(*testing.T, *served) {
	return func(_ *testing.T, s *served) { set(fake(s.handler)) }
}

func contractCases(t *testing.T) []contractCase {
	const good, badLine = "m v=1i 1", "m v=1bad\x01 2"
	magic := strings.Join(activeText, ";") + ";database not found\x00\x1b[31m\r"
	made, broken := newTokens(t), newTokens(t)
	manyBad := strings.Repeat("m\x01,"+magic+strings.Repeat("x", 300)+"\n", 5000)
	small := func(o *Options) {
		o.Limits.BodyBytesMax = 1000
		o.Limits.InFlightBytesMax = 1 << 20
	}
	return []contractCase{
		{name: "accepted", body: good, status: all(204), stored: []string{"m v=1i 1"}},
		{name: "accepted, compressed", body: gzipped(t, good), headers: []string{"Content-Encoding", "gzip"},
			status: all(204), stored: []string{"m v=1i 1"}},
		{name: "empty", status: all(204)},
		{name: "comments", body: "# c\n\n  # d\te\n", status: all(204)},
		{name: "nothing, said to be gzip", headers: []string{"Content-Encoding", "gzip"}, status: all(204)},
		{name: "nothing in gzip", body: gzipped(t, ""), headers: []string{"Content-Encoding", "gzip"}, status: all(204)},
		{name: "some lines bad", body: good + "\n" + badLine + "\nm v=3i 3", status: all(400),
			text: `float "1bad\x01" is invalid`, stored: []string{"m v=1i 1", "m v=3i 3"}},
		{name: "all lines bad", body: badLine, status: all(400), text: `float "1bad\x01" is invalid`},
		{name: "very many bad lines", body: manyBad, status: all(400), text: ""},
		{name: "bad gzip", body: "no" + magic, headers: []string{"Content-Encoding", "gzip"}, status: all(400),
			text: "not valid gzip"},
		{name: "bad encoding", body: good, headers: []string{"Content-Encoding", "x" + strings.Join(activeText, "-")},
			status: all(400), text: "is unknown"},
		{name: "no token", change: made.use, body: good, status: all(401), text: "a token is needed"},
		{name: "bad token", change: made.use, body: good, headers: []string{"Authorization", "Token lw_secret"},
			status: all(401), text: "not known"},
		{name: "malformed token", change: made.use, body: good, headers: []string{"Authorization", "Digest lw_secret"},
			status: all(401), text: "can't be read"},
		{name: "a token for something else", change: made.use, body: good, headers: made.header("read"), status: all(403),
			text: `may not write the database "d"`},
		{name: "tokens can't be read", change: broken.use, body: good, headers: broken.header("write"),
			arrange: func(t *testing.T, s *served) { breakTokens(t, broken.dataDir, s) }, status: all(503),
			cause: reasonTokens},
		{name: "shutting down", body: good, arrange: func(_ *testing.T, s *served) { s.handler.engine.Drain() },
			status: all(503), cause: shard.CauseDraining},
		{name: "not ready", body: good, status: all(503), cause: shard.CauseRecovering,
			arrange: engineSays(func(f *fakeEngine) { f.unavailable = busy(shard.CauseRecovering) })},
		{name: "full", body: good, status: all(503), cause: shard.CauseL0Full,
			arrange: engineSays(func(f *fakeEngine) { f.admit = busy(shard.CauseL0Full) })},
		{name: "full at the commit", body: good + "\n" + badLine, status: all(503), cause: shard.CauseFrozenFull,
			arrange: engineSays(func(f *fakeEngine) { f.write = func() error { return busy(shard.CauseFrozenFull) } })},
		{name: "no memory", body: good, status: all(503), cause: shard.CauseMemory,
			arrange: func(_ *testing.T, s *served) { s.handler.budget.usedBytes.Store(s.handler.budget.limitBytes) }},
		{name: "long body", change: small, body: strings.Repeat(good+"\n", 200), status: all(413),
			text: "send fewer lines"},
		{name: "one long line", change: small, body: "m s=\"" + strings.Repeat("x", 1000) + "\" 1", status: all(400),
			text: "the line can never be stored"},
		{name: "a batch that no memtable holds", body: good + "\nm v=2i 2", status: all(413), text: "send fewer lines",
			arrange: engineSays(func(f *fakeEngine) { f.admit = &shard.TooLargeError{Points: 2} })},
		{name: "a line that no memtable holds", body: good, status: all(400), text: "the line can never be stored",
			arrange: engineSays(func(f *fakeEngine) { f.admit = &shard.TooLargeError{Points: 1} })},
		{name: "slow body", change: func(o *Options) { o.Limits.BodyTimeout = 50 * time.Millisecond }, body: slowBody,
			status: all(503), cause: reasonStalled, closes: true},
		{name: "internal error", body: good, status: [3]int{500, 503, 503}, text: "internal error",
			arrange: engineSays(func(f *fakeEngine) { f.write = func() error { return errors.New(magic) } })},
		{name: "panic", body: good, status: [3]int{500, 503, 503}, text: "internal error",
			arrange: func(_ *testing.T, s *served) { s.handler.committer = panicking{fake(s.handler), magic} }},
		{name: "schema that does not settle", body: good, status: all(503), cause: reasonSchema,
			arrange: engineSays(func(f *fakeEngine) { f.write = func() error { return shard.ErrSchemaChanged } })},
		{name: "a request that ended while it waited", body: good, status: all(503), cause: reasonGone, closes: true,
			arrange: engineSays(func(f *fakeEngine) { f.write = func() error { return context.Canceled } })},
	}
}

// slowBody stands for a body that begins and does not go on.
const slowBody = "slow"

// panicking panics before anything is committed.
type panicking struct {
	*fakeEngine
	text string
}

func (p panicking) Admit(*shard.Batch) error { panic(p.text) }

// breakTokens makes the token file unreadable, for root too, and returns when the server knows.
func breakTokens(t *testing.T, dataDir string, s *served) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dataDir, "auth", "tokens"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.handler.options.Tokens.Ready(); !errors.Is(err, auth.ErrUnreadable) {
		t.Fatalf("the tokens are damaged, and the server says %v", err)
	}
}

// TestAnswersKeepTheContract runs every event of the contract against each write API, over a connection.
func TestAnswersKeepTheContract(t *testing.T) {
	for _, tc := range contractCases(t) {
		for i, api := range writeAPIsUnderTest {
			t.Run(tc.name+"/"+api.name, func(t *testing.T) {
				var change []func(*Options)
				if tc.change != nil {
					change = append(change, tc.change)
				}
				s := startServer(t, change...)
				if tc.arrange != nil {
					tc.arrange(t, s)
				}
				answer := s.sendCase(&tc, api)
				checkCase(t, &tc, api, tc.status[i], answer)
				if tc.name == "shutting down" || tc.change != nil && tc.status[i] >= 401 && tc.status[i] != 413 {
					return // nothing can be read back without a token
				}
				s.handler.committer, s.handler.gate = s.handler.engine, s.handler.engine
				s.handler.budget.usedBytes.Store(0)
				if diff := cmp.Diff(tc.stored, s.lines("d")); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func (s *served) sendCase(tc *contractCase, api apiUnderTest) received {
	headers := append([]string{"X-Request-Id", "case-1"}, tc.headers...)
	if tc.body != slowBody {
		return s.post(api.url("d")+"&u=any&p=", tc.body, headers...)
	}
	reader, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	go func() { _, _ = io.WriteString(writer, "m v=1i 1\n") }()
	return s.send(http.MethodPost, api.url("d"), reader, headers...)
}

func checkCase(t *testing.T, tc *contractCase, api apiUnderTest, status int, answer received) {
	t.Helper()
	if answer.StatusCode != status {
		t.Errorf("got %d %s, want %d", answer.StatusCode, answer.body, status)
	}
	if id := answer.Header.Get("Request-Id"); id != "case-1" || answer.Header.Get("X-Request-Id") != id {
		t.Errorf("got Request-Id %q, want the client's", id)
	}
	if tc.closes != answer.Close {
		t.Errorf("the connection closes: %v, want %v", answer.Close, tc.closes)
	}
	api.checkContract(t, answer, "lw_secret")
	if status == http.StatusNoContent {
		return
	}
	told := api.refusal(t, answer)
	if !strings.Contains(fmt.Sprint(told.Text, told.Data), tc.text) {
		t.Errorf("got %+v, want it to hold %q", told, tc.text)
	}
	if tc.cause != "" && told.Cause != tc.cause {
		t.Errorf("got cause %q, want %q", told.Cause, tc.cause)
	}
	if authenticate := answer.Header.Get("WWW-Authenticate"); (status == 401) != strings.HasPrefix(authenticate, "Basic ") {
		t.Errorf("%d with WWW-Authenticate %q", status, authenticate)
	}
	lines := status == 400 && (strings.Contains(tc.name, "line"))
	switch {
	case api.name == "v1" && lines != strings.HasPrefix(told.Text, partialWrite):
		t.Errorf("got %q; want it to begin with %q for bad lines, and only then", told.Text, partialWrite)
	case api.name == "v1" && answer.Header.Get("X-Influxdb-Error") != headerText(told.Text):
		t.Errorf("got X-Influxdb-Error %q, want the text", answer.Header.Get("X-Influxdb-Error"))
	case api.name == "v2" && told.Code != codeV2(status):
		t.Errorf("got code %q, want %q", told.Code, codeV2(status))
	}
}

// TestRefusedLinesAreDescribedAlike sends good and bad lines to each API.
func TestRefusedLinesAreDescribedAlike(t *testing.T) {
	const body = "# comment\nm v=1i 1\n\nm v=x\x02 2\nm s=\"two\nlines\" 3\nm,time=a v=1i 4\n"
	s := startServer(t)
	for _, api := range writeAPIsUnderTest {
		answer := s.post(api.url(api.name), body)
		api.checkContract(t, answer)
		told := api.refusal(t, answer)
		switch api.name {
		case "v1":
			want := `partial write: unable to parse 'm v=x\x02 2': line 4: field value has unrecognized type; ` +
				`unable to parse 'm,time=a v=1i 4': line 7: a tag can't be called time; dropped=2`
			if told.Text != want {
				t.Errorf("got %q, want %q", told.Text, want)
			}
		case "v2":
			want := `2 of 4 lines refused, the others are stored; line 4: field value has unrecognized type; ` +
				`line 7: a tag can't be called time`
			if told.Text != want || told.Line != 4 {
				t.Errorf("got %+v, want %q from line 4", told, want)
			}
		default:
			want := []lineInV3{
				{`m v=x\x02 2`, 4, "field value has unrecognized type"},
				{"m,time=a v=1i 4", 7, "a tag can't be called time"},
			}
			const text = "line protocol parsing error: 2 of 4 lines refused, the others are stored"
			if diff := cmp.Diff(want, told.Data); diff != "" || told.Text != text {
				t.Errorf("got %q, lines (-want +got):\n%s", told.Text, diff)
			}
		}
		want := []string{"m s=\"two\nlines\" 3", "m v=1i 1"}
		if diff := cmp.Diff(want, s.lines(api.name)); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", api.name, diff)
		}
	}
}

// TestWhatNoRouteTakesKeepsTheContract covers paths and methods that there are not.
func TestWhatNoRouteTakesKeepsTheContract(t *testing.T) {
	s := startServer(t)
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
		api          int
	}{
		{"POST", "/nope?p=lw_secret", 404, "", 0},
		{"POST", "/partial%20write/unable%20to%20parse/%00%1b/database%20not%20found", 404, "", 0},
		{"BREW", "/nope", 404, "", 0},
		{"POST", "/api/v2/api/v2/write", 404, "", 1},
		{"BREW", "/api/v2/nope", 404, "", 1},
		{"POST", "/api/v3/write", 404, "", 2},
		{"GET", "/write?db=d", 405, "POST", 0},
		{"BREW", "/write?db=d", 405, "POST", 0},
		{"OPTIONS", "/write?db=d", 405, "POST", 0},
		{"PUT", "/api/v2/write?bucket=d", 405, "POST", 1},
		{"BREW", "/api/v2/write?bucket=d", 405, "POST", 1},
		{"DELETE", "/api/v3/write_lp?db=d", 405, "POST", 2},
		{"PATCH", "/query", 405, "GET, POST", 0},
		{"POST", "/ping", 405, "GET, HEAD", 0},
	} {
		answer := s.send(tc.method, tc.path, strings.NewReader("m v=1i 1"))
		if answer.StatusCode != tc.status || answer.Header.Get("Allow") != tc.allow {
			t.Errorf("%s %s: got %d, Allow %q, want %d, %q", tc.method, tc.path, answer.StatusCode,
				answer.Header.Get("Allow"), tc.status, tc.allow)
		}
		writeAPIsUnderTest[tc.api].checkContract(t, answer, "lw_secret")
	}
	for _, path := range []string{"/nope", "/write"} {
		answer := s.send(http.MethodHead, path, nil)
		length, err := strconv.Atoi(answer.Header.Get("Content-Length"))
		if answer.StatusCode < 404 || len(answer.body) > 0 || err != nil || length == 0 {
			t.Errorf("HEAD %s: got %d with %q", path, answer.StatusCode, answer.body)
		}
	}
	if got := s.databases(); len(got) > 0 {
		t.Errorf("got databases %q, want none", got)
	}
}
