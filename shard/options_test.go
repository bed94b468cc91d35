package shard

import (
	"testing"
	"time"
)

// A write that is admitted at the very end of its wait has its answer within the longest wait.
func TestTheHoldLeavesTimeForTheAnswer(t *testing.T) {
	for maxWait, want := range map[time.Duration]time.Duration{
		0:                      0,
		400 * time.Millisecond: 350 * time.Millisecond,
		10 * time.Second:       9900 * time.Millisecond,
	} {
		if got := (AdmissionOptions{MaxWait: maxWait}).hold(); got != want {
			t.Errorf("of %s a write waits %s, want %s", maxWait, got, want)
		}
	}
}
