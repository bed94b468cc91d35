package suite

import (
	"fmt"
	"math"
)

// Figures are what a scenario measured, by name. Names end in their unit where they have one; shares are of 1.
type Figures map[string]float64

// Gate is a claim, with what has to hold of the figures of its scenario.
type Gate struct {
	Claim    string
	Text     string // the gate in words
	Scenario string
	Timed    bool // a busy machine can spoil it, and the short form does not judge it
	limits   []limit
	show     func(Figures) string
}

// comparison is how a figure lies to its bound.
type comparison string

const (
	atMost  comparison = "≤"
	atLeast comparison = "≥"
	below   comparison = "<"
)

// limit is a bound on one figure.
type limit struct {
	figure  string
	is      comparison
	bound   float64
	boundBy string // the figure that is the bound; "": bound is
}

// Names of the scenarios.
const (
	Maximum       = "maximum"
	Overload      = "overload"
	Fits          = "fits"
	Recovery      = "recovery"
	Metastability = "metastability"
	Fairness      = "fairness"
	Refusals      = "refusals"
	Memory        = "memory"
)

// Gates are all gates, in the order in which they are shown.
var Gates = []Gate{
	{
		Claim: "tier bound never exceeded (asserted inside, sampled outside)",
		Text:  "0 violations at 10 × the sustainable rate for 2 min", Scenario: Overload,
		limits: []limit{{figure: "bound_violations", is: atMost, bound: 0}},
		show: func(f Figures) string {
			return fmt.Sprintf("%.0f violations; highest %s of %s", f["bound_violations"],
				sized(f["tier_highest_bytes"]), sized(f["tier_capacity_bytes"]))
		},
	},
	{
		Claim: "a write that fits is not slowed while the gate is shut", Text: "p99 within 1.5 × of the open gate",
		Scenario: Fits, Timed: true,
		limits: []limit{{figure: "fits_p99_ratio", is: atMost, bound: 1.5}},
		show: func(f Figures) string {
			return fmt.Sprintf("%.2f × (%s shut, %s open)", f["fits_p99_ratio"],
				milliseconds(f["shut_p99_seconds"]), milliseconds(f["open_p99_seconds"]))
		},
	},
	{
		Claim: "goodput at 10 × ÷ sustainable maximum", Text: "≥ 0.9", Scenario: Overload, Timed: true,
		limits: []limit{{figure: "goodput_share", is: atLeast, bound: 0.9}},
		show:   func(f Figures) string { return fmt.Sprintf("%.3f", f["goodput_share"]) },
	},
	{
		Claim: "p99 of admitted at 10 ×, from intended send", Text: "≤ hold + 2 group commits", Scenario: Overload,
		Timed:  true,
		limits: []limit{{figure: "admitted_p99_seconds", is: atMost, boundBy: "hold_and_commits_seconds"}},
		show: func(f Figures) string {
			return fmt.Sprintf("%s, bound %s", milliseconds(f["admitted_p99_seconds"]),
				milliseconds(f["hold_and_commits_seconds"]))
		},
	},
	{
		Claim: "no oscillation: coefficient of variation of per-second goodput",
		Text:  "≤ 0.15, no second below 5 % of the mean", Scenario: Overload, Timed: true,
		limits: []limit{
			{figure: "goodput_variation", is: atMost, bound: 0.15},
			{figure: "lowest_second_share", is: atLeast, bound: 0.05},
		},
		show: func(f Figures) string {
			return fmt.Sprintf("%.3f, lowest second %s of the mean", f["goodput_variation"],
				percent(f["lowest_second_share"]))
		},
	},
	{
		Claim: "recovery after compaction was paused for 30 s", Text: "≥ 90 % goodput within 15 s", Scenario: Recovery,
		Timed:  true,
		limits: []limit{{figure: "recovery_seconds", is: atMost, bound: 15}},
		show: func(f Figures) string {
			return fmt.Sprintf("after %.0f s, then %s", f["recovery_seconds"], percent(f["recovered_share"]))
		},
	},
	{
		Claim: "no metastability: 10 × for 60 s, then 0.8 ×", Text: "< 1 % refusals within 30 s",
		Scenario: Metastability, Timed: true,
		limits: []limit{{figure: "refused_share_after", is: below, bound: 0.01}},
		show:   func(f Figures) string { return percent(f["refused_share_after"]) + " from then on" },
	},
	{
		Claim: "Retry-After quality", Text: "≥ 0.5 of returning clients admitted first time; ≤ 2 refusals per admission",
		Scenario: Overload, Timed: true,
		limits: []limit{
			{figure: "first_return_share", is: atLeast, bound: 0.5},
			{figure: "refusals_per_admission", is: atMost, bound: 2},
		},
		show: func(f Figures) string {
			return fmt.Sprintf("%.2f; %.2f", f["first_return_share"], f["refusals_per_admission"])
		},
	},
	{
		Claim: "fairness: a modest client beside one at 100 ×", Text: "≥ 95 % of its demand; Jain ≥ 0.95 among equals",
		Scenario: Fairness, Timed: true,
		limits: []limit{
			{figure: "modest_share", is: atLeast, bound: 0.95},
			{figure: "jain", is: atLeast, bound: 0.95},
		},
		show: func(f Figures) string { return fmt.Sprintf("%s; %.3f", percent(f["modest_share"]), f["jain"]) },
	},
	{
		Claim: "refusal cost, unread",
		Text:  "refusals/s at full CPU ≥ 10 × admissions/s (after parsing: printed, no gate)", Scenario: Refusals,
		Timed:  true,
		limits: []limit{{figure: "unread_ratio", is: atLeast, bound: 10}},
		show: func(f Figures) string {
			return fmt.Sprintf("%.1f × (after parsing %.1f ×)", f["unread_ratio"], f["parsed_ratio"])
		},
	},
	{
		Claim: "memory with 1,000 slow clients and 64 writers flat out", Text: "below the stated limit",
		Scenario: Memory,
		limits:   []limit{{figure: "peak_memory_bytes", is: below, boundBy: "stated_memory_bytes"}},
		show: func(f Figures) string {
			return fmt.Sprintf("%s of %s", sized(f["peak_memory_bytes"]), sized(f["stated_memory_bytes"]))
		},
	},
	{
		Claim: "acknowledged and missing afterwards; stored twice below the merge", Text: "0, 0", Scenario: Overload,
		limits: []limit{
			{figure: "missing_points", is: atMost, bound: 0},
			{figure: "stored_twice_rows", is: atMost, bound: 0},
		},
		show: func(f Figures) string {
			return fmt.Sprintf("%.0f, %.0f of %.0f points", f["missing_points"], f["stored_twice_rows"],
				f["acknowledged_points"])
		},
	},
}

