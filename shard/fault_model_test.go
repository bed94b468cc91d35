package shard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// moveKind is what a move of a transcript does.
type moveKind string

const (
	moveNothing moveKind = "nothing" // what shrinking leaves
	moveWrite   moveKind = "write"
	moveFlood   moveKind = "flood"  // the same points at many times
	moveRounds  moveKind = "rounds" // the same points again and again, each time sealed and compacted
	moveSeal    moveKind = "seal"
	movePoke    moveKind = "poke"    // one job of compaction
	moveCompact moveKind = "compact" // until there is none
	movePause   moveKind = "pause"   // compaction, or end the pause
	moveSleep   moveKind = "sleep"
	moveScan    moveKind = "scan"
	moveReopen  moveKind = "reopen" // with the next options
	moveCrash   moveKind = "crash"  // and reopen
	moveDrop    moveKind = "drop"   // a measurement
)

// move is one operation. Every kind uses the fields that it needs.
type move struct {
	Kind        moveKind
	Points      []testPoint // their values are given when they are written
	Measurement string
	Selection   segment.Selection
	Sleep       time.Duration
	Next        int // how many option sets to go on
	Share       share
}

// GoString prints a move as rapid shows it.
func (s move) GoString() string {
	switch s.Kind {
	case moveWrite, moveFlood, moveRounds:
		var points []string
		for _, p := range s.Points {
			fields := strings.Join(slices.Sorted(maps.Keys(p.Fields)), ",")
			points = append(points, fmt.Sprintf("%s%v %s %d", p.Measurement, p.Tags, fields, p.Time))
		}
		return string(s.Kind) + " " + strings.Join(points, "; ")
	case moveSleep:
		return fmt.Sprintf("sleep %s", s.Sleep)
	case moveScan:
		return fmt.Sprintf("scan %s %+v", s.Measurement, s.Selection)
	case moveReopen:
		return fmt.Sprintf("reopen +%d", s.Next)
	case moveDrop:
		return "drop " + s.Measurement
	case moveCrash:
		return fmt.Sprintf("crash +%d, %s left", s.Next, s.Share)
	}
	return string(s.Kind)
}

// modelTimes has few times of several days, so that points are overwritten and partitions are many, and the first and
// last ones that there are.
func modelTimes() *rapid.Generator[int64] {
	const base = int64(1_700_000_000_000_000_000)
	near := rapid.Custom(func(t *rapid.T) int64 {
		return base + rapid.Int64Range(0, 2).Draw(t, "day")*day + rapid.Int64Range(0, 3).Draw(t, "second")*int64(time.Second)
	})
	far := rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, -day, base - 400*day, base + 4000*day,
		math.MaxInt64 - 2, math.MaxInt64 - 1})
	many := rapid.Custom(func(t *rapid.T) int64 { return base + rapid.Int64Range(0, 40).Draw(t, "days")*day })
	return rapid.OneOf(near, near, near, many, far)
}

// modelPoints has uneven series: small numbers are drawn more often.
func modelPoints() *rapid.Generator[testPoint] {
	return rapid.Custom(func(t *rapid.T) testPoint {
		tags := map[string]string{"s": fmt.Sprint("s", rapid.IntRange(0, 12).Draw(t, "series"))}
		if rapid.IntRange(0, 5).Draw(t, "region") == 0 {
			tags["r"] = "north"
		}
		fields := rapid.SampledFrom([][]string{{"v"}, {"w"}, {"v", "w"}, {"v", "x"}}).Draw(t, "fields")
		p := testPoint{
			Measurement: rapid.SampledFrom([]string{"m", "m", "m", "n"}).Draw(t, "measurement"),
			Tags:        tags, Time: modelTimes().Draw(t, "time"), Fields: map[string]any{},
		}
		for _, name := range fields {
			p.Fields[name] = nil
		}
		return p
	})
}

