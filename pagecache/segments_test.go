package pagecache

import "testing"

func TestRetiredIDsAreRememberedInBoundedMemory(t *testing.T) {
	s := newSegmentSet()
	early := s.open(1)
	s.create(2)
	for id := uint64(10); id < 10+3*retiredMax; id++ {
		s.create(id)
		if !s.retire(id) {
			t.Fatalf("segment %d had no pages", id)
		}
		if len(s.retired) > retiredMax {
			t.Fatalf("%d retired ids are remembered, want at most %d", len(s.retired), retiredMax)
		}
	}
	if len(s.live) != 2 {
		t.Errorf("%d segments are live, want 2", len(s.live))
	}
	last := uint64(10 + 3*retiredMax - 1)
	tests := []struct {
		name    string
		got     *segment
		retired bool
	}{
		{"opened before", s.open(1), false},
		{"created before", s.open(2), false},
		{"never seen, below the mark", s.open(3), true},
		{"written now, below the mark", s.create(4), false},
		{"retired and folded", s.open(10), true},
		{"retired and remembered", s.open(last), true},
		{"retired, written again", s.create(last), true},
		{"not seen yet", s.open(last + 1), false},
	}
	for _, test := range tests {
		if got := test.got.retired.Load(); got != test.retired {
			t.Errorf("%s: retired is %t, want %t", test.name, got, test.retired)
		}
	}
	if s.open(1) != early {
		t.Error("two readers of a segment don't share it")
	}
	if s.retire(last) || s.retire(3) {
		t.Error("a segment without pages is said to have some")
	}
}
