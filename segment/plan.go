package segment

import (
	"cmp"
	"slices"
	"time"
)

// What follows decides what to merge, as functions of values. One rule keeps every reader right:
//
//	Of two live segments of a measurement that share a point, the one that newestFirst puts first has the newer
//	write of it; and two segments of equal rank and level share no point.
//
// Flush keeps it because ranks rise. L0→L1 keeps it because it takes a measurement's oldest segments of level 0, so
// that all of level 1 is older than all that stays in level 0, and because every row goes to exactly one output, all of
// which get the highest rank of the inputs. Promotion keeps it because it, too, takes the oldest.
//
// L1→L1 lifts rows from the rank of their file to the highest rank of the run. That passes by every file whose rank
// lies above the former and not above the latter. If such a file may share a point with the lifted one, a stale row
// would overtake a newer one (or tie with it, where the ranks are equal), so it has to be part of the run. Within a
// partition that means that a run is adjacent in rank. A mixed file lies across partitions, so it stands between the
// files of several of them; closeRun therefore compares ranges of time and knows no partitions. Files that share no
// time share no point, so whatever else has a rank in between may stay where it is.

// mergeTask is one unit of compaction: segments of one measurement, newest first, that become files of level 1.
type mergeTask struct {
	key       measurementKey
	level     int // of the inputs
	inputs    []*Segment
	sizeBytes int64 // of the inputs
}

func newMergeTask(key measurementKey, level int, inputs []*Segment) mergeTask {
	task := mergeTask{key: key, level: level, inputs: inputs}
	for _, sg := range inputs {
		task.sizeBytes += sg.meta.SizeBytes
	}
	return task
}

func (m mergeTask) oldest() *Segment { return m.inputs[len(m.inputs)-1] }

// job is what one edit does.
type job struct {
	merges   []mergeTask
	promotes []*Segment
}

func (j job) empty() bool { return len(j.merges) == 0 && len(j.promotes) == 0 }

// trigger says which measurements leave level 0 now.
type trigger struct {
	files  int
	bytes  int64
	age    time.Duration
	forced bool
}

// urgent tells whether level 0 should become smaller, rather than its measurements merely be tidied.
func (t trigger) urgent(tierBytes int64) bool { return t.forced || tierBytes >= t.bytes }

// due tells whether a measurement should be compacted at now, and otherwise when its age will make it so.
func (t trigger) due(l0 []*Segment, tierBytes int64, now time.Time) (bool, time.Time) {
	if len(l0) == 0 {
		return false, time.Time{}
	}
	if t.urgent(tierBytes) || len(l0) >= t.files {
		return true, now
	}
	at := l0[len(l0)-1].registered.Add(t.age) // the oldest
	return !at.After(now), at
}

// planBounds limit what one merge and one job take on. A merge always takes at least one segment of level 0, and a job
// at least one merge.
type planBounds struct {
	mergeFiles int
	jobFiles   int
	jobBytes   int64
	fileBytes  int64 // of a file of level 1 that merging should lead to
	fanIn      int   // fewest files of level 1 worth merging
}

// admission says how many of its oldest segments a merge of a measurement may take, because of earlier failures: 0
// means not before retryAt, promoteOldest that the oldest should leave level 0 without a merge.
type admission func(key measurementKey, oldest *Segment, now time.Time) (width int, retryAt time.Time)

const promoteOldest = -1

// planL0 picks measurements that are due: if it is urgent, those that free the most bytes, otherwise those with the
// oldest segments. If there is no work, it returns when there may be.
func planL0(v *version, t trigger, b planBounds, admit admission, now time.Time) (j job, next time.Time) {
	tierBytes := v.levels[0].SizeBytes
	var candidates []mergeTask
	for key, list := range v.lists {
		l0 := list.level0()
		due, at := t.due(l0, tierBytes, now)
		if !due {
			next = earlier(next, at)
			continue
		}
		width, retryAt := admit(key, l0[len(l0)-1], now)
		switch {
		case width == promoteOldest:
			j.promotes = append(j.promotes, l0[len(l0)-1])
		case width == 0:
			next = earlier(next, retryAt)
		default:
			inputs := oldestWithin(l0, min(width, b.mergeFiles), b.jobBytes)
			candidates = append(candidates, newMergeTask(key, 0, inputs))
		}
	}
	if t.urgent(tierBytes) {
		candidates = largestHalf(candidates)
	} else {
		slices.SortFunc(candidates, byAge)
	}
	j.merges = withinJob(candidates, b)
	return j, next
}

