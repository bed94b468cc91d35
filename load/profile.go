package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// StepsMax bounds the steps of a profile.
const StepsMax = 100

// Step is a stretch of time with one rate.
type Step struct {
	Factor   float64 // of the base rate
	Duration time.Duration
}

// Profile is steps, one after the other.
type Profile []Step

// ParseProfile reads steps such as "0.5x:30s,10x:60s,0.8x:30s".
func ParseProfile(text string) (Profile, error) {
	var profile Profile
	for step := range strings.SplitSeq(text, ",") {
		factorText, durationText, found := strings.Cut(strings.TrimSpace(step), "x:")
		factor, err := strconv.ParseFloat(factorText, 64)
		duration, durationErr := time.ParseDuration(durationText)
		if !found || err != nil || durationErr != nil || math.IsNaN(factor) || math.IsInf(factor, 0) ||
			factor < 0 || factor > 1000 || duration <= 0 {
			return nil, fmt.Errorf("step %q of the profile: want FACTORx:DURATION, for instance 0.5x:30s", step)
		}
		profile = append(profile, Step{factor, duration})
	}
	if len(profile) > StepsMax {
		return nil, fmt.Errorf("the profile has %d steps, at most %d are allowed", len(profile), StepsMax)
	}
	return profile, nil
}

// String writes the profile as ParseProfile reads it.
func (p Profile) String() string {
	var steps []string
	for _, step := range p {
		steps = append(steps, step.String())
	}
	return strings.Join(steps, ",")
}

func (s Step) String() string {
	return strconv.FormatFloat(s.Factor, 'g', -1, 64) + "x:" + s.Duration.String()
}

func (p Profile) duration() time.Duration {
	var sum time.Duration
	for _, step := range p {
		if sum > math.MaxInt64-step.Duration {
			return math.MaxInt64
		}
		sum += step.Duration
	}
	return sum
}

// schedule tells when each point is due. It is a pure function of the profile.
type schedule struct {
	steps []scheduled
}

// scheduled is a step on the axes of time and of points.
type scheduled struct {
	begin, end  time.Duration
	rate        float64 // points per second
	first, last float64 // points due before it, and before its end
}

func newSchedule(p *Pace) *schedule {
	steps := p.Profile
	if len(steps) == 0 {
		steps = Profile{{1, p.Duration}}
	}
	s := &schedule{}
	var at time.Duration
	var points float64
	for _, step := range steps {
		rate := step.Factor * p.Rate
		next := scheduled{begin: at, end: at + step.Duration, rate: rate, first: points}
		at, points = next.end, points+rate*step.Duration.Seconds()
		next.last = points
		s.steps = append(s.steps, next)
	}
	return s
}

func (s *schedule) end() time.Duration { return s.steps[len(s.steps)-1].end }

// due returns when a point is due that has so many before it; false if never.
func (s *schedule) due(before int64) (time.Duration, bool) {
	points := float64(before)
	for _, step := range s.steps {
		if points < step.last {
			return step.begin + time.Duration((points-step.first)/step.rate*float64(time.Second)), true
		}
	}
	return 0, false
}

// points returns how many are due before a moment.
func (s *schedule) points(at time.Duration) int64 {
	for _, step := range s.steps {
		if at < step.end {
			return int64(math.Ceil(step.first + max(0, at-step.begin).Seconds()*step.rate))
		}
	}
	return int64(math.Ceil(s.steps[len(s.steps)-1].last))
}

// step returns the number of the step that a moment lies in; the last one also has what comes after it.
func (s *schedule) step(at time.Duration) int {
	for i, step := range s.steps {
		if at < step.end {
			return i
		}
	}
	return len(s.steps) - 1
}
