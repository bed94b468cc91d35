package segment

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const day = int64(partitionLength)

func TestPartitionOf(t *testing.T) {
	tests := []struct{ time, want int64 }{
		{0, 0}, {day - 1, 0}, {day, 1}, {-1, -1}, {-day, -1}, {-day - 1, -2},
		{math.MaxInt64, 106751}, {math.MinInt64, -106752},
	}
	for _, tt := range tests {
		if got := partitionOf(tt.time); got != tt.want {
			t.Errorf("partitionOf(%d) = %d, want %d", tt.time, got, tt.want)
		}
	}
}

// planned makes a segment that exists in the plan only.
func planned(m Meta) *Segment {
	if m.SizeBytes == 0 {
		m.SizeBytes = 10 * max(m.Rows, 1)
	}
	return &Segment{meta: &m}
}

// planVersion makes a version of segments of level 0, each measurement's given oldest first.
func planVersion(lists map[string][]*Segment) *version {
	v := newVersion(1, newCatalog())
	for name, segments := range lists {
		list := &segmentList{segments: slices.Clone(segments), l0: len(segments)}
		slices.SortFunc(list.segments, newestFirst)
		v.lists[measurementKey{"db", name}] = list
		for _, sg := range segments {
			v.levels[0].add(sg.meta, 1)
		}
	}
	return v
}

func ids(segments []*Segment) []uint64 {
	var ids []uint64
	for _, sg := range segments {
		ids = append(ids, sg.meta.ID)
	}
	return ids
}

var testBounds = planBounds{mergeFiles: 4, jobFiles: 100, jobBytes: 1000, fileBytes: 10_000, fanIn: 3}

func anyWidth(measurementKey, *Segment, time.Time) (int, time.Time) { return math.MaxInt, time.Time{} }

