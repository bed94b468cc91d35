package segment

import (
	"context"
	"time"
)

// reportEvery is how much busy time passes between two reports of progress.
const reportEvery = 100 * time.Millisecond

// meter paces a job of level 0 and reports what it gets done. The last bytes of a job are reported at its end, with the
// time that its syncs and its edit took. A nil meter belongs to a job of level 1: it paces nothing and reports nothing.
type meter struct {
	throttle *throttle
	report   func(int64, time.Duration)
	at       time.Time // up to which time was counted
	bytes    int64     // not yet reported
	busy     time.Duration
}

func newMeter(c *Compactor) *meter {
	return &meter{throttle: c.throttle, report: c.progress, at: time.Now()}
}

// charge waits until that many bytes of input may be worked on.
func (m *meter) charge(ctx context.Context, bytes int64) error {
	for bytes > 0 {
		m.pass(0)
		if m.busy >= reportEvery {
			m.flush()
		}
		step := m.throttle.step(bytes)
		paused, err := m.throttle.pay(ctx, step)
		if err != nil {
			return err
		}
		m.pass(paused)
		m.bytes += step
		bytes -= step
	}
	return ctx.Err()
}

// pass counts the time since the last call as busy, but for a pause.
func (m *meter) pass(paused time.Duration) {
	now := time.Now()
	m.busy += max(0, now.Sub(m.at)-paused)
	m.at = now
}

func (m *meter) flush() {
	if m == nil {
		return
	}
	m.pass(0)
	if m.bytes > 0 {
		m.report(m.bytes, m.busy)
		m.bytes, m.busy = 0, 0
	}
}

// inputSource charges for the rows that a merge reads from a segment, as their share of its file, and lets a merge stop
// between blocks.
type inputSource struct {
	Source
	meta    *Meta
	charge  func(bytes int64) error
	rows    int64
	charged int64
}

func (s *inputSource) Next() (*Block, error) {
	block, err := s.Source.Next()
	if err != nil {
		return nil, err
	}
	s.rows += int64(len(block.Times))
	share := min(1, float64(s.rows)/float64(max(s.meta.Rows, 1)))
	due := int64(share*float64(s.meta.SizeBytes)) - s.charged
	s.charged += due
	if err := s.charge(due); err != nil {
		return nil, err
	}
	return block, nil
}
