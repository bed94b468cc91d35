package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var soakFor = flag.Duration("soak", 0, "how long TestSoak runs; 0 for its short form")

const (
	soakWriters     = 8
	soakShare       = 0.9 // of the capacity
	soakShortKills  = 8
	soakShortRound  = 1500 * time.Millisecond
	soakLongRound   = 20 * time.Second
	soakSeed        = 9
	soakKept        = 2       // databases beside the one that is written to
	soakOthersMore  = 40      // files beside segments: the log has more or fewer, and a kill can leave one in quarantine
	soakSegments    = 27 * 24 // three databases of 3 measurements on 3 days, of three tiers of 8 files each
	soakFilesLimit  = 3 * time.Minute
	soakAfterLook   = time.Second / 2
	soakMoreAtMost  = 60       // open files and goroutines, of which connections have some
	soakMemoryTwice = 64 << 20 // bytes of resident memory that the second half may have more than the first
)

// soakSettings bound the capacity by the drain: a server of the full speed of the machine would write more in ten
// minutes than can be compared.
var soakSettings = []string{
	"shards=2", "memtable.max_bytes=256KiB", "wal.file_bytes=1MiB", "page_cache.capacity=2MiB", "admission.max_wait=100ms",
	"compaction.max_bytes_per_second=300KiB",
}

// soak is a server that is killed again and again at most of what it can take. Each round writes to a database of its
// own, which is compared after the next two kills and then dropped.
type soak struct {
	dataDir string
	rounds  []*history
	usages  []soakUsage
	random  *rand.Rand
}

type soakUsage struct {
	usage
	Segments int // complete files in l0 and l1, as many as are live
	Others   int // files in wal, manifest and quarantine, and those of segments that are being written
}

// TestSoak runs a server at 90 % of its capacity and kills it at random times: nothing is lost or stored twice, and
// memory, files and goroutines stay flat. The long form: go test ./internal/e2e -run TestSoak -soak=10m -timeout 1h
func TestSoak(t *testing.T) {
	outside(t)
	t.Parallel() // it mostly waits
	k := &soak{dataDir: t.TempDir(), random: rand.New(rand.NewPCG(soakSeed, 0))}
	round, end := soakShortRound, time.Time{}
	if *soakFor > 0 {
		round, end = soakLongRound, time.Now().Add(*soakFor)
	}
	capacity := k.measure(t, 2*round)
	t.Logf("capacity: %.0f points/s", capacity*batchPoints)
	for kill := 0; kill < soakShortKills || time.Now().Before(end); kill++ {
		s := start(t, k.dataDir, soakSettings...)
		k.check(t, s)
		k.drop(t, s, soakKept)
		lasts := round/4 + time.Duration(k.random.Int64N(int64(round*3/2))) // the round on average
		k.killUnderLoad(t, s, soakShare*capacity, lasts)
	}
	s := start(t, k.dataDir, soakSettings...)
	k.check(t, s)
	k.drop(t, s, 1)
	s.seal(t)
	stored := k.rounds[len(k.rounds)-1].check(t, s)
	s.stop(t)
	checkStoredOnce(t, s, stored)
	k.report(t)
}

// measure returns how many batches a second the server takes once its tier is full.
func (k *soak) measure(t *testing.T, lasts time.Duration) float64 {
	t.Helper()
	s := start(t, k.dataDir, soakSettings...)
	h := k.begin()
	half := func() (accepted int) {
		before := h.count(acknowledged)
		ctx, cancel := context.WithTimeout(t.Context(), lasts/2)
		defer cancel()
		k.write(t, ctx, s, h, 0)
		return h.count(acknowledged) - before
	}
	half() // fills the tier
	accepted := half()
	h.check(t, s)
	s.kill()
	return max(1, float64(accepted)/(lasts/2).Seconds())
}

func (k *soak) begin() *history {
	h := &history{database: fmt.Sprintf("soak%d", len(k.rounds))}
	k.rounds = append(k.rounds, h)
	return h
}