func byAge(a, b mergeTask) int { return cmp.Compare(a.oldest().meta.Rank, b.oldest().meta.Rank) }

// largestHalf returns the largest tasks, which together have half of the bytes, largest first: a job frees level 0 in
// one lump at its end, so when that is urgent, thousands of small files must not delay the lump of a few large ones.
func largestHalf(tasks []mergeTask) []mergeTask {
	var total int64
	for _, task := range tasks {
		total += task.sizeBytes
	}
	slices.SortFunc(tasks, func(a, b mergeTask) int {
		return cmp.Or(cmp.Compare(b.sizeBytes, a.sizeBytes), byAge(a, b))
	})
	var sum int64
	for i, task := range tasks {
		sum += task.sizeBytes
		if sum >= total/2 {
			return tasks[:i+1]
		}
	}
	return tasks
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// oldestWithin returns the longest run of the oldest segments of a list, newest first, within both bounds.
func oldestWithin(list []*Segment, files int, sizeBytes int64) []*Segment {
	start := len(list) - 1
	sizeBytes -= list[start].meta.SizeBytes
	for start > 0 && len(list)-start < files {
		sizeBytes -= list[start-1].meta.SizeBytes
		if sizeBytes < 0 {
			break
		}
		start--
	}
	return list[start:]
}

// withinJob returns the first tasks that fit into one job together.
func withinJob(tasks []mergeTask, b planBounds) []mergeTask {
	files, sizeBytes := b.jobFiles, b.jobBytes
	for i, task := range tasks {
		files -= len(task.inputs)
		sizeBytes -= task.sizeBytes
		if i > 0 && (files < 0 || sizeBytes < 0) {
			return tasks[:i]
		}
	}
	return tasks
}

// growth is how many times larger than its largest member a run must be: each row that a merge writes again then lies
// in a file of at least so many times the rows, so it is written again at most log4(rows of the measurement) times.
const growth = 4

// planL1 picks the run of level-1 segments of one measurement, newest first, whose merge takes away the most files for
// the rows it writes. It returns nil if there is none.
func planL1(l1 []*Segment, b planBounds, resting func(*Segment) bool) []*Segment {
	var runs [][]*Segment
	for _, lane := range lanes(l1) {
		runs = appendRuns(runs, lane, b, resting)
	}
	slices.SortStableFunc(runs, func(a, b []*Segment) int { return cmp.Compare(worth(b), worth(a)) })
	for _, run := range runs {
		if closed := closeRun(run, l1); acceptable(closed, run, b, resting) {
			return closed
		}
	}
	return nil
}

// lanes deals segments, newest first, to their partitions; mixed ones have a lane of their own.
func lanes(l1 []*Segment) [][]*Segment {
	type lane struct {
		partition int64
		mixed     bool
	}
	var order []lane
	byLane := make(map[lane][]*Segment)
	for _, sg := range l1 {
		of := lane{sg.meta.Partition, false}
		if sg.meta.Mixed {
			of = lane{0, true}
		}
		if byLane[of] == nil {
			order = append(order, of)
		}
		byLane[of] = append(byLane[of], sg)
	}
	all := make([][]*Segment, len(order))
	for i, of := range order {
		all[i] = byLane[of]
	}
	return all
}

// appendRuns appends, for each beginning, the longest run of neighbours in a lane that is worth merging.
func appendRuns(runs [][]*Segment, lane []*Segment, b planBounds, resting func(*Segment) bool) [][]*Segment {
	for start := range lane {
		var rows, largest, sizeBytes int64
		end := 0
		for i := start; i < len(lane) && i-start < b.mergeFiles; i++ {
			m := lane[i].meta
			sizeBytes += m.SizeBytes
			if m.SizeBytes > b.fileBytes/2 || sizeBytes > b.fileBytes || resting(lane[i]) {
				break
			}
			rows += m.Rows
			largest = max(largest, m.Rows)
			if i-start+1 >= b.fanIn && rows >= growth*largest {
				end = i + 1
			}
		}
		if end > 0 {
			runs = append(runs, lane[start:end])
		}
	}
	return runs
}

// worth is how many files a merge takes away for each row it writes.
func worth(run []*Segment) float64 { return float64(len(run)-1) / float64(max(sumRows(run), 1)) }

func sumRows(run []*Segment) int64 {
	var rows int64
	for _, sg := range run {
		rows += sg.meta.Rows
	}
	return rows
}

// closeRun adds to a run every segment that its rows would wrongly pass by, and returns it newest first.
func closeRun(run, l1 []*Segment) []*Segment {
	highest := run[0].meta.Rank
	in := make(map[uint64]struct{}, len(run))
	for _, sg := range run {
		in[sg.meta.ID] = struct{}{}
	}
	closed := slices.Clone(run)
	for i := 0; i < len(closed); i++ { // closed grows
		lifted := closed[i].meta
		for _, other := range l1 {
			_, member := in[other.meta.ID]
			if member || !passes(lifted, other.meta, highest) {
				continue
			}
			in[other.meta.ID] = struct{}{}
			closed = append(closed, other)
		}
	}
	slices.SortFunc(closed, newestFirst)
	return closed
}

// passes tells whether rows of one segment, lifted to rank highest, would pass by a segment that may hold newer writes
// of the same points.
func passes(lifted, other *Meta, highest uint64) bool {
	return lifted.Rank < other.Rank && other.Rank <= highest &&
		lifted.MinTime <= other.MaxTime && other.MinTime <= lifted.MaxTime
}

// mixedBytesMax bounds a merge that may write many partitions at once, because each holds a row group in memory.
const mixedBytesMax = 64 << 20

// acceptable bounds what closing a run has dragged in: no more rows than the run itself has, so that the cost of a
// merge stays within twice that of the run, whose bound growth gives.
func acceptable(closed, run []*Segment, b planBounds, resting func(*Segment) bool) bool {
	if slices.ContainsFunc(closed, isMixed) && newMergeTask(measurementKey{}, 1, closed).sizeBytes > mixedBytesMax {
		return false
	}
	return len(closed) <= 2*b.mergeFiles && sumRows(closed) <= 2*sumRows(run) && !slices.ContainsFunc(closed, resting)
}

func isMixed(sg *Segment) bool { return sg.meta.Mixed }

// layout says to which output of a merge a row goes.
type layout struct {
	partitions map[int64]bool // those with a file of their own; nil: all
}

// mixes tells whether rows of that partition go to the mixed file.
func (l layout) mixes(partition int64) bool { return l.partitions != nil && !l.partitions[partition] }

// openPartitionsMax is how many partitions a merge writes to at once, the mixed file included.
const openPartitionsMax = 16

// planLayout gives the partitions with the most rows a file of their own, if there are too many to give one to each.
func planLayout(rows map[int64]int64) layout {
	if len(rows) <= openPartitionsMax {
		return layout{}
	}
	partitions := make([]int64, 0, len(rows))
	for partition := range rows {
		partitions = append(partitions, partition)
	}
	slices.SortFunc(partitions, func(a, b int64) int {
		return cmp.Or(cmp.Compare(rows[b], rows[a]), cmp.Compare(b, a))
	})
	own := make(map[int64]bool, openPartitionsMax-1)
	for _, partition := range partitions[:openPartitionsMax-1] {
		own[partition] = true
	}
	return layout{partitions: own}
}
