package suite

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"lineweir/load"
)

// stretch is seconds of a run that belong together.
type stretch []load.Second

// between returns the seconds [first, end) of a run, as far as it has them.
func between(r *load.Report, first, end int) stretch {
	end = min(end, len(r.Seconds))
	return r.Seconds[min(first, end):end]
}

// filled returns the second after which the tier has reached its soft limit, or first if that is later: until then room
// is taken that was there before, and goodput is above what the drain sustains.
func filled(r *load.Report, first int) int {
	for i := range r.Seconds {
		if p := r.Seconds[i].Pressure; p != nil && p.LevelBytes >= p.SoftBytes*98/100 {
			return max(first, i+2)
		}
	}
	return first
}

// goodput is the mean of the acknowledged points per second.
func (s stretch) goodput() float64 {
	if len(s) == 0 {
		return 0
	}
	var sum int64
	for i := range s {
		sum += s[i].Acknowledged
	}
	return float64(sum) / float64(len(s))
}

// variation is the coefficient of variation of the acknowledged points per second: their standard deviation ÷ mean.
// Where nothing was acknowledged it is as large as it can be.
func (s stretch) variation() float64 {
	mean := s.goodput()
	if mean == 0 {
		return math.Sqrt(float64(len(s)))
	}
	var squares float64
	for i := range s {
		off := float64(s[i].Acknowledged) - mean
		squares += off * off
	}
	return math.Sqrt(squares/float64(len(s))) / mean
}

// lowestShare is the acknowledged points of the worst second ÷ mean.
func (s stretch) lowestShare() float64 {
	mean := s.goodput()
	if mean == 0 {
		return 0
	}
	lowest := mean
	for i := range s {
		lowest = min(lowest, float64(s[i].Acknowledged))
	}
	return lowest / mean
}

// medianP99 is the p99 of the admitted in the second in the middle: where stalls of the machine, which the p99 of all
// shows, leave no trace.
func (s stretch) medianP99() float64 {
	var all []float64
	for i := range s {
		all = append(all, s[i].AdmittedP99)
	}
	if len(all) == 0 {
		return 0
	}
	return median(all)
}

// refusedShare is the refusals among the answers of a stretch, whose batches have one size. Where nothing was answered
// it is 1: nobody was served.
func (s stretch) refusedShare(batch int) float64 {
	var refusals, points int64
	for i := range s {
		refusals += s[i].Refusals
		points += s[i].Acknowledged
	}
	answers := float64(refusals) + float64(points)/float64(batch)
	if answers == 0 {
		return 1
	}
	return float64(refusals) / answers
}

// recovery returns how many seconds pass until some seconds in a row have the wanted goodput on average, and that
// average. If it never comes, it is the length of the stretch and the average of its end.
func (s stretch) recovery(row int, goodput float64) (after int, share float64) {
	row = min(row, len(s))
	for after = 0; after+row <= len(s); after++ {
		if got := s[after : after+row].goodput(); got >= goodput {
			return after, got
		}
	}
	return len(s), s[len(s)-row:].goodput()
}

// errSilentRefusal is a fault of the server: a client can't know why it was refused, or when to come back.
var errSilentRefusal = errors.New("a refusal lacks its cause or its Retry-After")

// checkRefusals tells whether all refusals of a run carry what they must.
func checkRefusals(r *load.Report) error {
	var refusals, told int64
	for _, a := range r.Answers {
		if a.Status != http.StatusServiceUnavailable && a.Status != http.StatusTooManyRequests {
			continue
		}
		refusals += a.Count
		if a.Cause == "" {
			return fmt.Errorf("%w: %d answers %d have no cause", errSilentRefusal, a.Count, a.Status)
		}
	}
	for _, entry := range r.RetryAfter {
		if entry.Seconds < 1 {
			return fmt.Errorf("%w: %d have a Retry-After of %d", errSilentRefusal, entry.Count, entry.Seconds)
		}
		told += entry.Count
	}
	if told < refusals {
		return fmt.Errorf("%w: %d of %d have no Retry-After", errSilentRefusal, refusals-told, refusals)
	}
	return nil
}

// violations is how often a run saw the tier above its bound, outside or as the server counts.
func violations(r *load.Report, s *status) float64 {
	count := s.Tier.OverReservations
	if r.Pressure != nil {
		count += r.Pressure.SamplesAboveBound
	}
	if s.Tier.HighestBytes > s.Tier.CapacityBytes {
		count++
	}
	return float64(count)
}
