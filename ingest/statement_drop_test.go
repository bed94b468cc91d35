package ingest

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/influxdata/influxql"

	"lineweir/shard"
)

// crashed opens a copy of what is on disk now, as a start after a kill finds it. Nothing may be flushed or compacted
// meanwhile.
func crashed(t *testing.T, dataDir string) *Handler {
	t.Helper()
	return crashedWith(t, dataDir)
}

// crashedWith is crashed for a start with other options.
func crashedWith(t *testing.T, dataDir string, change ...func(*shard.Options)) *Handler {
	t.Helper()
	image := t.TempDir()
	for attempt := 0; ; attempt++ { // the log may be about to name its spare file
		err := os.CopyFS(image, os.DirFS(dataDir))
		if err == nil {
			break
		}
		if attempt == 100 {
			t.Fatal(err)
		}
		image = t.TempDir()
	}
	return newHandlerOf(t, newTestEngine(t, append(change, func(o *shard.Options) { o.DataDir = image })...))
}

// newPausedHandler returns a handler that compacts nothing, and its data directory.
func newPausedHandler(t *testing.T) (*Handler, string) {
	t.Helper()
	dir := t.TempDir()
	h := newHandlerOf(t, newTestEngine(t, func(o *shard.Options) { o.DataDir = dir }))
	if answer := do(t, h, http.MethodPut, "/api/compaction", strings.NewReader(`{"paused":true}`)); answer.Code != 200 {
		t.Fatalf("got %d %s", answer.Code, answer.Body)
	}
	return h, dir
}

func sealNow(t *testing.T, h *Handler) {
	t.Helper()
	if answer := do(t, h, http.MethodPost, "/api/seal?wait=true", nil); answer.Code != http.StatusOK {
		t.Fatalf("got %d %s", answer.Code, answer.Body)
	}
}

// TestDropStatements drops what lies in memory, in segments and in both. It is gone from every read and stays gone, also
// after a crash right behind the answer; what is written afterwards lives, also as another type and at the same times.
func TestDropStatements(t *testing.T) {
	for _, q := range []string{"DROP MEASUREMENT m", "DROP DATABASE d"} {
		for _, state := range []string{"memory", "segment", "both"} {
			t.Run(q+" "+state, func(t *testing.T) {
				h, dir := newPausedHandler(t)
				write(t, h, "d", "m,host=a v=1i 1\nm,host=b v=1i 2\nother v=1i 1")
				write(t, h, "e", "m v=1i 1")
				if state != "memory" {
					sealNow(t, h)
				}
				if state == "both" {
					write(t, h, "d", "m,host=a v=2i 1\nm,host=c v=2i 3")
				}
				expect := func(when string, h *Handler, want string) {
					t.Helper()
					others := map[string]string{"DROP MEASUREMENT m": "other v=1i 1\n"}[q]
					for target, want := range map[[2]string]string{
						{"d", "m"}: want, {"d", "other"}: others, {"e", "m"}: "m v=1i 1\n",
					} {
						if diff := cmp.Diff(want, scannedOrNone(t, h, target[0], target[1])); diff != "" {
							t.Errorf("%s, %v (-want +got):\n%s", when, target, diff)
						}
					}
				}
				if got := query(t, h, "d", q+"; SHOW SERIES ON e"); got != done+","+names(1, "", "key", "m") {
					t.Errorf("got %s", got)
				}
				expect("after the drop", h, "")
				expect("after a crash behind the drop", crashed(t, dir), "")
				write(t, h, "d", "m,host=a v=\"text\" 1\nm,host=b v=\"text\" 2")
				const later = "m,host=a v=\"text\" 1\nm,host=b v=\"text\" 2\n"
				expect("with later points", h, later)
				again := crashed(t, dir)
				expect("with later points, after a crash", again, later)
				sealNow(t, again)
				expect("with later points, after a crash and a flush", again, later)
				sealNow(t, h)
				expect("with later points, after a flush", h, later)
				expect("with later points, after a flush and a crash", crashed(t, dir), later)
			})
		}
	}
}

// scannedOrNone is scanned, and "" where there is no such database or measurement.
func scannedOrNone(t *testing.T, h *Handler, database, measurement string) string {
	t.Helper()
	if len(points(t, h, database, measurement)) == 0 {
		return ""
	}
	return scanned(t, h, database, measurement)
}

// span is when a request began and ended, by a clock that counts.
type span struct{ begin, end int64 }

