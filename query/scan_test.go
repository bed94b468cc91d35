package query

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"lineweir/segment"
	"lineweir/shard"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing with them")

// fakeStore answers scans from Blocks.
type fakeStore struct {
	columns []segment.ColumnDef
	source  segment.Source
	err     error
	asked   shard.Query
}

func (s *fakeStore) Scan(_ context.Context, q shard.Query) (*shard.Rows, error) {
	s.asked = q
	return &shard.Rows{Source: s.source, Columns: s.columns}, s.err
}

// fakeSource yields Blocks, then an error; before, if set, runs before each Block.
type fakeSource struct {
	blocks []*segment.Block
	err    error // nil: io.EOF
	before func()
	closed chan struct{}
}

func newSource(err error, blocks ...*segment.Block) *fakeSource {
	return &fakeSource{blocks: blocks, err: err, closed: make(chan struct{})}
}

func (s *fakeSource) Next() (*segment.Block, error) {
	if s.before != nil {
		s.before()
	}
	if len(s.blocks) == 0 {
		if s.err == nil {
			return nil, io.EOF
		}
		return nil, s.err
	}
	b := s.blocks[0]
	s.blocks = s.blocks[1:]
	return b, nil
}

func (s *fakeSource) Close() error {
	close(s.closed)
	return nil
}

// seriesKey makes a key of tags given as key, value, key, value.
func seriesKey(tags ...string) []byte {
	var parsed []segment.Tag
	for i := 0; i < len(tags); i += 2 {
		parsed = append(parsed, segment.Tag{Key: []byte(tags[i]), Value: []byte(tags[i+1])})
	}
	return segment.AppendKey(nil, parsed)
}

func floats(values ...float64) []uint64 {
	bits := make([]uint64, len(values))
	for i, v := range values {
		bits[i] = math.Float64bits(v)
	}
	return bits
}

func texts(values ...string) [][]byte {
	result := make([][]byte, len(values))
	for i, v := range values {
		result[i] = []byte(v)
	}
	return result
}

// awkward are Blocks with every kind, gaps, and all that needs escaping. The second continues the last series.
func awkward() []*segment.Block {
	minInt := int64(math.MinInt64)
	return []*segment.Block{{
		Runs: []segment.Run{
			{Key: seriesKey("host", "a b", "re,gion", `e=u\x`), Rows: 3},
			{Key: seriesKey("host", "é"), Rows: 1},
		},
		Times: []int64{math.MinInt64 + 2, -1, 1700000000123456789, math.MaxInt64 - 1},
		Columns: []segment.Column{
			{Name: "bo ol", Kind: segment.KindBool, Numbers: []uint64{1, 0, 1, 0}},
			{Name: "fl,oat", Kind: segment.KindFloat, Numbers: floats(0.1, math.Copysign(0, -1), 1e300, 5e-324)},
			{Name: "i=nt", Kind: segment.KindInt, Numbers: []uint64{uint64(minInt), 0, math.MaxInt64, 7},
				Valid: []bool{true, false, true, true}},
			{Name: `s"tr`, Kind: segment.KindString,
				Strings: texts("", "a \"b\",c", "line\nbreak\t\r\x1f\x7f", `C:\new`)},
			{Name: "uint", Kind: segment.KindUint, Numbers: []uint64{math.MaxUint64, 1, 2, 3}},
		},
	}, {
		Runs:  []segment.Run{{Key: seriesKey("host", "é"), Rows: 1}, {Key: seriesKey(), Rows: 2}},
		Times: []int64{math.MaxInt64, 0, 1},
		Columns: []segment.Column{
			{Name: "bo ol", Kind: segment.KindBool, Numbers: []uint64{1, 0, 0}, Valid: []bool{true, false, false}},
			{Name: "fl,oat", Kind: segment.KindFloat, Numbers: floats(123456789, 1e21, 0),
				Valid: []bool{true, true, false}},
		},
	}}
}

func awkwardColumns() []segment.ColumnDef {
	return []segment.ColumnDef{
		{Name: "absent", Kind: segment.KindTag}, {Name: "bo ol", Kind: segment.KindBool},
		{Name: "elsewhere", Kind: segment.KindInt}, {Name: "fl,oat", Kind: segment.KindFloat},
		{Name: "host", Kind: segment.KindTag}, {Name: "i=nt", Kind: segment.KindInt},
		{Name: "re,gion", Kind: segment.KindTag}, {Name: `s"tr`, Kind: segment.KindString},
		{Name: "uint", Kind: segment.KindUint},
	}
}

