package load

import "time"

// Second is what happened in one second of a run. Answers count when they came.
type Second struct {
	Offset         int             `json:"second"` // since the begin of the run
	Offered        int64           `json:"offered_points"`
	Sent           int64           `json:"sent_points"` // of all attempts that began
	Acknowledged   int64           `json:"acknowledged_points"`
	Refused        int64           `json:"refused_points"`
	Refusals       int64           `json:"refusals"`
	Failures       int64           `json:"failures"` // other answers than these, and none
	AdmittedP50    float64         `json:"admitted_p50_seconds"`
	AdmittedP99    float64         `json:"admitted_p99_seconds"`
	AdmittedMax    float64         `json:"admitted_max_seconds"`
	RefusedP99     float64         `json:"refused_p99_seconds"`
	RetryAfterMean float64         `json:"retry_after_mean_seconds"` // of the refusals that had one
	RetryAfterMax  float64         `json:"retry_after_max_seconds"`
	Process        *ProcessSample  `json:"server_process,omitempty"`
	Pressure       *PressureSample `json:"pressure,omitempty"`
}

// series gathers the seconds of a run.
type series struct {
	seconds  []Second
	current  int // the second whose times are being gathered
	admitted *latency
	refused  *latency
	told     int // refusals of the current second with a Retry-After
	toldSum  float64
}

// secondDigits is the precision of the times of one second.
const secondDigits = 2

func newSeries() *series {
	return &series{admitted: newLatency(secondDigits), refused: newLatency(secondDigits)}
}

// at returns the second that a moment lies in. When it is a new one, the times of the last one are summed up.
func (s *series) at(moment time.Duration) *Second {
	second := max(0, int(moment/time.Second))
	for len(s.seconds) <= second {
		s.seconds = append(s.seconds, Second{Offset: len(s.seconds)})
	}
	if second > s.current {
		s.sumUp()
		s.current = second
	}
	return &s.seconds[second]
}

// sumUp ends the current second.
func (s *series) sumUp() {
	if s.current >= len(s.seconds) {
		return
	}
	second := &s.seconds[s.current]
	admitted, refused := s.admitted.summary(), s.refused.summary()
	second.AdmittedP50, second.AdmittedP99, second.AdmittedMax = admitted.P50, admitted.P99, admitted.Max
	second.RefusedP99 = refused.P99
	if s.told > 0 {
		second.RetryAfterMean = s.toldSum / float64(s.told)
	}
	s.admitted.reset()
	s.refused.reset()
	s.told, s.toldSum = 0, 0
}

// p99 is of the admitted of the current second so far, or else of the second before it.
func (s *series) p99() time.Duration {
	seconds := s.admitted.summary()
	if seconds.Count == 0 && s.current > 0 {
		seconds.P99 = s.seconds[s.current-1].AdmittedP99
	}
	return time.Duration(seconds.P99 * float64(time.Second))
}

// record adds an attempt that was answered.
func (s *series) record(a *attempt) {
	second := s.at(a.finished)
	switch a.answer.outcome {
	case acknowledged:
		second.Acknowledged += int64(a.batch.points)
		s.admitted.record(a.finished - a.intended)
	case refused:
		second.Refused += int64(a.batch.points)
		second.Refusals++
		s.refused.record(a.finished - a.intended)
	default:
		second.Failures++
	}
	if a.answer.told {
		told := a.answer.retryAfter.Seconds()
		s.told++
		s.toldSum += told
		second.RetryAfterMax = max(second.RetryAfterMax, told)
	}
}
