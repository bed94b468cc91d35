package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/pagecache"
	"lineweir/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testPoint is a point as tests write it. Fields may be float64, int64, uint64, bool or string.
type testPoint struct {
	Measurement string
	Tags        map[string]string
	Fields      map[string]any
	Time        int64
}

// at returns a point of the measurement m with one integer field.
func at(series string, time, value int64) testPoint {
	tags, fields := map[string]string{"s": series}, map[string]any{"v": value}
	return testPoint{Measurement: "m", Tags: tags, Fields: fields, Time: time}
}

func (p *testPoint) point() *Point {
	out := &Point{Measurement: []byte(p.Measurement), Time: p.Time}
	for _, k := range slices.Sorted(maps.Keys(p.Tags)) {
		out.Tags = append(out.Tags, Tag{Key: []byte(k), Value: []byte(p.Tags[k])})
	}
	for _, k := range slices.Sorted(maps.Keys(p.Fields)) {
		out.Fields = append(out.Fields, field(k, p.Fields[k]))
	}
	return out
}

func field(key string, value any) Field {
	f := Field{Key: []byte(key)}
	switch v := value.(type) {
	case float64:
		f.Kind, f.Number = segment.KindFloat, math.Float64bits(v)
	case int64:
		f.Kind, f.Number = segment.KindInt, uint64(v)
	case uint64:
		f.Kind, f.Number = segment.KindUint, v
	case bool:
		f.Kind = segment.KindBool
		if v {
			f.Number = 1
		}
	case string:
		f.Kind, f.String = segment.KindString, []byte(v)
	default:
		panic(fmt.Sprintf("field of type %T", value))
	}
	return f
}

// testFrame is the payload of tests: the points as JSON, where an integer is written with its type.
type testFrame struct {
	Database string
	Points   []framePoint
}

type framePoint struct {
	Measurement string
	Tags        map[string]string
	Fields      map[string]frameValue
	Time        int64
}

type frameValue struct {
	Kind   segment.Kind
	Number uint64
	String string
}

func encodeFrame(database string, points []testPoint) []byte {
	frame := testFrame{Database: database}
	for _, p := range points {
		values := map[string]frameValue{}
		for k, v := range p.Fields {
			f := field(k, v)
			values[k] = frameValue{Kind: f.Kind, Number: f.Number, String: string(f.String)}
		}
		frame.Points = append(frame.Points, framePoint{p.Measurement, p.Tags, values, p.Time})
	}
	payload, err := json.Marshal(frame)
	if err != nil {
		panic(err)
	}
	return payload
}