func TestPlanL0(t *testing.T) {
	now := time.Unix(1000, 0)
	// list makes segments with ascending ids and ranks from first on, each a second younger than the one before.
	list := func(first uint64, count int, sizeBytes int64, oldest time.Duration) []*Segment {
		var segments []*Segment
		for i := range count {
			sg := planned(Meta{ID: first + uint64(i), Rank: first + uint64(i), SizeBytes: sizeBytes})
			sg.registered = now.Add(time.Duration(i)*time.Second - oldest)
			segments = append(segments, sg)
		}
		return segments
	}
	usual := trigger{files: 3, bytes: 5000, age: 30 * time.Second}
	tests := []struct {
		name    string
		trigger trigger
		lists   map[string][]*Segment
		admit   admission
		want    [][]uint64
		promote []uint64
		next    time.Duration // from now
	}{
		{"nothing there", usual, nil, anyWidth, nil, nil, 0},
		{"not due yet", usual, map[string][]*Segment{"a": list(1, 2, 10, 5*time.Second)}, anyWidth, nil, nil,
			25 * time.Second},
		{"enough files", usual, map[string][]*Segment{"a": list(1, 3, 10, 0), "b": list(9, 2, 10, 0)}, anyWidth,
			[][]uint64{{3, 2, 1}}, nil, 30 * time.Second},
		{"enough bytes", usual, map[string][]*Segment{"a": list(1, 1, 900, 0), "b": list(2, 5, 900, 0)}, anyWidth,
			[][]uint64{{1}}, nil, 0},
		{"old enough", usual, map[string][]*Segment{"a": list(1, 2, 10, 30*time.Second)}, anyWidth,
			[][]uint64{{2, 1}}, nil, 0},
		{"forced", trigger{files: 3, bytes: 5000, age: time.Hour, forced: true},
			map[string][]*Segment{"a": list(1, 1, 10, 0), "b": list(2, 1, 10, 0)}, anyWidth,
			[][]uint64{{1}}, nil, 0},
		{"what frees most, if it is urgent", trigger{files: 3, bytes: 5000, age: time.Hour, forced: true},
			map[string][]*Segment{"a": list(1, 3, 10, 0), "b": list(4, 2, 90, 0), "c": list(6, 2, 100, 0),
				"d": list(8, 1, 100, 0)}, anyWidth, [][]uint64{{7, 6}, {5, 4}}, nil, 0},
		{"the oldest first, within the files of a merge", usual, map[string][]*Segment{"a": list(1, 6, 10, 0)}, anyWidth,
			[][]uint64{{4, 3, 2, 1}}, nil, 0},
		{"the oldest first, within the bytes of a job", usual, map[string][]*Segment{"a": list(1, 4, 400, 0)}, anyWidth,
			[][]uint64{{2, 1}}, nil, 0},
		{"one that is too large by itself", usual, map[string][]*Segment{"a": list(1, 3, 4000, 0)}, anyWidth,
			[][]uint64{{1}}, nil, 0},
		{"several measurements within the bytes of a job", usual,
			map[string][]*Segment{"a": list(1, 3, 150, 0), "b": list(4, 3, 150, 0), "c": list(7, 3, 150, 0)}, anyWidth,
			[][]uint64{{3, 2, 1}, {6, 5, 4}}, nil, 0},
		{"fewer after failures", usual, map[string][]*Segment{"a": list(1, 3, 10, 0)},
			func(measurementKey, *Segment, time.Time) (int, time.Time) { return 2, time.Time{} },
			[][]uint64{{2, 1}}, nil, 0},
		{"later after failures", usual, map[string][]*Segment{"a": list(1, 3, 10, 0)},
			func(measurementKey, *Segment, time.Time) (int, time.Time) { return 0, now.Add(time.Second) },
			nil, nil, time.Second},
		{"promotion", usual, map[string][]*Segment{"a": list(1, 3, 10, 0)},
			func(measurementKey, *Segment, time.Time) (int, time.Time) { return promoteOldest, time.Time{} },
			nil, []uint64{1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j, next := planL0(planVersion(tt.lists), tt.trigger, testBounds, tt.admit, now)
			var got [][]uint64
			for _, task := range j.merges {
				got = append(got, ids(task.inputs))
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("merges (-want +got):\n%s", diff)
			}
			if diff := gocmp.Diff(tt.promote, ids(j.promotes)); diff != "" {
				t.Errorf("promotions (-want +got):\n%s", diff)
			}
			if tt.next == 0 && !next.IsZero() || tt.next != 0 && !next.Equal(now.Add(tt.next)) {
				t.Errorf("next look at %v, want %v from now", next, tt.next)
			}
		})
	}
}