// killUnderLoad writes at the rate, looks at what the server takes of the machine, and kills it.
func (k *soak) killUnderLoad(t *testing.T, s *server, rate float64, lasts time.Duration) {
	t.Helper()
	h := k.begin()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var writers sync.WaitGroup
	writers.Go(func() { k.write(t, context.WithoutCancel(ctx), s, h, rate) })
	<-ctx.Done()
	k.usages = append(k.usages, k.look(t, s))
	time.Sleep(time.Duration(k.random.Int64N(int64(soakAfterLook)))) // so that the kill hits any moment, not this one
	s.kill()
	writers.Wait()
}

// write sends batches until ctx is done or the server is gone: so many a second, or as many as are answered if rate is
// 0. What the server refuses is not sent again.
func (k *soak) write(t *testing.T, ctx context.Context, s *server, h *history, rate float64) {
	t.Helper()
	var sent atomic.Int64
	var writers sync.WaitGroup
	began := time.Now()
	for range soakWriters {
		writers.Go(func() {
			for ctx.Err() == nil && s.running() {
				if rate > 0 {
					due := time.Duration(float64(sent.Add(1)) / rate * float64(time.Second))
					time.Sleep(time.Until(began.Add(due)))
				}
				batch := h.begin()
				got, err := s.send(t.Context(), http.MethodPost, "/write?db="+h.name(), batchLines(batch))
				switch {
				case err != nil: // killed
				case got.status == http.StatusNoContent:
					h.end(batch, acknowledged)
				case got.status == http.StatusServiceUnavailable && !strings.Contains(got.body, "outcome_unknown"):
					h.end(batch, refused)
				default:
					t.Errorf("a write was answered %d: %s", got.status, got.body)
				}
			}
		})
	}
	writers.Wait()
}

// check compares the databases that are still there with what was written to them.
func (k *soak) check(t *testing.T, s *server) {
	t.Helper()
	for _, h := range k.rounds[max(0, len(k.rounds)-soakKept):] {
		h.check(t, s)
	}
}

// drop drops the database that is one too many.
func (k *soak) drop(t *testing.T, s *server, kept int) {
	t.Helper()
	for _, h := range k.rounds[max(0, len(k.rounds)-soakKept-1):max(0, len(k.rounds)-kept)] {
		query := url.Values{"q": {`DROP DATABASE "` + h.name() + `"`}}
		s.must(t, http.MethodPost, "/query?"+query.Encode(), "", http.StatusOK)
	}
}

// look waits for a moment in which each segment file is a live segment. One that waits for its edit, or goes because its
// segment was merged, is in the way only for that long; one that leaks stays.
func (k *soak) look(t *testing.T, s *server) soakUsage {
	t.Helper()
	u := soakUsage{usage: s.usage(t)}
	eventually(t, soakFilesLimit, "each segment file is a live segment", func() bool {
		before := s.status(t).segments()
		files := s.files(t, "l0", "l1")
		u.Others = len(s.files(t, "wal", "manifest", "quarantine")) + len(files)
		u.Segments = len(slices.DeleteFunc(files, func(path string) bool { return filepath.Ext(path) != ".parquet" }))
		u.Others -= u.Segments
		return u.Segments == before && u.Segments == s.status(t).segments()
	})
	return u
}

// report prints the figures, and requires that the second half took no more of the machine than the first.
func (k *soak) report(t *testing.T) {
	t.Helper()
	counts := map[outcome]int{}
	for _, h := range k.rounds[1:] { // the first one measured the capacity
		for _, outcome := range []outcome{acknowledged, refused, unanswered} {
			counts[outcome] += h.count(outcome)
		}
	}
	t.Logf("%d kills; %d points acknowledged, %d refused, %d cut off; none lost, none twice", len(k.usages),
		counts[acknowledged]*batchPoints, counts[refused]*batchPoints, counts[unanswered]*batchPoints)
	for _, problem := range k.growth(t) {
		t.Error(problem)
	}
}