func decodeFrame(payload []byte, newBatch func(string) *Batch) (*Batch, error) {
	var frame testFrame
	if err := json.Unmarshal(payload, &frame); err != nil {
		return nil, err
	}
	b := newBatch(frame.Database)
	for _, p := range frame.Points {
		point := (&testPoint{Measurement: p.Measurement, Tags: p.Tags, Time: p.Time}).point()
		for _, k := range slices.Sorted(maps.Keys(p.Fields)) {
			v := p.Fields[k]
			point.Fields = append(point.Fields, Field{Key: []byte(k), Kind: v.Kind, Number: v.Number, String: []byte(v.String)})
		}
		if err := b.Append(point); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// testOptions returns options with small memtables and a tier of a few MiB.
func testOptions(dir string) Options {
	return Options{
		FS: vfs.OS, DataDir: dir, Logger: zap.NewNop(), Shards: 2,
		Limits:   Limits{ColumnsPerMeasurement: 1024, MeasurementsPerBatch: 10000, MeasurementsPerMemtable: 20000},
		Memtable: MemtableOptions{MaxBytes: 256 << 10, MaxRows: 100_000, MaxAge: time.Hour, FrozenMax: 2},
		Tier:     TierOptions{CapacityBytes: 4 << 20, SoftFraction: 0.75, PageBytes: 16 << 10},
		Admission: AdmissionOptions{
			MaxWait: 50 * time.Millisecond, RetryAfterMin: time.Second, RetryAfterMax: time.Minute, WaitingBytesMax: 64 << 20,
		},
		WAL:    WALOptions{FileBytes: 1 << 20, MaxBytes: 64 << 20},
		Decode: decodeFrame,
	}
}

// start opens and recovers an engine, and shuts it down when the test ends if the test has not.
func start(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Recover(context.Background()); err != nil {
		_ = e.Shutdown(context.Background())
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if state, _ := e.stateNow(); state != stateClosed {
			shutdown(t, e)
		}
	})
	return e
}

func shutdown(t testing.TB, e *Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// put writes points as one request.
func put(e *Engine, database string, points ...testPoint) error {
	b := e.NewBatch(database)
	defer b.Release()
	for i := range points {
		if err := b.Append(points[i].point()); err != nil {
			return err
		}
	}
	return e.Write(context.Background(), b, encodeFrame(database, points))
}

func mustPut(t testing.TB, e *Engine, points ...testPoint) {
	t.Helper()
	if err := put(e, "db", points...); err != nil {
		t.Fatal(err)
	}
}

// rowsOf reads a whole measurement as "series key time" to "field=value" pairs.
func rowsOf(t testing.TB, e *Engine, measurement string) map[string]string {
	t.Helper()
	source, err := e.Scan(context.Background(), Query{Database: "db", Measurement: measurement, Selection: everything()})
	if errors.Is(err, ErrDatabaseNotFound) || errors.Is(err, ErrMeasurementNotFound) {
		return map[string]string{}
	}
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	var last string
	if err := eachBlock(source, func(b *segment.Block) error {
		last = collect(t, b, rows, last)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// collect adds the block's rows, and checks their order and that none comes twice.
func collect(t testing.TB, b *segment.Block, rows map[string]string, last string) string {
	t.Helper()
	row := 0
	for _, run := range b.Runs {
		for range run.Rows {
			key := fmt.Sprintf("%s %020d", run.Key, uint64(b.Times[row])^(1<<63))
			if _, double := rows[key]; double || key <= last {
				t.Errorf("row %q comes after %q", key, last)
			}
			rows[key], last = valuesOf(b, row), key
			row++
		}
	}
	if row != len(b.Times) {
		t.Errorf("runs hold %d rows, times %d", row, len(b.Times))
	}
	return last
}

func valuesOf(b *segment.Block, row int) string {
	var out strings.Builder
	for i := range b.Columns {
		c := &b.Columns[i]
		if c.Valid != nil && !c.Valid[row] {
			continue
		}
		if c.Kind == segment.KindString {
			fmt.Fprintf(&out, "%s=%q ", c.Name, c.Strings[row])
		} else {
			fmt.Fprintf(&out, "%s=%d ", c.Name, int64(c.Numbers[row]))
		}
	}
	return strings.TrimSpace(out.String())
}

// rowKey is the key under which rowsOf lists a point of at.
func rowKey(series string, time int64) string {
	return fmt.Sprintf("s\x01%s\x00\xff %020d", series, uint64(time)^(1<<63))
}

// crashed returns options for the file system that is found after a power cut now: what was not synced survives in
// part.
func crashed(o Options, fs *memory.FS, seed uint64) Options {
	o.FS = fs.CrashClone(rand.New(rand.NewPCG(seed, 3)))
	return o
}

// refusingGate answers no until opened, then as the controller does.
type refusingGate struct {
	open       atomic.Bool
	controller atomic.Pointer[pagecache.Controller]
}

func (g *refusingGate) MaySeal(sizeBytes int64) bool {
	return g.open.Load() && g.controller.Load().MaySeal(sizeBytes)
}

func (g *refusingGate) Reserve(sizeBytes int64) (*pagecache.Reservation, bool) {
	if !g.open.Load() {
		return nil, false
	}
	return g.controller.Load().Reserve(sizeBytes)
}

// startGated starts an engine whose gate is shut.
func startGated(t testing.TB, o Options) (*Engine, *refusingGate) {
	gate := &refusingGate{}
	o.Gate = gate
	e := start(t, o)
	gate.controller.Store(e.tier.controller)
	return e, gate
}

// fillUntilRefused writes points of a kilobyte of one series until one is refused, and returns how many were taken.
func fillUntilRefused(t testing.TB, e *Engine, series string) (taken int64, refused *BackpressureError) {
	t.Helper()
	for n := int64(0); n < 1_000_000; n++ {
		p := at(series, n, n)
		p.Fields["text"] = strings.Repeat("x", 1000)
		err := put(e, "db", p)
		if errors.As(err, &refused) {
			return n, refused
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no write was refused")
	return 0, nil
}

// hangs is how long tests wait for what takes a moment. Only what never comes takes as long, on a slow machine too.
const hangs = 2 * time.Minute

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(hangs)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", hangs, what)
		}
		<-tick.C
	}
}

// drainSource reads a source to its end and returns its rows.
func drainSource(t testing.TB, source segment.Source) map[string]string {
	t.Helper()
	rows, last := map[string]string{}, ""
	for {
		b, err := source.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = collect(t, b, rows, last)
	}
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// skipUnderRace leaves out a test that works in one goroutine and takes long under the race detector.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("one goroutine: the race detector would find nothing, slowly")
	}
}
