package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

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
			if body["error"] != "line protocol parsing error: 2 of 5 lines refused, the others are stored" || len(data) != 2 {
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
	want := "line protocol parsing error: 1 of 2 lines refused, nothing is stored"
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