func newTestHandler(t *testing.T, store Store) *Handler {
	t.Helper()
	h, err := NewHandler(Options{Store: store, Logger: zap.NewNop(), WriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// get runs a scan and returns its answer, or the error that the caller would answer.
func get(t *testing.T, store Store, query string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	w := httptest.NewRecorder()
	err := newTestHandler(t, store).Scan(w, httptest.NewRequest(http.MethodGet, "/api/scan?"+query, nil))
	return w, err
}

func TestFormats(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			store := &fakeStore{columns: awkwardColumns(), source: newSource(nil, awkward()...)}
			w, err := get(t, store, "db=d&measurement=my+me,as=ure&format="+format)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "awkward."+format)
			if *rewrite {
				if err = os.WriteFile(golden, w.Body.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), w.Body.String()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitCountsShownRows(t *testing.T) {
	for _, tc := range []struct {
		query string
		want  string
	}{
		{"limit=1", "m v=1i 10\n"},
		{"limit=2", "m v=1i 10\nm v=3i 12\n"},
		{"limit=9", "m v=1i 10\nm v=3i 12\n"},
		{"limit=1&format=count", `{"points":1,"values":1}` + "\n"},
		{"format=count", `{"points":2,"values":2}` + "\n"},
		{"limit=1&format=csv", "time,v\n10,1\n"},
		{"limit=1&format=jsonl", `{"time":10,"tags":{},"fields":{"v":1}}` + "\n"},
	} {
		block := &segment.Block{
			Runs: []segment.Run{{Key: seriesKey(), Rows: 3}}, Times: []int64{10, 11, 12},
			Columns: []segment.Column{
				{Name: "v", Kind: segment.KindInt, Numbers: []uint64{1, 2, 3}, Valid: []bool{true, false, true}},
			},
		}
		columns := []segment.ColumnDef{{Name: "v", Kind: segment.KindInt}}
		store := &fakeStore{columns: columns, source: newSource(nil, block)}
		w, err := get(t, store, "db=d&measurement=m&"+tc.query)
		if got := w.Body.String(); got != tc.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", tc.query, got, err, tc.want)
		}
	}
}

func TestScanAsksTheStore(t *testing.T) {
	store := &fakeStore{source: newSource(nil)}
	w, err := get(t, store, "db=d%2Frp&measurement=m&start=5&stop=1970-01-01T00:00:00.000000009Z"+
		"&tag=a=b=c&tag=x=&field=f&field=g&field=f")
	if err != nil {
		t.Fatal(err)
	}
	want := shard.Query{Database: "d/rp", Measurement: "m", Selection: segment.Selection{
		Start: 5, Stop: 9, Tags: []segment.TagEqual{{Key: "a", Value: "b=c"}, {Key: "x"}}, Fields: []string{"f", "g"},
	}}
	if diff := cmp.Diff(want, store.asked); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("empty result: got %d %q %v", w.Code, w.Body, w.Header())
	}
}

func TestUnknownNames(t *testing.T) {
	for _, cause := range []error{shard.ErrDatabaseNotFound, shard.ErrMeasurementNotFound} {
		store := &fakeStore{err: cause}
		if _, err := get(t, store, "db=d&measurement=m"); !errors.Is(err, cause) {
			t.Errorf("scan: got %v, want %v", err, cause)
		}
		w, err := get(t, store, "db=d&measurement=m&format=count")
		if want := `{"points":0,"values":0}` + "\n"; err != nil || w.Body.String() != want {
			t.Errorf("count: got %q, %v, want %q", w.Body, err, want)
		}
	}
}

// wide is a Block that alone fills the buffer of an answer.
func wide() *segment.Block {
	return &segment.Block{
		Runs: []segment.Run{{Key: seriesKey("host", "a"), Rows: 1}}, Times: []int64{1},
		Columns: []segment.Column{
			{Name: "s", Kind: segment.KindString, Strings: [][]byte{bytes.Repeat([]byte("x"), 2*streamBufferBytes)}},
		},
	}
}

func TestErrorBeforeTheFirstByteIsReturned(t *testing.T) {
	damage := &segment.CorruptionError{Path: "l0/7.parquet", Offset: 9, Reason: "bad page"}
	for _, format := range formats {
		store := &fakeStore{source: newSource(damage, awkward()[0]), columns: awkwardColumns()}
		w, err := get(t, store, "db=d&measurement=m&format="+format)
		if !errors.Is(err, damage) || w.Body.Len() != 0 {
			t.Errorf("%s: got %v and %d bytes", format, err, w.Body.Len())
		}
	}
}

func TestErrorInMidStreamCutsTheConnection(t *testing.T) {
	damage := &segment.CorruptionError{Path: "l0/7.parquet", Offset: 9, Reason: "bad page"}
	core, logs := observer.New(zap.ErrorLevel)
	store := &fakeStore{source: newSource(damage, wide())}
	h, err := NewHandler(Options{Store: store, Logger: zap.New(core), WriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("Scan returned %v, want a panic", h.Scan(w, r))
	}))
	defer server.Close()
	response, err := http.Get(server.URL + "?db=d&measurement=m")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil || response.StatusCode != http.StatusOK || len(body) < streamBufferBytes {
		t.Errorf("got %d, %d bytes, %v; want 200, a row, an error", response.StatusCode, len(body), err)
	}
	entries := logs.All()
	if len(entries) != 1 || !strings.Contains(fmt.Sprint(entries[0].ContextMap()), "l0/7.parquet") {
		t.Errorf("got log %v, want one entry that names the segment", entries)
	}
	<-store.source.(*fakeSource).closed
}

func TestStalledClientIsCutOff(t *testing.T) {
	source := newSource(nil)
	source.before = func() { source.blocks = []*segment.Block{wide()} } // without end
	h := newTestHandler(t, &fakeStore{source: source})
	h.options.WriteTimeout = 20 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("Scan returned %v, want a panic", h.Scan(w, r))
	}))
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if _, err = io.WriteString(connection, "GET /?db=d&measurement=m HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-source.closed
}