// TestDropsBesideWrites drops a measurement while others write it. A write that was answered before the last drop began
// is gone, one that began after its answer is there, and a crash changes nothing of that.
func TestDropsBesideWrites(t *testing.T) {
	const writers, writes, drops = 4, 60, 6
	for _, q := range []string{"DROP MEASUREMENT m", "DROP DATABASE d"} {
		h, dir := newPausedHandler(t)
		var clock, written atomic.Int64
		spans := make([]span, writers*writes)
		var group sync.WaitGroup
		for writer := range writers {
			group.Go(func() {
				for i := range writes {
					n := writer*writes + i
					begin := clock.Add(1)
					answer := post(t, h, "/write?db=d", fmt.Sprintf("m,w=%d v=1i %d", writer, n))
					spans[n] = span{begin, clock.Add(1)}
					if answer.Code != http.StatusNoContent {
						t.Errorf("got %d %s", answer.Code, answer.Body)
					}
					written.Add(1)
				}
			})
		}
		var last span
		dropped := make(chan struct{})
		go func() {
			defer close(dropped)
			for i := range int64(drops) {
				for written.Load() < (i+1)*writers*writes/(drops+2) {
					select {
					case <-t.Context().Done():
						return
					case <-time.After(time.Millisecond):
					}
				}
				begin := clock.Add(1)
				answer := post(t, h, "/query?db=d&q="+strings.ReplaceAll(q, " ", "+"), "")
				last = span{begin, clock.Add(1)}
				if answer.Code != http.StatusOK || strings.Contains(answer.Body.String(), "error") {
					t.Errorf("got %d %s", answer.Code, answer.Body)
				}
			}
		}()
		group.Wait()
		<-dropped
		for when, h := range map[string]*Handler{"at the end": h, "after a crash": crashed(t, dir)} {
			stored := scannedOrNone(t, h, "d", "m")
			for n, s := range spans {
				present := strings.Contains(stored, fmt.Sprintf(" v=1i %d\n", n))
				if s.begin > last.end && !present || s.end < last.begin && present {
					t.Errorf("%s %s: point %d of %+v, the last drop of %+v: present %v", q, when, n, s, last, present)
				}
			}
		}
	}
}

// TestStatementsOfOddNames writes, shows, drops and writes again under names that a file system or a parser could
// mistake.
func TestStatementsOfOddNames(t *testing.T) {
	h, dir := newPausedHandler(t)
	names := []string{
		"ünï 日本 🙂", "a%2Fb", "a%b", "%2e%2e", "..x", "a..b", "con", "CON", "Con", `quo"te`, `back\slash`, "'; DROP DATABASE e; --",
		"d.autogen", "a\u00a0b", "e\u0301", "\u00e9", strings.Repeat("ä", databaseNameBytesMax/2), "SELECT", "<b>&amp;</b>",
	}
	check := func(when string, h *Handler, value int) {
		t.Helper()
		for _, name := range names {
			want := []string{fmt.Sprintf("1 v=%d", value)}
			if diff := cmp.Diff(want, points(t, h, name, name)); diff != "" {
				t.Errorf("%s, %q (-want +got):\n%s", when, name, diff)
			}
		}
	}
	put := func(value int) {
		for _, name := range names {
			write(t, h, name, string(appendEscaped(nil, []byte(name), false))+fmt.Sprintf(" v=%di 1", value))
		}
	}
	put(1)
	sealNow(t, h)
	check("at first", h, 1)
	for _, name := range names {
		quoted := influxql.QuoteIdent(name)
		results := query(t, h, "", "SHOW MEASUREMENTS ON "+quoted+"; DROP DATABASE "+quoted+"; SHOW MEASUREMENTS ON "+quoted)
		shown := object(t, []byte(`{"results":[`+results+"]}"))["results"].([]any)
		if len(shown) != 3 || fmt.Sprint(shown[0].(map[string]any)["series"]) !=
			fmt.Sprint([]any{map[string]any{"name": "measurements", "columns": []any{"name"}, "values": []any{[]any{name}}}}) ||
			!strings.Contains(fmt.Sprint(shown[2]), "database not found") {
			t.Errorf("%q: got %v", name, shown)
		}
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
	put(2)
	check("after the drops", h, 2)
	check("after a crash", crashed(t, dir), 2)
	sealNow(t, h)
	check("after a flush and a crash", crashed(t, dir), 2)
}

// TestADropOfNoNameDropsNothing guards the record of a drop, in which no measurement means all of the database.
func TestADropOfNoNameDropsNothing(t *testing.T) {
	h, dir := newPausedHandler(t)
	write(t, h, "d", "m v=1i 1")
	for q, want := range map[string]string{
		`DROP MEASUREMENT ""`: done, `DROP DATABASE ""`: failed(`the database can't be called ""`),
	} {
		if got := query(t, h, "d", q); got != want {
			t.Errorf("%s: got %s, want %s", q, got, want)
		}
	}
	for when, h := range map[string]*Handler{"at once": h, "after a crash": crashed(t, dir)} {
		if got := scannedOrNone(t, h, "d", "m"); got != "m v=1i 1\n" {
			t.Errorf("%s: got %q", when, got)
		}
	}
}