// growth tells what the server took more of the longer it ran.
func (k *soak) growth(t *testing.T) (problems []string) {
	t.Helper()
	half := len(k.usages) / 2
	for _, figure := range []struct {
		name string
		of   func(soakUsage) float64
		more float64
	}{
		{"bytes of resident memory", func(u soakUsage) float64 { return u.ResidentBytes }, soakMemoryTwice},
		{"goroutines", func(u soakUsage) float64 { return u.Goroutines }, soakMoreAtMost},
		{"open files", func(u soakUsage) float64 { return u.OpenFiles }, soakMoreAtMost},
		{"files beside segments", func(u soakUsage) float64 { return float64(u.Others) }, soakOthersMore},
	} {
		first, second := highest(k.usages[:half], figure.of), highest(k.usages[half:], figure.of)
		t.Logf("%s: at most %.0f in the first half, %.0f in the second", figure.name, first, second)
		if second > first+figure.more {
			problems = append(problems, fmt.Sprintf("%s grow: at most %.0f in the first half of the kills, %.0f in the second",
				figure.name, first, second))
		}
	}
	// Level 1 grows with what is written, so it has a bound of its own.
	of := func(u soakUsage) float64 { return float64(u.Segments) }
	first, second := highest(k.usages[:half], of), highest(k.usages[half:], of)
	t.Logf("segments, each a file: at most %.0f in the first half, %.0f in the second", first, second)
	if second > soakSegments {
		problems = append(problems, fmt.Sprintf("there are %.0f segments, which are not merged", second))
	}
	return problems
}

func highest(usages []soakUsage, of func(soakUsage) float64) float64 {
	return of(slices.MaxFunc(usages, func(a, b soakUsage) int { return cmp.Compare(of(a), of(b)) }))
}

// TestTheSoakFindsWhatIsWrong is the proof that TestSoak can fail: what it judges by finds points that are lost, torn,
// refused, foreign or there twice, and each figure that grows.
func TestTheSoakFindsWhatIsWrong(t *testing.T) {
	h := &history{outcomes: []outcome{acknowledged, refused, unanswered}}
	acknowledged, line := batchLines(0), func(batch int) string { return strings.SplitAfter(batchLines(batch), "\n")[0] }
	for name, stored := range map[string]string{
		"":                  acknowledged,
		"a lost point":      strings.TrimPrefix(acknowledged, line(0)),
		"a torn batch":      acknowledged + line(2),
		"a refused batch":   acknowledged + batchLines(1),
		"a point of nobody": acknowledged + line(9),
	} {
		got, err := parsePoints(stored)
		if err != nil {
			t.Fatal(err)
		}
		if problems := h.problems(t, got); len(problems) == 0 != (name == "") {
			t.Errorf("%q: found %v", name, problems)
		}
	}
	if _, err := parsePoints(acknowledged + line(0)); err == nil {
		t.Error("a point that a scan answers twice is not found")
	}
	if len(storedProblems([]string{"a", "b"}, 2)) > 0 || len(storedProblems([]string{"a", "b", "a"}, 2)) == 0 ||
		len(storedProblems([]string{"a", "a"}, 2)) == 0 || len(storedProblems([]string{"a"}, 2)) == 0 {
		t.Error("a row that is in the files twice, or in none, is not found")
	}
	for _, test := range []struct {
		second soakUsage
		grows  int
	}{
		{soakUsage{}, 0},
		{soakUsage{usage: usage{ResidentBytes: soakMemoryTwice + 1}}, 1},
		{soakUsage{usage: usage{Goroutines: soakMoreAtMost + 1}}, 1},
		{soakUsage{usage: usage{OpenFiles: soakMoreAtMost + 1}}, 1},
		{soakUsage{Others: soakOthersMore + 1}, 1},
		{soakUsage{Segments: soakSegments + 1}, 1},
	} {
		k := &soak{usages: []soakUsage{{}, test.second}}
		if problems := k.growth(t); len(problems) != test.grows {
			t.Errorf("%+v in the second half: %v", test.second, problems)
		}
	}
}
