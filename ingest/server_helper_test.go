package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"lineweir/internal/vfs"
	"lineweir/segment"
	"lineweir/shard"
)

// TestMain leaves out the goroutines in which net/http waits half a second before it closes a connection that it has
// answered: they end by themselves, later than goleak looks for the last time.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// newTestHandler returns a Handler of a ready engine, which must have given back its whole budget when the test ends.
func newTestHandler(t testing.TB, change ...func(*Options)) *Handler {
	t.Helper()
	return newHandlerOf(t, newTestEngine(t), change...)
}

// newTestEngine opens and recovers an engine, which is shut down when the test ends.
func newTestEngine(t testing.TB, change ...func(*shard.Options)) *shard.Engine {
	t.Helper()
	engine := openTestEngine(t, change...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := engine.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// openTestEngine opens and recovers an engine, which is the caller's to shut down.
func openTestEngine(t testing.TB, change ...func(*shard.Options)) *shard.Engine {
	t.Helper()
	options := shard.Options{
		FS: vfs.OS, DataDir: t.TempDir(), Logger: zap.NewNop(), Shards: 2, Decode: DecodePayload,
		Limits: shard.Limits{
			ColumnsPerMeasurement: 1024, MeasurementsPerBatch: 10_000, MeasurementsPerMemtable: 20_000,
		},
		Memtable: shard.MemtableOptions{MaxBytes: 16 << 20, MaxRows: 1_000_000, MaxAge: time.Hour, FrozenMax: 2},
		Tier:     shard.TierOptions{CapacityBytes: 128 << 20, SoftFraction: 0.75, PageBytes: 64 << 10},
		Admission: shard.AdmissionOptions{
			MaxWait: 2 * time.Second, RetryAfterMin: time.Second, RetryAfterMax: time.Minute,
			WaitingBytesMax: 64 << 20,
		},
		WAL: shard.WALOptions{FileBytes: 4 << 20, MaxBytes: 256 << 20},
	}
	for _, c := range change {
		c(&options)
	}
	engine, err := shard.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return engine
}

func newHandlerOf(t testing.TB, engine *shard.Engine, change ...func(*Options)) *Handler {
	t.Helper()
	options := Options{
		Engine: engine, Logger: zap.NewNop(), Version: "test", Limits: DefaultLimits(),
		Scan: func(http.ResponseWriter, *http.Request) error { return errors.New("no scan") },
		Page: func(w http.ResponseWriter, _ *http.Request, name string) bool {
			_, _ = w.Write([]byte("file " + name)) // a recorder takes everything
			return true
		},
	}
	for _, c := range change {
		c(&options)
	}
	h, err := NewHandler(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if used := h.budget.usedBytes.Load(); used != 0 {
			t.Errorf("%d bytes of the budget were not given back", used)
		}
	})
	return h
}

// fakeEngine is an engine of which some answers are set.
type fakeEngine struct {
	*shard.Engine
	unavailable, blocked, admit error
	write                       func() error // instead of the engine's, if set
	refusals                    []string     // causes that were recorded
}

// fake puts a fakeEngine in the place of the handler's engine.
func fake(h *Handler) *fakeEngine {
	f := &fakeEngine{Engine: h.engine}
	h.committer, h.gate = f, f
	return f
}

func (f *fakeEngine) Unavailable() error { return f.unavailable }

func (f *fakeEngine) Blocked(string, int64) error { return f.blocked }

func (f *fakeEngine) RecordRefusal(err *shard.BackpressureError) {
	f.refusals = append(f.refusals, err.Cause)
}

func (f *fakeEngine) Admit(b *shard.Batch) error {
	if f.admit != nil {
		return f.admit
	}
	return f.Engine.Admit(b)
}

func (f *fakeEngine) Write(ctx context.Context, b *shard.Batch, payload []byte) error {
	if f.write != nil {
		return f.write()
	}
	return f.Engine.Write(ctx, b, payload)
}

// busy is backpressure as an engine has it.
func busy(cause string) *shard.BackpressureError {
	return &shard.BackpressureError{Cause: cause, RetryAfter: 7 * time.Second, Detail: "partial write of the tier"}
}

// strictWriter fails a test that answers twice, or writes a body where none may be.
type strictWriter struct {
	*httptest.ResponseRecorder
	t       testing.TB
	answers int
}

func (w *strictWriter) WriteHeader(status int) {
	if w.answers++; w.answers > 1 {
		w.t.Errorf("answer %d has status %d; want one answer", w.answers, status)
	}
	w.ResponseRecorder.WriteHeader(status)
}

func (w *strictWriter) Write(p []byte) (int, error) {
	if len(p) > 0 && w.Code == http.StatusNoContent {
		w.t.Errorf("a 204 has the body %q", p)
	}
	return w.ResponseRecorder.Write(p)
}

// do sends a request with headers given as name, value, name, value.
func do(
	t testing.TB, h http.Handler, method, url string, body io.Reader, headers ...string,
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, url, body)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := &strictWriter{ResponseRecorder: httptest.NewRecorder(), t: t}
	h.ServeHTTP(w, r)
	return w.ResponseRecorder
}

