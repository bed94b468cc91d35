package suite

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// good passes every gate, each figure exactly at its bound or, where it has to be below, a little.
func good() Figures {
	return Figures{
		"bound_violations": 0, "tier_highest_bytes": 1 << 20, "tier_capacity_bytes": 1 << 20,
		"fits_p99_ratio": 1.5, "shut_p99_seconds": 0.003, "open_p99_seconds": 0.002,
		"goodput_share": 0.9, "admitted_p99_seconds": 0.254, "hold_and_commits_seconds": 0.254,
		"goodput_variation": 0.15, "lowest_second_share": 0.05,
		"recovery_seconds": 15, "recovered_share": 0.9, "refused_share_after": 0.0099,
		"first_return_share": 0.5, "refusals_per_admission": 2, "modest_share": 0.95, "jain": 0.95,
		"unread_ratio": 10, "parsed_ratio": 3, "peak_memory_bytes": 99, "stated_memory_bytes": 100,
		"missing_points": 0, "stored_twice_rows": 0, "acknowledged_points": 1000,
	}
}

// bad is a value that misses the gate, for each figure that a gate judges.
var bad = Figures{
	"bound_violations": 1, "fits_p99_ratio": 1.51, "goodput_share": 0.899, "admitted_p99_seconds": 0.2541,
	"goodput_variation": 0.151, "lowest_second_share": 0.049, "recovery_seconds": 16, "refused_share_after": 0.01,
	"first_return_share": 0.49, "refusals_per_admission": 2.01, "modest_share": 0.949, "jain": 0.949,
	"unread_ratio": 9.9, "peak_memory_bytes": 100, "missing_points": 1, "stored_twice_rows": 1,
}

func TestGatesAreThoseThatWerePromised(t *testing.T) {
	if len(Gates) != 12 {
		t.Errorf("got %d gates, want 12", len(Gates))
	}
	for i := range Gates {
		g := &Gates[i]
		if !slices.Contains(Names(), g.Scenario) {
			t.Errorf("%s: there is no scenario %q", g.Claim, g.Scenario)
		}
		if got := g.judge(good(), false); got != Passed {
			t.Errorf("%s: good figures are %s", g.Claim, got)
		}
	}
}

// Every figure of every gate can miss it, by itself, and so does one that is not there.
func TestBadFiguresMissTheirGate(t *testing.T) {
	for i := range Gates {
		g := &Gates[i]
		for _, l := range g.limits {
			f := good()
			value, known := bad[l.figure]
			if !known {
				t.Errorf("%s: there is no bad value of %s", g.Claim, l.figure)
			}
			f[l.figure] = value
			if got := g.judge(f, false); got != Missed {
				t.Errorf("%s: %s = %v is %s", g.Claim, l.figure, value, got)
			}
			want := Missed
			if g.Timed {
				want = NotJudged
			}
			if got := g.judge(f, true); got != want {
				t.Errorf("%s: %s = %v is %s in the short form, want %s", g.Claim, l.figure, value, got, want)
			}
			f[l.figure] = math.NaN()
			if got := g.judge(f, true); got != NotMeasured {
				t.Errorf("%s: %s that is no number is %s", g.Claim, l.figure, got)
			}
			delete(f, l.figure)
			if got := g.judge(f, true); got != NotMeasured {
				t.Errorf("%s: without %s it is %s", g.Claim, l.figure, got)
			}
		}
	}
}

// What a scenario failed at is missed, whatever it measured before.
func TestAFailedScenarioMissesItsGates(t *testing.T) {
	results := judgeAll([]*Record{{Scenario: Memory, Figures: good(), Failure: "the server exited"}})
	if len(results) != 1 || results[0].Verdict != NotMeasured || !errors.Is(missed(results), ErrMissed) {
		t.Errorf("got %+v", results)
	}
	results = judgeAll([]*Record{{Scenario: Memory, Figures: good()}})
	if len(results) != 1 || results[0].Verdict != Passed || missed(results) != nil {
		t.Errorf("got %+v", results)
	}
}

func TestTheTableIsPrinted(t *testing.T) {
	var out bytes.Buffer
	figures := good()
	figures["jain"] = 0.5
	records := []*Record{
		{Scenario: Fairness, Figures: figures}, {Scenario: Memory, Figures: good(), Short: true},
		{Scenario: Fits, Figures: good(), Short: true},
	}
	p := printer{to: &out}
	p.head(&bench{form: short()})
	for _, r := range records {
		p.scenario(r)
	}
	p.table(judgeAll(records))
	if p.err != nil {
		t.Fatal(p.err)
	}
	for _, part := range []string{
		"short form", "machine  ", "seed     0", "hold 250ms", "95.0 %; 0.500", "MISSED", "passed", "not judged",
		"jain                             0.5",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("nothing says %q in:\n%s", part, &out)
		}
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	o := Options{Only: []string{"tea", Memory}, Dir: t.TempDir() + "/missing"}
	err := Run(t.Context(), o)
	if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), `"tea"`) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v", err)
	}
}

// A binary that is no server fails every scenario, and leaves nothing behind.
func TestABinaryThatIsNoServer(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp)
	var out bytes.Buffer
	err := Run(t.Context(), Options{Binary: tmp + "/none", Short: true, Only: []string{Memory, Overload}, Out: &out})
	if !errors.Is(err, ErrMissed) || !strings.Contains(out.String(), "NOT MEASURED") {
		t.Errorf("got %v\n%s", err, &out)
	}
}

func TestRecordsAreReadBack(t *testing.T) {
	dir := t.TempDir()
	b := &bench{form: long(), version: "v", seed: 7}
	record := b.newRecord(&scenarios[1])
	record.Figures = Figures{"a": 1.5, "b": math.Inf(1)}
	record.Figures.finite()
	if err := record.writeInto(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readRecord(dir + "/suite-overload.json")
	if err != nil {
		t.Fatal(err)
	}
	if got.Seed != 7 || len(got.Figures) != 1 || got.Figures["a"] != 1.5 || !got.Started.Equal(record.Started) {
		t.Errorf("got %+v", got)
	}
}
