package segment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// spanOf is a segment of level 1 for tests of what expires: its rank is its id unless another one is given.
func spanOf(id uint64, first, last int64) *Segment {
	return &Segment{meta: &Meta{ID: id, Level: 1, Rank: id, MinTime: first, MaxTime: last}}
}

func TestExpired(t *testing.T) {
	for _, tc := range []struct {
		name   string
		level1 []*Segment // oldest first
		want   []uint64
	}{
		{"wholly older", []*Segment{spanOf(1, 0, 99)}, []uint64{1}},
		{"up to the cutoff", []*Segment{spanOf(1, 0, 100)}, nil},
		{"newer", []*Segment{spanOf(1, 100, 200)}, nil},
		{"beside newer ones", []*Segment{spanOf(1, 0, 10), spanOf(2, 150, 200), spanOf(3, 20, 30)}, []uint64{1, 3}},
		{"an older write would come back", []*Segment{spanOf(1, 0, 150), spanOf(2, 50, 60)}, nil},
		{"a newer write stays", []*Segment{spanOf(1, 50, 60), spanOf(2, 0, 150)}, []uint64{1}},
		{"no time in common", []*Segment{spanOf(1, 70, 150), spanOf(2, 50, 60)}, []uint64{2}},
		{"one held back holds back others", []*Segment{spanOf(1, 50, 150), spanOf(2, 40, 60), spanOf(3, 30, 45)}, nil},
		{"held back by none of those that go", []*Segment{spanOf(1, 0, 60), spanOf(2, 40, 60)}, []uint64{1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			newest := slices.Clone(tc.level1)
			slices.Reverse(newest)
			got := appendExpired(nil, newest, 100)
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Files of one merge share their rank and no point, so a mixed one holds none of the others back.
func TestAMixedFileHoldsBackNoneOfItsOwnMerge(t *testing.T) {
	mixed, day := spanOf(1, 0, 500), spanOf(2, 10, 20)
	mixed.meta.Mixed, mixed.meta.Rank = true, 2
	if got := appendExpired(nil, []*Segment{day, mixed}, 100); !slices.Equal(got, []uint64{2}) {
		t.Errorf("got %v, want the file of the day", got)
	}
}

// Whatever expires, no point reads as an older write than before.
func TestExpiryBringsNoOlderWriteBack(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		var level1 []*Segment // newest first
		for id := 1 + uint64(random.IntN(8)); id > 0; id-- {
			first := random.Int64N(20)
			level1 = append(level1, spanOf(id, first, first+random.Int64N(8)))
		}
		cutoff := random.Int64N(25)
		gone := appendExpired(nil, level1, cutoff)
		// Each segment may hold every point of its range: the newest one does.
		for at := range int64(30) {
			before, after := writerOf(level1, at, nil), writerOf(level1, at, gone)
			if after != before && (after != 0 || at >= cutoff) {
				t.Fatalf("run %d: cutoff %d: point %d was of segment %d and is of %d after %v went: %s",
					n, cutoff, at, before, after, gone, spans(level1))
			}
		}
	}
}

func writerOf(level1 []*Segment, at int64, gone []uint64) uint64 {
	for _, sg := range level1 {
		if !slices.Contains(gone, sg.meta.ID) && sg.meta.MinTime <= at && at <= sg.meta.MaxTime {
			return sg.meta.ID
		}
	}
	return 0
}

func spans(level1 []*Segment) (text string) {
	for _, sg := range level1 {
		text += fmt.Sprintf("%d: %d to %d; ", sg.meta.ID, sg.meta.MinTime, sg.meta.MaxTime)
	}
	return text
}

// Level 0 never expires, and a database without a cutoff loses nothing.
func TestLevel0AndDatabasesWithoutCutoffExpireNothing(t *testing.T) {
	s := openTestStore(t, StoreOptions{Dir: t.TempDir()})
	c := newTestCompactor(t, CompactorOptions{Store: s})
	addL0(t, s, map[string][]row{"m": series("a", noon, 10, 1)})
	compactAll(t, c)
	addL0(t, s, map[string][]row{"m": series("a", noon.Add(-time.Hour), 10, 1)})
	view := s.Acquire(nil)
	defer view.Release()
	later := noon.AddDate(1, 0, 0).UnixNano()
	got := view.Expired(func(string) int64 { return later })
	if segments := view.Segments("db", "m"); len(got) != 1 || got[0] != segments[1].meta.ID {
		t.Errorf("got %v, want the segment of level 1", got)
	}
	if got := view.Expired(func(string) int64 { return KeepsAll }); len(got) != 0 {
		t.Errorf("got %v without a cutoff", got)
	}
	if got, want := view.NewestTimes()["db"], noon.Add(9*time.Minute).UnixNano(); got != want {
		t.Errorf("the newest time is %d, want %d", got, want)
	}
}