// Verdict is what the figures say about a gate.
type Verdict string

// The verdicts.
const (
	Passed      Verdict = "passed"
	Missed      Verdict = "MISSED"
	NotMeasured Verdict = "NOT MEASURED" // a figure is missing; counts as missed
	NotJudged   Verdict = "not judged"   // a busy machine can spoil it, and this is the short form
)

// judge returns what the figures say. In the short form timed gates are not judged, but have to be measured all the
// same.
func (g *Gate) judge(f Figures, short bool) Verdict {
	verdict := Passed
	for _, l := range g.limits {
		figure, measured := f[l.figure]
		bound, bounded := l.bound, true
		if l.boundBy != "" {
			bound, bounded = f[l.boundBy]
		}
		if !measured || !bounded || math.IsNaN(figure) || math.IsNaN(bound) {
			return NotMeasured
		}
		if !holds(figure, l.is, bound) {
			verdict = Missed
		}
	}
	if g.Timed && short {
		return NotJudged
	}
	return verdict
}

func holds(figure float64, is comparison, bound float64) bool {
	switch is {
	case atMost:
		return figure <= bound
	case atLeast:
		return figure >= bound
	case below:
		return figure < bound
	}
	panic("BUG: a gate with the comparison " + string(is))
}

// text is the figure for people; "–" if there is none.
func (g *Gate) text(f Figures, verdict Verdict) string {
	if verdict == NotMeasured {
		return "–"
	}
	return g.show(f)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func milliseconds(seconds float64) string { return fmt.Sprintf("%.1f ms", 1000*seconds) }

func sized(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }
