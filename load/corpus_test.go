package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/influxdata/line-protocol/v2/lineprotocol"
	"pgregory.net/rapid"
)

func workload(shape string, series, batch int) Workload {
	w := DefaultOptions().Workload
	w.Shape, w.Series, w.Batch = shape, series, batch
	return w
}

func mustCorpus(t testing.TB, w Workload, o corpusOptions) *corpus {
	t.Helper()
	c, err := buildCorpus(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSeededBytes pins what is sent: reports are comparable as long as it passes.
func TestSeededBytes(t *testing.T) {
	var got bytes.Buffer
	for _, shape := range shapeNames {
		c := mustCorpus(t, workload(shape, 48, 50), corpusOptions{bytesMax: 100_000})
		again := mustCorpus(t, workload(shape, 48, 50), corpusOptions{bytesMax: 100_000})
		if diff := cmp.Diff(c.bodies, again.bodies, cmp.AllowUnexported(draft{})); diff != "" {
			t.Errorf("%s: the same seed made other bytes:\n%s", shape, diff)
		}
		other := workload(shape, 48, 50)
		other.Seed++
		if bytes.Equal(c.bodies[0].text, mustCorpus(t, other, corpusOptions{bytesMax: 100_000}).bodies[0].text) {
			t.Errorf("%s: another seed made the same bytes", shape)
		}
		sum := crc32.NewIEEE()
		for _, body := range c.bodies {
			_, _ = sum.Write(body.text)
		}
		fmt.Fprintf(&got, "%s: %d bodies, %d lines, %d bytes, crc32 %08x\n", shape, len(c.bodies), c.lines(),
			c.sizeBytes, sum.Sum32())
		for _, line := range bytes.SplitAfter(c.bodies[0].text, []byte("\n"))[:len(telegrafLines)] {
			got.Write(line)
		}
	}
	golden(t, "shapes.txt", got.Bytes())
}

// TestRoundsRepeatNoPoint sends a corpus more than once and looks for a series with two points at one time.
func TestRoundsRepeatNoPoint(t *testing.T) {
	for _, w := range []Workload{
		workload(ShapeTSBS, 7, 5), workload(ShapeTelegraf, 24, 11), workload(ShapeCardinality, 30, 7),
		workload(ShapeTSBS, 1, 1), workload(ShapeTSBS, 100, 7),
	} {
		c := mustCorpus(t, w, corpusOptions{bytesMax: 60_000})
		p := newPlan(c, &Pace{Duration: time.Second, Writers: 1})
		seen := map[[2]uint64]bool{}
		count := int64(0)
		for number := range int64(len(c.bodies) * 3) {
			b, ok := p.batch(number)
			if !ok || b.before != count {
				t.Fatalf("%v: batch %d has %d points before it, want %d", w, number, b.before, count)
			}
			count += int64(b.points)
			text := c.bodies[b.body].appendLines(nil, b.points, b.shift)
			for _, p := range points(t, text) {
				key := [2]uint64{p.series, uint64(p.at)}
				if seen[key] {
					t.Fatalf("%s, batch %d: a point is sent twice", w.Shape, number)
				}
				seen[key] = true
			}
		}
		if int64(len(seen)) != 3*c.lines() {
			t.Errorf("%s: %d points, want %d", w.Shape, len(seen), 3*c.lines())
		}
	}
}

func points(t testing.TB, text []byte) []point {
	t.Helper()
	var all []point
	decoder := lineprotocol.NewDecoderWithBytes(text)
	for decoder.Next() {
		p, err := pointOf(decoder)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestBodiesAreFullWherePossible(t *testing.T) {
	for _, test := range []struct{ series, batch, bytesMax int }{{40, 50, 500_000}, {50, 50, 500_000}, {7, 3, 50_000}} {
		c := mustCorpus(t, workload(ShapeTSBS, test.series, test.batch), corpusOptions{bytesMax: int64(test.bytesMax)})
		if c.lines()%int64(test.batch) != 0 || c.lines()%int64(test.series) != 0 {
			t.Errorf("%v: got %d lines", test, c.lines())
		}
		if want := c.lines() / int64(test.series) * int64(10*time.Second); c.span != want {
			t.Errorf("%v: got a span of %d, want %d", test, c.span, want)
		}
	}
}

func TestCorpusStaysWithinItsBound(t *testing.T) {
	const bytesMax = 200_000
	c := mustCorpus(t, workload(ShapeCardinality, 100, 30), corpusOptions{bytesMax: bytesMax, lineBytes: indexEntryBytes})
	held := int64(0)
	for _, body := range c.bodies {
		held += int64(cap(body.text)) + int64(cap(body.times))*timeEntryBytes + int64(len(body.times))*indexEntryBytes
	}
	if held > bytesMax || held < bytesMax/2 {
		t.Errorf("the corpus holds %d bytes, want at most %d and no less than half", held, bytesMax)
	}
	_, err := buildCorpus(t.Context(), workload(ShapeCardinality, 10_000, 30), corpusOptions{bytesMax: bytesMax})
	if !errors.Is(err, ErrMemory) {
		t.Errorf("got %v, want %v", err, ErrMemory)
	}
}

// TestAShapeStaysWithinItsBound: what the shape keeps of its series counts, however few lines are sent of them.
func TestAShapeStaysWithinItsBound(t *testing.T) {
	for _, series := range []int{SeriesMax, 5_000} {
		_, err := buildCorpus(t.Context(), workload(ShapeTSBS, series, 10), corpusOptions{bytesMax: 1 << 20, linesMax: 10})
		if !errors.Is(err, ErrMemory) {
			t.Errorf("%d series: got %v, want %v", series, err, ErrMemory)
		}
	}
	shape := newTSBS(1000, rand.New(rand.NewPCG(1, 2)))
	for i, head := range shape.heads {
		held := cap(head) + int(unsafe.Sizeof(head)) + int(unsafe.Sizeof(shape.levels[i]))
		if held > tsbsHostBytes || len(head)+len("1000000000") > 192 {
			t.Errorf("host %d takes %d bytes, want at most %d", i, held, tsbsHostBytes)
		}
	}
}

// What is prepared can take long; an interrupt ends it.
func TestAnInterruptEndsThePreparation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, w := range []Workload{workload(ShapeCardinality, 1000, 10), lineFile(t, "m f=1 1\n")} {
		if _, err := buildCorpus(ctx, w, corpusOptions{bytesMax: 1 << 20}); !errors.Is(err, errUnbegun) {
			t.Errorf("%s%s: got %v, want %v", w.Shape, w.File, err, errUnbegun)
		}
	}
}

// What can't be sent needs no body, not even where the series would not fit.
func TestNoMoreIsMadeThanIsSent(t *testing.T) {
	c := mustCorpus(t, workload(ShapeTSBS, 1_000, 10), corpusOptions{bytesMax: 260_000, linesMax: 25})
	if got := c.lines(); got != 30 {
		t.Errorf("got %d lines, want 30", got)
	}
}

func TestTimesMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(timeMin, math.MaxInt64).Draw(t, "at")
		by := rapid.Int64Range(0, math.MaxInt64-at).Draw(t, "by")
		var digits [timeDigits]byte
		copy(digits[:], strconv.FormatInt(at, 10))
		moveTime(&digits, by)
		if got, want := string(digits[:]), strconv.FormatInt(at+by, 10); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestPlanEndsAtItsPoints(t *testing.T) {
	c := mustCorpus(t, workload(ShapeTSBS, 10, 10), corpusOptions{bytesMax: 20_000})
	p := newPlan(c, &Pace{Duration: time.Second, Points: 25})
	var got []int
	for number := int64(0); ; number++ {
		b, ok := p.batch(number)
		if !ok {
			break
		}
		got = append(got, b.points)
	}
	if diff := cmp.Diff([]int{10, 10, 5}, got); diff != "" {
		t.Errorf("points of batches (-want +got):\n%s", diff)
	}
	last, _ := p.batch(2)
	if got := bytes.Count(c.bodies[last.body].appendLines(nil, last.points, last.shift), []byte("\n")); got != 5 {
		t.Errorf("the last body has %d lines, want 5", got)
	}
}

// The times of a run end where their 19 digits do.
func TestPlanEndsWithTime(t *testing.T) {
	w := workload(ShapeTSBS, 10, 10)
	w.Interval, w.Start = 24*time.Hour, time.Unix(0, math.MaxInt64).AddDate(-100, 0, 0)
	c := mustCorpus(t, w, corpusOptions{bytesMax: 20_000})
	p := newPlan(c, &Pace{Duration: time.Second})
	rounds := p.points / c.lines()
	b, ok := p.batch(rounds*int64(len(c.bodies)) - 1)
	if !ok {
		t.Fatal("the last batch is missing")
	}
	text := c.bodies[b.body].appendLines(nil, b.points, b.shift)
	for _, point := range points(t, text) {
		if point.at < c.start {
			t.Fatalf("a point has the time %d", point.at)
		}
	}
	if _, ok := p.batch(rounds * int64(len(c.bodies))); ok {
		t.Error("there is a batch behind the last one")
	}
}

func BenchmarkBody(b *testing.B) {
	for _, compress := range []bool{false, true} {
		b.Run(fmt.Sprintf("gzip=%v", compress), func(b *testing.B) {
			c := mustCorpus(b, workload(ShapeTSBS, 4000, 5000), corpusOptions{bytesMax: 20 << 20})
			maker, err := newBodyMaker(c, compress)
			if err != nil {
				b.Fatal(err)
			}
			p := newPlan(c, &Pace{Duration: time.Second})
			batch, _ := p.batch(int64(len(c.bodies)))
			var to body
			b.ReportAllocs()
			b.SetBytes(int64(batch.bytes))
			for b.Loop() {
				maker.fill(&to, batch)
			}
		})
	}
}