// TestAScanThatPanicsIsClosed lets a source panic before the first byte, and after it.
func TestAScanThatPanicsIsClosed(t *testing.T) {
	for _, blocks := range [][]*segment.Block{nil, {wide()}} {
		source := newSource(nil, blocks...)
		source.before = func() {
			if len(source.blocks) == 0 {
				panic("a bug")
			}
		}
		func() {
			defer func() {
				if value := recover(); value != "a bug" {
					t.Errorf("got %v, want the panic", value)
				}
			}()
			_, err := get(t, &fakeStore{source: source}, "db=d&measurement=m")
			t.Errorf("got %v, want a panic", err)
		}()
		<-source.closed
	}
}

func TestScanEndsWithTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	source := newSource(nil, awkward()...)
	source.before = cancel
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/scan?db=d&measurement=m", nil)
	h := newTestHandler(t, &fakeStore{source: source, columns: awkwardColumns()})
	if err := h.Scan(httptest.NewRecorder(), r); !errors.Is(err, context.Canceled) || len(source.blocks) != 1 {
		t.Errorf("got %v with %d Blocks left, want context.Canceled and 1", err, len(source.blocks))
	}
	<-source.closed
}

func TestRowsAreSentWhileOthersAreLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		source := newSource(nil, awkward()...)
		var seen []int
		source.before = func() {
			time.Sleep(streamFlushInterval) // of the bubble's clock
			seen = append(seen, w.Body.Len())
		}
		h := newTestHandler(t, &fakeStore{source: source, columns: awkwardColumns()})
		if err := h.Scan(w, httptest.NewRequest(http.MethodGet, "/api/scan?db=d&measurement=m", nil)); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 3 || seen[0] != 0 || seen[1] == 0 || seen[2] <= seen[1] || !w.Flushed {
			t.Errorf("bytes sent before each Block: got %v, flushed %v; want 0, then more each time", seen, w.Flushed)
		}
	})
}

func TestCSVRefusesAFieldBeyondTheSchema(t *testing.T) {
	store := &fakeStore{source: newSource(nil, awkward()...), columns: awkwardColumns()[:1]}
	_, err := get(t, store, "db=d&measurement=m&format=csv")
	if err == nil || !strings.Contains(err.Error(), `"bo ol"`) {
		t.Errorf("got %v, want an error that names the field", err)
	}
}

func TestOptionsValidateNamesEveryProblem(t *testing.T) {
	_, err := NewHandler(Options{})
	for _, want := range []string{"Store", "Logger", "WriteTimeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}