func modelMoves() *rapid.Generator[move] {
	kinds := []moveKind{
		moveNothing, moveWrite, moveWrite, moveWrite, moveWrite, moveWrite, moveWrite, moveFlood, moveRounds, moveSeal,
		moveSeal, movePoke, moveCompact, movePause, moveSleep, moveScan, moveScan, moveReopen, moveCrash, moveCrash, moveDrop,
	}
	return rapid.Custom(func(t *rapid.T) move {
		s := move{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		switch s.Kind {
		case moveWrite, moveFlood, moveRounds:
			s.Points = rapid.SliceOfN(modelPoints(), 1, 8).Draw(t, "points")
		case moveSleep:
			s.Sleep = rapid.SampledFrom([]time.Duration{time.Second, 40 * time.Second}).Draw(t, "sleep")
		case moveScan:
			s.Measurement = rapid.SampledFrom([]string{"m", "n"}).Draw(t, "measurement")
			s.Selection = modelSelections().Draw(t, "selection")
		case moveDrop:
			s.Measurement = rapid.SampledFrom([]string{"n", "m"}).Draw(t, "measurement")
		case moveReopen, moveCrash:
			s.Next = rapid.IntRange(0, len(modelOptions)-1).Draw(t, "next")
			s.Share = share(rapid.IntRange(0, 5).Draw(t, "share"))
		}
		return s
	})
}

func modelSelections() *rapid.Generator[segment.Selection] {
	return rapid.Custom(func(t *rapid.T) segment.Selection {
		s := everything()
		if rapid.Bool().Draw(t, "times") {
			s.Start, s.Stop = modelTimes().Draw(t, "start"), modelTimes().Draw(t, "stop")
		}
		if rapid.Bool().Draw(t, "tags") {
			s.Tags = append(s.Tags, rapid.SampledFrom([]segment.TagEqual{
				{Key: "s", Value: "s0"}, {Key: "s", Value: "s1"}, {Key: "r", Value: "north"}, {Key: "r", Value: ""},
				{Key: "absent", Value: "a"},
			}).Draw(t, "tag"))
		}
		if rapid.Bool().Draw(t, "fields") {
			s.Fields = rapid.SampledFrom([][]string{{"v"}, {"w"}, {"v", "x"}, {"absent"}}).Draw(t, "names")
		}
		return s
	})
}

// modelOptions are engines that differ in all that a transcript must not show.
var modelOptions = []struct {
	name string
	set  func(*Options)
}{
	{"three shards", func(*Options) {}},
	{"one small shard", func(o *Options) {
		o.Shards, o.Memtable.MaxRows, o.Memtable.FrozenMax = 1, 8, 1
		o.Tier.CapacityBytes = 256 << 10
	}},
	{"eight large shards", func(o *Options) {
		o.Shards, o.Memtable.MaxRows, o.Memtable.MaxBytes = 8, 100_000, 256<<10
		o.Tier.CapacityBytes = 8 << 20
		o.WAL = WALOptions{FileBytes: 64 << 10, MaxBytes: 1 << 20}
	}},
	{"memtables of a second, a small log", func(o *Options) {
		o.Shards, o.Memtable.MaxRows, o.Memtable.MaxAge = 2, 1000, time.Second
		o.WAL = WALOptions{FileBytes: 4 << 10, MaxBytes: 16 << 10}
	}},
	{"a slow drain", func(o *Options) {
		o.Shards, o.Memtable.MaxRows, o.Memtable.MaxBytes = 2, 12, 12<<10
		o.Tier.CapacityBytes = 32 << 10
		o.CompactionBytesPerSecond = 4000
	}},
}

// book is what the engine should hold: for each measurement the points by their key, with the newest value of each
// field. Values are the numbers of their writes.
type book map[string]map[string]testPoint

func pointKey(p *testPoint) string {
	var tags []segment.Tag
	for _, name := range slices.Sorted(maps.Keys(p.Tags)) {
		tags = append(tags, segment.Tag{Key: []byte(name), Value: []byte(p.Tags[name])})
	}
	return fmt.Sprintf("%s %020d", segment.AppendKey(nil, tags), uint64(p.Time)^(1<<63))
}

func (b book) write(p testPoint) {
	if b[p.Measurement] == nil {
		b[p.Measurement] = map[string]testPoint{}
	}
	key := pointKey(&p)
	old, found := b[p.Measurement][key]
	if found {
		merged := maps.Clone(old.Fields)
		maps.Copy(merged, p.Fields)
		p.Fields = merged
	}
	b[p.Measurement][key] = p
}

// rows answers a query as the engine should.
func (b book) rows(measurement string, sel *segment.Selection) map[string]string {
	rows := map[string]string{}
	for key, p := range b[measurement] {
		if !sel.ContainsTime(p.Time) || slices.ContainsFunc(sel.Tags, func(t segment.TagEqual) bool {
			return p.Tags[t.Key] != t.Value
		}) {
			continue
		}
		var out []string
		for _, name := range slices.Sorted(maps.Keys(p.Fields)) {
			if sel.Fields == nil || slices.Contains(sel.Fields, name) {
				out = append(out, fmt.Sprintf("%s=%d", name, p.Fields[name]))
			}
		}
		if len(out) > 0 {
			rows[key] = strings.Join(out, " ")
		}
	}
	return rows
}

// player plays a transcript with an engine and with the book.
type player struct {
	disk    *memory.FS
	lies    func(vfs.Op) bool
	options int
	engine  *Engine
	book    book
	values  int64
	paused  bool
	did     tally // moves and what came of them
}

// play returns how the engine differs from the book. Bubbles only.
func (p *player) play(moves []move) (err error) {
	if err := p.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for i, s := range append(slices.Clone(moves), move{Kind: moveCompact}, move{Kind: moveReopen}) {
		p.did[string(s.Kind)]++
		if err := p.move(&s); err != nil {
			return fmt.Errorf("move %d, %#v, with %s: %w", i, s, modelOptions[p.options].name, err)
		}
		synctest.Wait() // so that it can be played again
	}
	return p.lookAtAll()
}

func (p *player) move(s *move) error {
	switch s.Kind {
	case moveNothing:
		return nil
	case moveWrite:
		return p.write(s.Points)
	case moveFlood:
		return p.flood(s.Points)
	case moveRounds:
		return p.rounds(s.Points)
	case moveSeal:
		return p.seal()
	case movePoke:
		p.engine.tier.compactor.Poke()
		return nil
	case moveCompact:
		return p.compact()
	case movePause:
		return p.pause(!p.paused)
	case moveSleep:
		time.Sleep(s.Sleep)
		return nil
	case moveScan:
		return p.scan(s.Measurement, s.Selection)
	case moveDrop:
		return p.drop(s.Measurement)
	default:
		return p.reopen(s)
	}
}

// write writes until it is taken: what is refused is gone. A pause ends when it would keep the tier full.
func (p *player) write(points []testPoint) error {
	points = slices.Clone(points)
	for i := range points {
		fields := map[string]any{}
		for name := range points[i].Fields {
			p.values++
			fields[name] = p.values
		}
		points[i].Fields = fields
	}
	for try := range 3000 {
		err := put(p.engine, "db", points...)
		if err == nil {
			for _, point := range points {
				p.book.write(point)
			}
			return nil
		}
		var refused *BackpressureError
		if !errors.As(err, &refused) || try == 2999 {
			return err
		}
		p.did["a write is refused: "+refused.Cause]++
		if p.paused {
			if err := p.pause(false); err != nil {
				return err
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	panic("BUG: the loop returns")
}

func (p *player) flood(points []testPoint) error {
	points = slices.Clone(points)
	for range 12 {
		for i := range points {
			points[i].Time = min(points[i].Time, math.MaxInt64-int64(time.Hour)) + int64(time.Second)
		}
		if err := p.write(points); err != nil {
			return err
		}
	}
	return nil
}

// rounds leads to more files of level 1 than one merge of level 1 needs.
func (p *player) rounds(points []testPoint) error {
	for range 9 {
		if err := errors.Join(p.write(points), p.seal(), p.compact()); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) seal() error {
	fence, err := p.engine.ForceSeal(context.Background())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return fence.Wait(ctx)
}

func (p *player) pause(paused bool) error {
	p.paused = paused
	return p.engine.SetCompaction(nil, &paused)
}

func (p *player) compact() error {
	if err := p.pause(false); err != nil {
		return err
	}
	before := p.engine.store.Level(1).Segments
	for range 100 {
		if compactAll(p.engine) {
			if p.engine.store.Level(1).Segments < before {
				p.did["level 1 has fewer files"]++
			}
			return nil
		}
	}
	return fmt.Errorf("level 0 is not compacted: %+v", p.engine.Status().Drain)
}

func (p *player) scan(measurement string, sel segment.Selection) error {
	q := Query{Database: "db", Measurement: measurement, Selection: sel}
	got, c := map[string]string{}, &complaints{}
	source, err := p.engine.Scan(context.Background(), q)
	if err == nil {
		last := ""
		err = eachBlock(source, func(b *segment.Block) error {
			last = collect(c, b, got, last)
			return nil
		})
	}
	if err != nil && !errors.Is(err, ErrDatabaseNotFound) && !errors.Is(err, ErrMeasurementNotFound) {
		return err
	}
	if diff := cmp.Diff(p.book.rows(measurement, &sel), got); diff != "" {
		return fmt.Errorf("rows of %s (-want +got):\n%s", measurement, diff)
	}
	return errors.Join(c.errs...)
}

func (p *player) drop(measurement string) error {
	err := p.engine.DropMeasurement(context.Background(), "db", measurement)
	if err != nil && !errors.Is(err, ErrDatabaseNotFound) {
		return err
	}
	delete(p.book, measurement)
	return p.lookAtAll()
}

func (p *player) lookAtAll() error {
	return errors.Join(p.scan("m", everything()), p.scan("n", everything()), checkCopies(p.engine), checkFloors(p.engine))
}

func (p *player) open() error {
	o := faultOptions(p.disk)
	if p.lies != nil {
		o.FS = newFaultDisk(p.disk, func(op vfs.Op) fate {
			if p.lies(op) {
				return swallow
			}
			return works
		})
	}
	modelOptions[p.options].set(&o)
	var err error
	if p.engine, err = Open(o); err != nil {
		p.engine = nil
		return err
	}
	p.paused = false
	return p.engine.Recover(context.Background())
}

func (p *player) close() error {
	if p.engine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	status := p.engine.Status()
	p.did["rows replayed"] += int(status.Recovery.RowsReplayed)
	p.did["jobs of compaction"] += int(status.Drain.Jobs)
	for _, s := range status.Shards {
		p.did["flushes"] += int(s.Flushes)
	}
	err := p.engine.Shutdown(ctx)
	p.engine = nil
	return err
}

func (p *player) reopen(s *move) error {
	left := p.disk
	if s.Kind == moveCrash {
		left = crashOf(p.disk, s.Share, uint64(p.values))
	}
	if err := p.close(); err != nil {
		return err
	}
	p.disk = left
	p.options = (p.options + s.Next) % len(modelOptions)
	if err := p.open(); err != nil {
		return err
	}
	if got := p.engine.Status().Recovery; s.Kind == moveReopen && got.FramesReplayed != 0 {
		return fmt.Errorf("after a clean stop %d frames were replayed", got.FramesReplayed)
	}
	return p.lookAtAll()
}

// playOnce plays a transcript in a bubble of its own.
func playOnce(t *testing.T, p *player, moves []move) (err error) {
	t.Helper()
	p.disk, p.book = memory.New(), book{}
	bubble(t, func(*testing.T) { err = p.play(moves) })
	return err
}

// modelChecks is the number of transcripts, unless -rapid.checks says another; so that runs are alike, they begin with
// the same seed, unless -rapid.seed says another.
const (
	modelChecks     = 16
	modelChecksLong = 1000
)

func setRapid(t *testing.T) {
	t.Helper()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	checks := modelChecks
	if *faultsLong {
		checks = modelChecksLong
	}
	for name, value := range map[string]string{"rapid.checks": fmt.Sprint(checks), "rapid.seed": "1"} {
		old := flag.Lookup(name).Value.String()
		if given[name] {
			value = old
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Logf("-%s=%s", name, value)
		t.Cleanup(func() { _ = flag.Set(name, old) })
	}
}

// I1, I4, I8, I9 and I14: whatever the sizes and the number of shards, and however they change, the same transcript
// reads the same: what a map says.
func TestEveryEnginePlaysTheSameTranscript(t *testing.T) {
	skipUnderRace(t)
	setRapid(t)
	did := tally{}
	rapid.Check(t, func(rt *rapid.T) {
		moves := rapid.SliceOfN(modelMoves(), 20, 60).Draw(rt, "moves")
		for i, o := range modelOptions {
			if err := playOnce(t, &player{options: i, did: did}, moves); err != nil {
				rt.Fatalf("begun with %s: %v", o.name, err)
			}
		}
	})
	t.Log(did)
}

// A transcript finds what a disk that lies has lost.
func TestATranscriptFindsALostWrite(t *testing.T) {
	p := testPoint{Measurement: "m", Tags: map[string]string{"s": "a"}, Fields: map[string]any{"v": nil}}
	moves := []move{
		{Kind: moveWrite, Points: []testPoint{p}},
		{Kind: moveCrash, Share: nothing},
	}
	if err := playOnce(t, &player{did: tally{}}, moves); err != nil {
		t.Fatalf("on an honest disk: %v", err)
	}
	lies := func(op vfs.Op) bool { return op.Name == "sync" && strings.Contains(op.Path, "wal/0") }
	err := playOnce(t, &player{lies: lies, did: tally{}}, moves)
	if err == nil || !strings.Contains(err.Error(), "want +got") {
		t.Fatalf("got %v, want rows that are missing", err)
	}
}