// post sends lines.
func post(t testing.TB, h http.Handler, url, lines string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return do(t, h, http.MethodPost, url, strings.NewReader(lines), headers...)
}

// chunked hides the length of a body.
func chunked(body string) io.Reader { return io.MultiReader(strings.NewReader(body)) }

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// object decodes a JSON object.
func object(t testing.TB, body []byte) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	return value
}

// points reads a measurement back, as "tags time field=number …".
func points(t testing.TB, h *Handler, database, measurement string) []string {
	t.Helper()
	source, err := h.engine.Scan(t.Context(), shard.Query{
		Database: database, Measurement: measurement, Selection: segment.AllTime(),
	})
	if errors.Is(err, shard.ErrDatabaseNotFound) || errors.Is(err, shard.ErrMeasurementNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	var rows []string
	for {
		block, err := source.Next()
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, blockRows(block)...)
	}
}

func blockRows(block *segment.Block) []string {
	var rows []string
	row := 0
	for _, run := range block.Runs {
		var tags strings.Builder
		segment.EachTag(run.Key, func(name, value []byte) { fmt.Fprintf(&tags, "%s=%s,", name, value) })
		for range run.Rows {
			text := fmt.Sprintf("%s%d", tags.String(), block.Times[row])
			for i := range block.Columns {
				text += cell(&block.Columns[i], row)
			}
			rows = append(rows, text)
			row++
		}
	}
	return rows
}

func cell(c *segment.Column, row int) string {
	switch {
	case c.Valid != nil && !c.Valid[row]:
		return ""
	case c.Kind == segment.KindFloat:
		return fmt.Sprintf(" %s=%g", c.Name, math.Float64frombits(c.Numbers[row]))
	case c.Kind == segment.KindString:
		return fmt.Sprintf(" %s=%q", c.Name, c.Strings[row])
	default:
		return fmt.Sprintf(" %s=%d", c.Name, int64(c.Numbers[row]))
	}
}

// writeURLs are the write APIs with a database.
func writeURLs() []string {
	return []string{"/write?db=d", "/api/v2/write?bucket=d", "/api/v3/write_lp?db=d"}
}

// message returns the text of an error in the shape of the API.
func message(t testing.TB, url string, answer *httptest.ResponseRecorder) string {
	t.Helper()
	key := "error"
	if strings.HasPrefix(url, "/api/v2") {
		key = "message"
	}
	text, ok := object(t, answer.Body.Bytes())[key].(string)
	if !ok || text == "" {
		t.Errorf("%s: answer %q has no %q", url, answer.Body, key)
	}
	return text
}

// contextCommitter holds each write back and reports whether its context has ended by then.
type contextCommitter struct {
	*fakeEngine
	hold time.Duration
	held chan error
}

func (c *contextCommitter) Write(ctx context.Context, b *shard.Batch, payload []byte) error {
	select {
	case <-ctx.Done():
	case <-time.After(c.hold):
	}
	c.held <- ctx.Err()
	return c.fakeEngine.Write(ctx, b, payload)
}
