package ingest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"lineweir/shard"
)

// newSeriesHandler returns a handler whose reads may take so many bytes, and a database d of so many series.
func newSeriesHandler(t *testing.T, readBytes int64, series int) *Handler {
	t.Helper()
	h := newHandlerOf(t, newTestEngine(t, func(o *shard.Options) { o.ReadBytes = readBytes }))
	for from := 0; from < series; from += 50_000 {
		var lines strings.Builder
		for i := from; i < min(series, from+50_000); i++ {
			fmt.Fprintf(&lines, "m,host=h%06d v=1i 1\n", i)
		}
		write(t, h, "d", lines.String())
	}
	return h
}

func show(t *testing.T, h http.Handler, q string) *httptest.ResponseRecorder {
	t.Helper()
	return do(t, h, http.MethodGet, "/query?db=d&q="+url.QueryEscape(q), nil)
}

// TestStatementsCountAsReads lists what there is no memory for, because another read holds it. It is refused with a
// cause and a time; writes, and statements that list nothing, go on.
func TestStatementsCountAsReads(t *testing.T) {
	const limit = 8 << 20
	for _, q := range []string{"SHOW SERIES", "SHOW TAG VALUES WITH KEY = host", "SHOW DATABASES"} {
		h := newSeriesHandler(t, limit, 5000)
		other := h.engine.BeginRead()
		if err := other.Grow(limit); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			answer := show(t, h, q)
			seconds, err := strconv.Atoi(answer.Header().Get("Retry-After"))
			if told := object(t, answer.Body.Bytes()); answer.Code != http.StatusServiceUnavailable || err != nil ||
				seconds < 1 || told["cause"] != "reads" || !strings.Contains(fmt.Sprint(told["error"]), "http.read_bytes") {
				t.Errorf("%s: got %d %v %s", q, answer.Code, answer.Header(), answer.Body)
			}
			write(t, h, "d", "m v=1i 1")
			if got := query(t, h, "d", "CREATE DATABASE e"); got != done {
				t.Errorf("CREATE DATABASE: got %s", got)
			}
		}
		if text := do(t, h, http.MethodGet, "/metrics", nil).Body.String(); !strings.Contains(text,
			`lineweir_http_refused_total{reason="reads"} 3`+"\n") || !strings.Contains(text, "lineweir_read_bytes 8.388608e+06\n") {
			t.Errorf("%s: the metrics don't tell", q)
		}
		other.Release()
		if answer := show(t, h, q); answer.Code != http.StatusOK || strings.Contains(answer.Body.String(), "error") {
			t.Errorf("%s: got %d %.200s, want 200", q, answer.Code, answer.Body)
		}
		if used := h.engine.Status().Reads.Bytes; used != 0 {
			t.Errorf("%s: %d bytes were not given back", q, used)
		}
	}
}

// TestAStatementThatIsTooLargeIsToldSo lists more than all reads may take together.
func TestAStatementThatIsTooLargeIsToldSo(t *testing.T) {
	h := newSeriesHandler(t, 4<<20, 20_000)
	answer := show(t, h, "SHOW SERIES")
	if text := message(t, "/query", answer); answer.Code != http.StatusBadRequest ||
		!strings.HasPrefix(text, "the answer is too large") || !strings.Contains(text, "http.read_bytes") {
		t.Errorf("got %d %s, want 400", answer.Code, answer.Body)
	}
	if answer = show(t, h, "SHOW SERIES LIMIT 10"); answer.Code != http.StatusOK {
		t.Errorf("a narrower one: got %d %s", answer.Code, answer.Body)
	}
	if used := h.engine.Status().Reads.Bytes; used != 0 {
		t.Errorf("%d bytes were not given back", used)
	}
}

// watchedWriter runs a function at the first write of a body.
type watchedWriter struct {
	*httptest.ResponseRecorder
	watch func()
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	if w.watch != nil {
		w.watch()
		w.watch = nil
	}
	return w.ResponseRecorder.Write(p)
}

// TestAnAnswerCountsUntilItIsSent looks at what counts while a client takes its answer, and after one that panics.
func TestAnAnswerCountsUntilItIsSent(t *testing.T) {
	h := newSeriesHandler(t, 64<<20, 20_000)
	used := func() int64 { return h.engine.Status().Reads.Bytes }
	for _, broken := range []bool{false, true} {
		during := int64(-1)
		w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), watch: func() {
			during = used()
			if broken {
				panic(http.ErrAbortHandler)
			}
		}}
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/query?db=d&q=SHOW+SERIES", nil))
		}()
		if size := int64(20_000 * len(`["m,host=h000000"],`)); during < size || during > 4*size {
			t.Errorf("broken %t: %d bytes count while %d are sent", broken, during, size)
		}
		if left := used(); left != 0 {
			t.Errorf("broken %t: %d bytes were not given back", broken, left)
		}
	}
}

// TestWhatAListingTakes compares the heap while series are listed with what is counted for them.
func TestWhatAListingTakes(t *testing.T) {
	const series = 100_000
	h := newSeriesHandler(t, 0, series)
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // so that the heap is little more than what lives
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	for _, q := range []string{"SHOW SERIES", "SHOW TAG VALUES WITH KEY = host"} {
		runtime.GC()
		before := heap()
		highest, stop, stopped := before, make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
					highest = max(highest, heap())
				}
			}
		}()
		answer := show(t, h, q)
		close(stop)
		<-stopped
		counted := int64(series) * listedMemory("m,host=h000000")
		t.Logf("%s: the heap grew by %d KiB, %d KiB are counted", q, (highest-before)>>10, counted>>10)
		if answer.Code != http.StatusOK || highest-before > 2*counted {
			t.Errorf("%s: got %d, the heap grew by %d bytes, and %d are counted", q, answer.Code, highest-before, counted)
		}
	}
}
