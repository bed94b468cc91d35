package shard

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/internal/vfs/memory"
	"lineweir/segment"
)

// model is what the engine should hold: the newest value of each field of each point, as rowsOf prints it.
type model map[string]map[string]string // row key, field

func (m model) write(p testPoint) {
	key := rowKey(p.Tags["s"], p.Time)
	if m[key] == nil {
		m[key] = map[string]string{}
	}
	for name, value := range p.Fields {
		f := field(name, value)
		m[key][name] = fmt.Sprint(int64(f.Number))
		if f.Kind == segment.KindString {
			m[key][name] = fmt.Sprintf("%q", f.String)
		}
	}
}

// rows prints the model as rowsOf prints the engine.
func (m model) rows() map[string]string {
	rows := map[string]string{}
	for key, fields := range m {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			out = append(out, name+"="+fields[name])
		}
		rows[key] = strings.Join(out, " ")
	}
	return rows
}

// I8, I9, I14 and D1 to D6: random writes with overwrites, seals, compactions, drops, crashes and reopens, also with
// other numbers of shards, against a map. Values carry the number of their write, so that a stale read is seen, and
// change their type with every drop.
func TestTheEngineAgreesWithAModel(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			runModel(t, rand.New(rand.NewPCG(seed, 1)), 150)
		})
	}
}

type modelRun struct {
	t       *testing.T
	random  *rand.Rand
	options Options
	engine  *Engine
	model   model
	writes  int64
	drops   int
}

func runModel(t *testing.T, random *rand.Rand, operations int) {
	o := testOptions("data")
	o.FS = memory.New()
	o.Memtable.MaxBytes = 64 << 10
	o.Memtable.MaxRows = 60
	r := &modelRun{t: t, random: random, options: o, model: model{}}
	r.engine = start(t, o)
	for range operations {
		r.step()
		if t.Failed() {
			return
		}
	}
	r.compare("the end")
}

func (r *modelRun) step() {
	switch n := r.random.IntN(100); {
	case n < 70:
		r.write()
	case n < 78:
		seal(r.t, r.engine)
	case n < 86:
		r.engine.tier.compactor.Poke()
	case n < 92:
		r.compare("a scan")
	case n < 94:
		r.drop()
	case n < 97:
		r.reopen(false)
	default:
		r.reopen(true)
	}
}

func (r *modelRun) write() {
	points := make([]testPoint, 1+r.random.IntN(12))
	for i := range points {
		r.writes++
		p := at(fmt.Sprintf("s%d", r.random.IntN(5)), r.time(), 0)
		p.Fields = map[string]any{"v": r.value()}
		if r.random.IntN(3) == 0 {
			p.Fields = map[string]any{"w": r.value()}
		}
		points[i] = p
	}
	deadline := time.Now().Add(hangs)
	for put(r.engine, "db", points...) != nil {
		if time.Now().After(deadline) {
			r.t.Fatalf("a write is refused for %s", hangs)
		}
	}
	for _, p := range points {
		r.model.write(p)
	}
}

// value is the number of the write, as the type that fields have since the last drop.
func (r *modelRun) value() any {
	return []any{r.writes, fmt.Sprint(r.writes), float64(r.writes), uint64(r.writes)}[r.drops%4]
}

// drop drops what there is, alone or with its database.
func (r *modelRun) drop() {
	if r.random.IntN(3) == 0 {
		mustDropDatabase(r.t, r.engine, "db")
	} else if len(r.model) > 0 {
		mustDrop(r.t, r.engine, "db", "m")
	}
	clear(r.model)
	r.drops++
	r.compare("a drop")
}

// time returns one of few times, on several days, so that points are overwritten and partitions are many.
func (r *modelRun) time() int64 {
	const day = int64(24 * time.Hour)
	return r.random.Int64N(4)*day + r.random.Int64N(6) - day
}

func (r *modelRun) compare(when string) {
	r.t.Helper()
	if diff := cmp.Diff(r.model.rows(), rowsOf(r.t, r.engine, "m")); diff != "" {
		r.t.Fatalf("%s after %d points:\n%s", when, r.writes, diff)
	}
}

func (r *modelRun) reopen(afterCrash bool) {
	next := r.options
	next.Shards = 1 + r.random.IntN(3)
	if afterCrash {
		next = crashed(next, next.FS.(*memory.FS), r.random.Uint64())
	}
	shutdown(r.t, r.engine)
	r.options = next
	r.engine = start(r.t, next)
	if got := r.engine.Status().Recovery.FramesReplayed; !afterCrash && got != 0 {
		r.t.Errorf("%d frames replayed after a clean close", got)
	}
	r.compare("a reopen")
}

// I9: a reader sees neither gap nor duplicate while memtables are sealed, flushed and compacted under it.
func TestScansSeeEveryPointOnceWhileDataMoves(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Memtable.MaxBytes = 64 << 10
	e := start(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int64)
	var acknowledged atomic.Int64
	go func() {
		n := int64(0)
		for ctx.Err() == nil {
			if put(e, "db", at(fmt.Sprintf("s%d", n%5), n, n)) == nil {
				n++
				acknowledged.Store(n)
			}
			if n%50 == 0 {
				_, _ = e.ForceSeal(ctx)
				e.tier.compactor.Poke()
			}
		}
		done <- n
	}()
	scans := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); scans++ {
		before := acknowledged.Load()
		rows := rowsOf(t, e, "m") // checks that none is double
		for n := range before {
			if _, ok := rows[rowKey(fmt.Sprintf("s%d", n%5), n)]; !ok {
				t.Fatalf("scan %d has %d rows, but not row %d", scans, len(rows), n)
			}
		}
	}
	cancel()
	if n := <-done; int64(len(rowsOf(t, e, "m"))) != n || n == 0 {
		t.Errorf("%d rows, %d written", len(rowsOf(t, e, "m")), n)
	}
}