func TestPlanL1(t *testing.T) {
	// file is in partition 0 unless it is mixed, which lasts from partition -1 to 1.
	file := func(rank uint64, rows int64) Meta {
		return Meta{ID: rank, Level: 1, Rank: rank, Rows: rows, MaxTime: day - 1}
	}
	in := func(m Meta, partition int64) Meta {
		m.ID += 1000 * uint64(partition)
		m.Partition, m.MinTime, m.MaxTime = partition, partition*day, (partition+1)*day-1
		return m
	}
	mixed := func(m Meta) Meta {
		m.ID += 100
		m.Mixed, m.MinTime, m.MaxTime = true, -day, 2*day-1
		return m
	}
	large := Meta{ID: 9, Level: 1, Rank: 9, Rows: 100, SizeBytes: 6000, MaxTime: day - 1}
	tests := []struct {
		name    string
		files   []Meta // oldest first
		resting uint64
		want    []uint64 // newest first
	}{
		{"too few", []Meta{file(1, 10), file(2, 10)}, 0, nil},
		{"too little growth", []Meta{file(1, 10), file(2, 10), file(3, 10)}, 0, nil},
		{"equal ones", []Meta{file(1, 10), file(2, 10), file(3, 10), file(4, 10)}, 0, []uint64{4, 3, 2, 1}},
		{"small ones beside a large one", []Meta{file(1, 500), file(2, 10), file(3, 10), file(4, 10), file(5, 10)}, 0,
			[]uint64{5, 4, 3, 2}},
		{"at most as many as a merge opens", []Meta{file(1, 10), file(2, 10), file(3, 10), file(4, 10), file(5, 10)}, 0,
			[]uint64{5, 4, 3, 2}},
		{"not across one that is full", []Meta{file(1, 10), file(2, 10), large, file(10, 10), file(11, 10)}, 0, nil},
		{"not with one that failed lately", []Meta{file(1, 10), file(2, 10), file(3, 10), file(4, 10)}, 2, nil},
		{"not across partitions", []Meta{file(1, 10), in(file(2, 10), 1), file(3, 10), in(file(4, 10), 1)}, 0, nil},
		{"past another partition", []Meta{file(1, 10), in(file(1, 10), 1), file(2, 10), file(3, 10), file(4, 10)}, 0,
			[]uint64{4, 3, 2, 1}},
		{"with the mixed one that lies between", []Meta{file(1, 10), file(2, 10), mixed(file(3, 10)), file(3, 10),
			file(4, 10)}, 0, []uint64{4, 103, 3, 2, 1}},
		{"with the mixed one that ties with the newest", []Meta{file(1, 10), file(2, 10), file(3, 10), file(4, 10),
			mixed(file(4, 10))}, 0, []uint64{104, 4, 3, 2, 1}},
		{"without the mixed one that is as old as the oldest", []Meta{file(1, 10), mixed(file(1, 10)), file(2, 10),
			file(3, 10), file(4, 10)}, 0, []uint64{4, 3, 2, 1}},
		{"without the mixed one that is newer", []Meta{file(1, 10), file(2, 10), file(3, 10), file(4, 10),
			mixed(file(5, 10))}, 0, []uint64{4, 3, 2, 1}},
		{"not if a mixed one drags in too much", []Meta{file(1, 10), file(2, 10), mixed(file(3, 90)), file(3, 10),
			file(4, 10)}, 0, nil},
		{"mixed ones by themselves", []Meta{mixed(file(1, 10)), mixed(file(2, 10)), mixed(file(3, 10)),
			mixed(file(4, 10))}, 0, []uint64{104, 103, 102, 101}},
		{"mixed ones with what lies between them", []Meta{mixed(file(1, 10)), mixed(file(2, 10)), in(file(3, 10), 1),
			mixed(file(3, 10)), mixed(file(4, 10)), in(file(9, 10), 1)}, 0, []uint64{104, 1003, 103, 102, 101}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l1 []*Segment
			for _, m := range tt.files {
				l1 = append(l1, planned(m))
			}
			slices.SortFunc(l1, newestFirst)
			got := ids(planL1(l1, testBounds, func(sg *Segment) bool { return sg.meta.ID == tt.resting }))
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARunWithAMixedFileIsBounded(t *testing.T) {
	b := testBounds
	b.fileBytes = 1 << 30
	for _, sizeBytes := range []int64{mixedBytesMax / 4, mixedBytesMax/4 + 1} {
		var l1 []*Segment
		for rank := range uint64(4) {
			l1 = append(l1, planned(Meta{ID: rank, Level: 1, Rank: rank, Rows: 10, SizeBytes: sizeBytes, Mixed: true}))
		}
		slices.SortFunc(l1, newestFirst)
		run := planL1(l1, b, func(*Segment) bool { return false })
		if want := 4*sizeBytes <= mixedBytesMax; (run != nil) != want {
			t.Errorf("of four mixed files with %d bytes each, %d are merged, want that they are: %t", sizeBytes, len(run), want)
		}
	}
}

func TestPlanLayout(t *testing.T) {
	rows := map[int64]int64{}
	for partition := range int64(openPartitionsMax) {
		rows[partition] = 1
	}
	if got := planLayout(rows); got.partitions != nil {
		t.Errorf("with %d partitions it is %v, want a file for each", len(rows), got)
	}
	rows[100] = 7
	got := planLayout(rows)
	if len(got.partitions) != openPartitionsMax-1 || got.mixes(100) || !got.mixes(0) || !got.mixes(1) || got.mixes(2) {
		t.Errorf("with %d partitions it is %v, want the largest and then the latest", len(rows), got)
	}
}

func TestPartitionsTouched(t *testing.T) {
	during := func(first, last int64) *Segment {
		return planned(Meta{MinTime: first * day, MaxTime: (last+1)*day - 1})
	}
	tests := []struct {
		name     string
		segments []*Segment
		want     int64
	}{
		{"one day", []*Segment{during(5, 5)}, 1},
		{"the same days twice", []*Segment{during(5, 9), during(5, 9)}, 5},
		{"overlapping", []*Segment{during(5, 9), during(-3, 6)}, 13},
		{"one inside", []*Segment{during(0, 9), during(2, 3), during(9, 10)}, 11},
		{"far apart", []*Segment{during(0, 0), during(10_000, 10_000)}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := partitionsTouched(tt.segments); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// history is a measurement in which a segment is a map from times to numbers of writes.
type history struct {
	t        *rapid.T
	segments []*Segment // newest first
	contents map[uint64]map[int64]int
	want     map[int64]int
	nextID   uint64
	writes   int
}

func (h *history) add(level int, rank uint64, partition int64, content map[int64]int, mixed bool) {
	h.nextID++
	m := Meta{ID: h.nextID, Level: level, Rank: rank, Rows: int64(len(content)), Partition: partition, Mixed: mixed,
		MinTime: math.MaxInt64, MaxTime: math.MinInt64}
	for at := range content {
		m.MinTime, m.MaxTime = min(m.MinTime, at), max(m.MaxTime, at)
	}
	h.contents[m.ID] = content
	h.segments = append(h.segments, planned(m))
	slices.SortFunc(h.segments, newestFirst)
}

func (h *history) flush(times []int64) {
	content := map[int64]int{}
	for _, at := range times {
		h.writes++
		content[at], h.want[at] = h.writes, h.writes
	}
	h.add(0, h.nextID+1, 0, content, false)
}

// merge replaces segments by what a merge makes of them, with at most three partitions open.
func (h *history) merge(inputs []*Segment) {
	merged, rank := map[int64]int{}, uint64(0)
	for _, sg := range slices.Backward(inputs) {
		for at, write := range h.contents[sg.meta.ID] {
			merged[at] = write
		}
		rank = max(rank, sg.meta.Rank)
	}
	h.segments = slices.DeleteFunc(h.segments, func(sg *Segment) bool { return slices.Contains(inputs, sg) })
	outputs := map[int64]map[int64]int{}
	for at, write := range merged {
		target := partitionOf(at)
		if target%4 == 3 {
			target = mixedOutput
		}
		if outputs[target] == nil {
			outputs[target] = map[int64]int{}
		}
		outputs[target][at] = write
	}
	for target, content := range outputs {
		h.add(1, rank, target, content, target == mixedOutput)
	}
}

func (h *history) level(level int) []*Segment {
	return slices.DeleteFunc(slices.Clone(h.segments), func(sg *Segment) bool { return sg.meta.Level != level })
}

// check reads every point as a reader does, and requires that segments of equal rank share none.
func (h *history) check() {
	for at, want := range h.want {
		var holders []*Segment
		for _, sg := range h.segments {
			if _, ok := h.contents[sg.meta.ID][at]; ok {
				holders = append(holders, sg)
			}
		}
		if len(holders) == 0 {
			h.t.Fatalf("time %d is lost", at)
		}
		if got := h.contents[holders[0].meta.ID][at]; got != want {
			h.t.Fatalf("time %d reads as write %d, want %d", at, got, want)
		}
		if len(holders) > 1 && cmp.Compare(holders[0].meta.Rank, holders[1].meta.Rank) == 0 {
			h.t.Fatalf("segments %d and %d have one rank and share time %d", holders[0].meta.ID, holders[1].meta.ID, at)
		}
	}
}

// TestPlansKeepTheNewestWrite runs random flushes, merges and promotions as the plans allow them, also with files that
// lie across partitions, and reads every point after each.
func TestPlansKeepTheNewestWrite(t *testing.T) {
	l1Merges := 0
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, contents: map[uint64]map[int64]int{}, want: map[int64]int{}}
		b := planBounds{mergeFiles: 6, jobFiles: 100, jobBytes: 1 << 20, fileBytes: 1 << 20, fanIn: 2}
		times := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(0, 5).Draw(t, "day")*day + rapid.Int64Range(0, 3).Draw(t, "time")
		}), 1, 8)
		t.Repeat(map[string]func(*rapid.T){
			"flush": func(t *rapid.T) { h.flush(times.Draw(t, "times")) },
			"l0": func(t *rapid.T) {
				if l0 := h.level(0); len(l0) > 0 {
					h.merge(oldestWithin(l0, rapid.IntRange(1, 5).Draw(t, "width"), b.jobBytes))
				}
			},
			"promote": func(t *rapid.T) {
				if l0 := h.level(0); len(l0) > 0 {
					oldest := l0[len(l0)-1]
					oldest.meta = promoted(oldest.meta)
					slices.SortFunc(h.segments, newestFirst)
				}
			},
			"l1": func(t *rapid.T) {
				if run := planL1(h.level(1), b, func(*Segment) bool { return false }); run != nil {
					l1Merges++
					h.merge(run)
				}
			},
			"": func(*rapid.T) { h.check() },
		})
	})
	if l1Merges == 0 {
		t.Error("no run of level 1 was ever merged")
	}
}

