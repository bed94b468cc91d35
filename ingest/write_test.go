package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/shard"
)

func TestEveryWritePathStores(t *testing.T) {
	h := newTestHandler(t)
	for i, url := range writeURLs() {
		answer := post(t, h, url+"&precision=ns", fmt.Sprintf("m,host=a v=%di %d\n", i, i))
		if answer.Code != http.StatusNoContent || answer.Body.Len() != 0 {
			t.Errorf("%s: got %d %q, want 204 and no body", url, answer.Code, answer.Body)
		}
		for _, name := range []string{"Content-Encoding", "Content-Type", "Retry-After", "X-Influxdb-Error"} {
			if value := answer.Header().Get(name); value != "" {
				t.Errorf("%s: a 204 has %s %q", url, name, value)
			}
		}
	}
	want := []string{"host=a,0 v=0", "host=a,1 v=1", "host=a,2 v=2"}
	if diff := cmp.Diff(want, points(t, h, "d", "m")); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

func TestOneNameForDatabaseAndBucket(t *testing.T) {
	for _, tc := range []struct {
		url  string
		want string // name of the database
	}{
		{"/write?db=d", "d"},
		{"/write?db=d&rp=", "d"},
		{"/write?db=d&rp=autogen", "d"},
		{"/write?db=d&rp=default", "d"},
		{"/write?db=d&rp=week", "d/week"},
		{"/write?db=d%2Fweek", "d/week"},
		{"/write?db=d&rp=week&consistency=all&u=x&p=y", "d/week"},
		{"/api/v2/write?bucket=d", "d"},
		{"/api/v2/write?org=o&bucket=d%2F", "d"},
		{"/api/v2/write?bucket=d%2Fautogen", "d"},
		{"/api/v2/write?bucket=d%2Fweek", "d/week"},
		{"/api/v3/write_lp?db=d", "d"},
		{"/api/v3/write_lp?db=d%2Fweek&no_sync=true&accept_partial=1", "d/week"},
		{"/write?db=%C3%A9%20%22x%22", `é "x"`},
	} {
		h := newTestHandler(t)
		if answer := post(t, h, tc.url, "m v=1i 1"); answer.Code != http.StatusNoContent {
			t.Errorf("%s: got %d %s", tc.url, answer.Code, answer.Body)
		}
		if got := h.engine.Databases(); !cmp.Equal(got, []string{tc.want}) {
			t.Errorf("%s: got databases %q, want %q", tc.url, got, tc.want)
		}
	}
}

// TestBadParameters covers A-17: one answer, and nothing is written.
func TestBadParameters(t *testing.T) {
	h := newTestHandler(t)
	for _, tc := range []struct {
		url  string
		want string // part of the message
	}{
		{"/write", "?db="},
		{"/write?db=", "?db="},
		{"/write?bucket=d", "?db="},
		{"/api/v2/write?db=d", "?bucket="},
		{"/api/v3/write_lp", "?db="},
		{"/write?db=1&rp=2&precision=aa", `invalid precision "aa"`},
		{"/write?db=d&precision=x", `invalid precision "x"`},
		{"/api/v2/write?bucket=d&precision=m", `invalid precision "m"`},
		{"/api/v3/write_lp?db=d&precision=h", `invalid precision "h"`},
		{"/write?db=d&consistency=some", `invalid consistency "some"`},
		{"/api/v3/write_lp?db=d&accept_partial=maybe", `accept_partial is "maybe"`},
		{"/api/v3/write_lp?db=d&no_sync=", `no_sync is ""`},
		{"/write?db=a%2Fb%2Fc", "more than one slash"},
		{"/write?db=a%2Fb&rp=c", "more than one slash"},
		{"/write?db=%2Fb", "can't be called"},
		{"/write?db=..", "can't be called"},
		{"/write?db=a%00b", `"a\x00b" has bytes that are no text`},
		{"/write?db=a%FFb", `"a\xffb" has bytes that are no text`},
		{"/write?db=" + strings.Repeat("x", databaseNameBytesMax+1), "256 bytes"},
		{"/write?db=d&x=%zz", "can't be read"},
	} {
		answer := post(t, h, tc.url, "m v=1i 1\n")
		if got := message(t, tc.url, answer); answer.Code != http.StatusBadRequest || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %d %q, want 400 with %q", tc.url, answer.Code, got, tc.want)
		}
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
}

// TestPrecision covers.
func TestPrecision(t *testing.T) {
	for _, tc := range []struct {
		url   string
		stamp string
		want  string
	}{
		{"/write?db=d", "5", "5 v=1"},
		{"/write?db=d&precision=s", "1700000000", "1700000000000000000 v=1"},
		{"/write?db=d&precision=m", "28333333", "1699999980000000000 v=1"},
		{"/write?db=d&precision=h", "-1", "-3600000000000 v=1"},
		{"/api/v2/write?bucket=d&precision=us", "5", "5000 v=1"},
		{"/api/v3/write_lp?db=d", "1700000000", "1700000000000000000 v=1"},
		{"/api/v3/write_lp?db=d&precision=nanosecond", "1700000000", "1700000000 v=1"},
		{"/write?db=d&precision=s", "1566086400000000000", ""},
	} {
		h := newTestHandler(t)
		status := http.StatusNoContent
		if tc.want == "" {
			status = http.StatusBadRequest
		}
		if answer := post(t, h, tc.url, "m v=1i "+tc.stamp); answer.Code != status {
			t.Errorf("%s %s: got %d %s, want %d", tc.url, tc.stamp, answer.Code, answer.Body, status)
		}
		if got := strings.Join(points(t, h, "d", "m"), ";"); got != tc.want {
			t.Errorf("%s %s: got %q, want %q", tc.url, tc.stamp, got, tc.want)
		}
	}
}

func TestLinesOfARequestShareOneDefaultTime(t *testing.T) {
	h := newTestHandler(t)
	before := time.Now().Truncate(time.Millisecond).UnixNano()
	if answer := post(t, h, "/write?db=d&precision=ms", "m,h=a v=1i\nm,h=b v=1i"); answer.Code != http.StatusNoContent {
		t.Fatalf("got %d %s", answer.Code, answer.Body)
	}
	rows := points(t, h, "d", "m")
	if len(rows) != 2 {
		t.Fatalf("got %q, want two points", rows)
	}
	a, b := strings.TrimPrefix(rows[0], "h=a,"), strings.TrimPrefix(rows[1], "h=b,")
	stamp, err := strconv.ParseInt(strings.TrimSuffix(a, " v=1"), 10, 64)
	if a != b || err != nil || stamp < before || stamp > time.Now().UnixNano() || stamp%1e6 != 0 {
		t.Errorf("got %q, want the same whole millisecond of now twice", rows)
	}
}

// TestBadLines covers: good lines are stored on every path, and the answer tells of the others.
func TestBadLines(t *testing.T) {
	const lines = "m v=1i 1\n\n# comment\nm v=bad 2\nm v=3i 3\nm v=\"text\" 4\nm v=5i 5"
	for url, check := range map[string]func(t *testing.T, body map[string]any){
		writeURLs()[0]: func(t *testing.T, body map[string]any) {
			text, _ := body["error"].(string)
			if !strings.HasPrefix(text, "partial write: unable to parse 'm v=bad 2': line 4: ") ||
				!strings.Contains(text, "line 6: field type conflict") || !strings.HasSuffix(text, "; dropped=2") {
				t.Errorf("got error %q", text)
			}
		},
		writeURLs()[1]: func(t *testing.T, body map[string]any) {
			text, _ := body["message"].(string)
			if body["code"] != "invalid" || body["line"] != 4.0 ||
				!strings.HasPrefix(text, "2 of 5 lines refused, the others are stored; line 4: ") ||
				!strings.Contains(text, "line 6: field type conflict") {
				t.Errorf("got %v", body)
			}
		},
		writeURLs()[2]: func(t *testing.T, body map[string]any) {
			data, _ := body["data"].([]any)
			if body["error"] != "2 of 5 lines refused, the others are stored" || len(data) != 2 {
				t.Fatalf("got %v", body)
			}
			first, _ := data[0].(map[string]any)
			if first["original_line"] != "m v=bad 2" || first["line_number"] != 4.0 || first["error_message"] == "" {
				t.Errorf("got first line %v", first)
			}
		},
	} {
		t.Run(url, func(t *testing.T) {
			h := newTestHandler(t)
			answer := post(t, h, url+"&precision=ns", lines)
			if answer.Code != http.StatusBadRequest || answer.Header().Get("Content-Type") != "application/json" {
				t.Errorf("got %d %v", answer.Code, answer.Header())
			}
			check(t, object(t, answer.Body.Bytes()))
			if diff := cmp.Diff([]string{"1 v=1", "3 v=3", "5 v=5"}, points(t, h, "d", "m")); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingButBadLines covers A-32: no line is good, and nothing is made of the request.
func TestNothingButBadLines(t *testing.T) {
	h := newTestHandler(t)
	for _, url := range writeURLs() {
		answer := post(t, h, url, "****8&^@")
		if text := message(t, url, answer); answer.Code != http.StatusBadRequest || text == "" {
			t.Errorf("%s: got %d %s", url, answer.Code, answer.Body)
		}
		if strings.HasPrefix(url, "/api/v2") && !strings.Contains(answer.Body.String(), "nothing is stored") {
			t.Errorf("%s: got %s", url, answer.Body)
		}
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
}

func TestAllOrNothingOnRequest(t *testing.T) {
	h := newTestHandler(t)
	answer := post(t, h, "/api/v3/write_lp?db=d&accept_partial=false", "m v=1i 1\nm v=bad 2")
	want := "1 of 2 lines refused, nothing is stored"
	if got := message(t, "/api/v3/write_lp", answer); answer.Code != http.StatusBadRequest || got != want {
		t.Errorf("got %d %q, want 400 %q", answer.Code, got, want)
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
}

func TestAnswersToBadLinesAreBounded(t *testing.T) {
	const text = "m\x01 v=\"partial write unable to parse database not found\xff"
	lines := strings.Repeat(text+strings.Repeat("x", 500)+"\n", 20_000)
	for _, url := range writeURLs() {
		h := newTestHandler(t)
		answer := post(t, h, url, lines)
		if answer.Code != http.StatusBadRequest || answer.Body.Len() > 8<<10 {
			t.Errorf("%s: got %d and %d bytes", url, answer.Code, answer.Body.Len())
		}
		for _, c := range answer.Body.String() + answer.Header().Get("X-Influxdb-Error") {
			if c < ' ' && c != '\n' || c == 0xfffd {
				t.Errorf("%s: the answer holds %q", url, c)
			}
		}
		text := strings.TrimPrefix(message(t, url, answer), "partial write: ")
		if strings.Contains(text, "partial write") || strings.Contains(text, "database not found") {
			t.Errorf("%s: the answer repeats the client's magic text: %q", url, text)
		}
		if len(answer.Header().Get("X-Influxdb-Error")) > errorHeaderBytesMax {
			t.Errorf("%s: header of %d bytes", url, len(answer.Header().Get("X-Influxdb-Error")))
		}
	}
}

// TestBackpressure covers: 503 with Retry-After and cause on every path, and never a text that
// makes a client drop the batch.
func TestBackpressure(t *testing.T) {
	for _, cause := range shard.Causes() {
		for place, set := range map[string]func(f *fakeEngine, err error){
			"before the body": func(f *fakeEngine, err error) { f.unavailable = err },
			"admission":       func(f *fakeEngine, err error) { f.admit = err },
			"write":           func(f *fakeEngine, err error) { f.write = func() error { return err } },
		} {
			h := newTestHandler(t)
			f := fake(h)
			set(f, busy(cause))
			for _, url := range writeURLs() {
				answer := post(t, h, url, "m v=1i 1\nm v=bad 2")
				body := object(t, answer.Body.Bytes())
				if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") != "7" ||
					body["cause"] != cause || body["retry_after_seconds"] != 7.0 {
					t.Errorf("%s, %s, %s: got %d %v %v", url, cause, place, answer.Code, answer.Header(), body)
				}
				if text := message(t, url, answer); strings.Contains(text, "partial write") {
					t.Errorf("%s: the message is %q", url, text)
				}
			}
			recorded := 3
			if place == "write" {
				recorded = 0 // the engine counts what it refuses itself
			}
			if len(f.refusals) != recorded {
				t.Errorf("%s, %s: %d refusals were recorded, want %d", cause, place, len(f.refusals), recorded)
			}
		}
	}
}

func TestErrorsOfTheEngine(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		v1, v2 int // statuses
		want   string
	}{
		{"too large", &shard.TooLargeError{Points: 2}, 413, 413, "send fewer lines"},
		{"one line too large", &shard.TooLargeError{Points: 1}, 400, 400, "can never be stored"},
		{"schema", shard.ErrSchemaChanged, 503, 503, "schema"},
		{"client gone", context.Canceled, 503, 503, "client left"},
		{"unknown", errors.New("partial write: secret"), 500, 503, "internal error"},
	} {
		h := newTestHandler(t)
		fake(h).write = func() error { return tc.err }
		for i, url := range writeURLs() {
			status := tc.v2
			if i == 0 {
				status = tc.v1
			}
			answer := post(t, h, url, "m v=1i 1")
			if got := message(t, url, answer); answer.Code != status || !strings.Contains(got, tc.want) {
				t.Errorf("%s, %s: got %d %q, want %d with %q", tc.name, url, answer.Code, got, status, tc.want)
			}
			if retry := answer.Header().Get("Retry-After"); (answer.Code == 503) != (retry != "") {
				t.Errorf("%s, %s: got %d with Retry-After %q", tc.name, url, answer.Code, retry)
			}
		}
	}
}

func TestTextIsParsedAgainWhenTheSchemaChanged(t *testing.T) {
	h := newTestHandler(t)
	f := fake(h)
	attempts := 0
	f.write = func() error {
		if attempts++; attempts < schemaAttemptsMax {
			return fmt.Errorf("commit: %w", shard.ErrSchemaChanged)
		}
		return nil
	}
	answer := post(t, h, "/write?db=d", "m v=1i 1")
	if answer.Code != http.StatusNoContent || attempts != schemaAttemptsMax {
		t.Errorf("got %d after %d attempts, want 204 after %d", answer.Code, attempts, schemaAttemptsMax)
	}
}

// TestARaceForAColumnHasOneWinner lets another write register the column between parse and commit.
func TestARaceForAColumnHasOneWinner(t *testing.T) {
	h := newTestHandler(t)
	rival := newHandlerOf(t, h.engine)
	f := fake(h)
	first := true
	h.committer = &rivalry{fakeEngine: f, before: func() {
		if first {
			first = false
			if answer := post(t, rival, "/write?db=d", "m v=1.5 1"); answer.Code != http.StatusNoContent {
				t.Errorf("rival: got %d %s", answer.Code, answer.Body)
			}
		}
	}}
	answer := post(t, h, "/write?db=d", "m v=2i 2\nm w=3i 3")
	if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "field type conflict") {
		t.Errorf("got %d %s, want a refused line", answer.Code, answer.Body)
	}
	if diff := cmp.Diff([]string{"1 v=1.5", "3 w=3"}, points(t, h, "d", "m")); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

// rivalry runs something between parse and commit.
type rivalry struct {
	*fakeEngine
	before func()
}

func (r *rivalry) Admit(b *shard.Batch) error {
	r.before()
	return r.fakeEngine.Admit(b)
}
