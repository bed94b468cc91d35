package pagecache

import (
	"errors"
	"testing"
	"time"
)

func TestStallDelay(t *testing.T) {
	tests := []struct {
		name                    string
		registered              int64
		memtables, memtablesMax int64
		want                    time.Duration
	}{
		{"empty", 0, 0, 100, 0},
		{"tier at the soft limit", 60 * mib, 0, 100, 0},
		{"tier half way", 80 * mib, 0, 100, StallDelayMax / 2},
		{"tier full", 100 * mib, 0, 100, StallDelayMax},
		{"tier beyond its bound", 150 * mib, 0, 100, StallDelayMax},
		{"memtables at the soft limit", 0, 60, 100, 0},
		{"memtables half way", 0, 80, 100, StallDelayMax / 2},
		{"memtables full", 0, 100, 100, StallDelayMax},
		{"the larger counts, memtables", 70 * mib, 90, 100, StallDelayMax * 3 / 4},
		{"the larger counts, tier", 90 * mib, 70, 100, StallDelayMax * 3 / 4},
		{"no memtables at all", 0, 0, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newTestController(newHandClock())
			c.Register(test.registered)
			got := c.StallDelay(test.memtables, test.memtablesMax)
			if difference := (got - test.want).Abs(); difference > time.Microsecond {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestCheckCapacity(t *testing.T) {
	tests := []struct {
		name       string
		registered int64
		reserved   int64
		memtables  int64
		want       error
	}{
		{"empty", 0, 0, 0, nil},
		{"just below both", 50*mib - 1, 50 * mib, 99, nil},
		{"tier full", 50 * mib, 50 * mib, 0, ErrTierFull},
		{"memtables full", 0, 0, 100, ErrMemoryFull},
		{"both full", 100 * mib, 0, 100, ErrTierFull},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newTestController(newHandClock())
			c.Register(test.registered)
			defer c.ReserveForced(test.reserved).Release()
			if err := c.CheckCapacity(test.memtables, 100); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