func TestAttempts(t *testing.T) {
	now := time.Unix(1000, 0)
	key := measurementKey{"db", "m"}
	var segments []*Segment // newest first
	for _, id := range []uint64{3, 2, 1} {
		segments = append(segments, planned(Meta{ID: id, Rank: id, Database: "db", Measurement: "m"}))
	}
	task := func(width int) mergeTask { return mergeTask{key: key, inputs: segments[len(segments)-width:]} }
	oldest := segments[2]
	a := newAttempts()
	if width, _ := a.admit(key, oldest, now); width != math.MaxInt {
		t.Errorf("at first the width is %d", width)
	}
	a.failed(task(3), segments, now)
	if width, at := a.admit(key, oldest, now); width != 0 || at != now.Add(retryAfterMin) {
		t.Errorf("after a failure the width is %d until %v", width, at)
	}
	now = now.Add(retryAfterMin)
	if width, _ := a.admit(key, oldest, now); width != 1 {
		t.Errorf("after a failure of 3 the next takes %d, want 1", width)
	}
	a.failed(task(1), []*Segment{oldest}, now)
	a.failed(task(1), []*Segment{oldest}, now)
	now = now.Add(time.Second)
	if width, _ := a.admit(key, oldest, now); width != promoteOldest {
		t.Errorf("after 3 failures the width is %d, want promotion", width)
	}
	a.postpone([]*Segment{oldest}, now)
	if width, _ := a.admit(key, oldest, now); width != 0 {
		t.Errorf("after a failed promotion the width is %d, want to wait", width)
	}
	a.promoted(oldest)
	if width, _ := a.admit(key, segments[1], now); width != 1 {
		t.Errorf("the segment after a promoted one has width %d, want 1 at once", width)
	}
	a.merged(mergeTask{key: key, inputs: segments[1:2]})
	if width, _ := a.admit(key, segments[0], now); width != 2 || len(a.failures) != 1 {
		t.Errorf("after a success with one the width is %d, want 2; failures are %v", width, a.failures)
	}
	a.failed(task(3), segments[:1], now)
	now = now.Add(retryAfterMin)
	if width, _ := a.admit(key, oldest, now); width != 2 {
		t.Errorf("when the newest of 3 is the suspect, the next takes %d, want the 2 before it", width)
	}
	for range 100 {
		a.failed(task(1), []*Segment{oldest}, now)
	}
	if _, at := a.admit(key, segments[0], now); at != now.Add(retryAfterMax) {
		t.Errorf("after many failures the next is at %v, want %v later", at, retryAfterMax)
	}
}
