package load

import (
	"bytes"
	"sort"
)

// window is some rounds of a run that are read back at once: one bit for each of their lines.
type window struct {
	plan       *plan
	fates      *fates
	index      *index
	begin, end int64 // rounds
	seen       []uint64
	result     *Verification
}

func newWindow(p *plan, f *fates, x *index, begin, end int64, result *Verification) *window {
	lines := (end - begin) * p.corpus.lines()
	return &window{
		plan: p, fates: f, index: x, begin: begin, end: end, seen: make([]uint64, (lines+63)/64), result: result,
	}
}

func (w *window) has(line int64) bool { return w.seen[line/64]>>(line%64)&1 == 1 }

// mark notes a point that was read.
func (w *window) mark(p point) {
	c := w.plan.corpus
	since := p.at - c.start
	round := since / c.span
	entries := w.index.find(pointKey(p.series, since%c.span))
	if since < 0 || round < w.begin || round >= w.end || len(entries) == 0 {
		w.result.Foreign++
		return
	}
	first := w.position(round, entries[0])
	if w.has(first) {
		w.complain(&w.result.Double, "double", round, entries[0])
		return
	}
	for _, e := range entries {
		at := w.position(round, e)
		w.seen[at/64] |= 1 << (at % 64)
	}
	// Where a file has a point more than once, its fields are those of several lines.
	if len(entries) == 1 && entries[0].fields != p.fields {
		w.complain(&w.result.Altered, "altered", round, entries[0])
	}
}

// position is the number of a line in this window.
func (w *window) position(round int64, e indexEntry) int64 {
	return (round-w.begin)*w.plan.corpus.lines() + int64(e.line)
}

// judge compares what was seen with the fates of the batches.
func (w *window) judge() {
	bodies := int64(len(w.plan.corpus.bodies))
	for number := w.begin * bodies; number < w.end*bodies; number++ {
		b, ok := w.plan.batch(number)
		if !ok {
			return
		}
		w.judgeBatch(b)
	}
}

func (w *window) judgeBatch(b batch) {
	base := b.before - w.begin*w.plan.corpus.lines()
	stored := int64(0)
	for line := range int64(b.points) {
		if w.has(base + line) {
			stored++
		}
	}
	r := w.result
	switch w.fates.get(b.number) {
	case fateAcknowledged:
		r.Acknowledged += int64(b.points)
		r.Found += stored
		r.Missing += int64(b.points) - stored
		if stored < int64(b.points) {
			w.gaps(b, base)
		}
	case fateRefused:
		r.RefusedStored += stored
		if stored > 0 {
			w.show("stored though refused", b, 0)
		}
	case fateUnknown:
		r.Unknown += int64(b.points)
		r.UnknownStored += stored
	default:
		r.Foreign += stored
	}
}

// gaps lists the stretches of a batch that are missing.
func (w *window) gaps(b batch, base int64) {
	for line := 0; line < b.points; line++ {
		if w.has(base + int64(line)) {
			continue
		}
		first := line
		for line+1 < b.points && !w.has(base+int64(line+1)) {
			line++
		}
		if len(w.result.Gaps) == gapsMax {
			w.result.GapsLeftOut++
			continue
		}
		w.result.Gaps = append(w.result.Gaps, Gap{
			Batch: b.number, First: first + 1, Last: line + 1, Point: w.example(b, first),
		})
	}
}

// complain counts what is wrong about a point, unless it lies in a batch that was never sent: then it is not of this
// run.
func (w *window) complain(count *int64, what string, round int64, e indexEntry) {
	c, line := w.plan.corpus, int64(e.line)
	body := sort.Search(len(c.bodies), func(i int) bool { return c.first[i+1] > line })
	b, _ := w.plan.batch(round*int64(len(c.bodies)) + int64(body))
	if w.fates.get(b.number) == fateUnsent {
		return
	}
	*count++
	w.show(what, b, int(line-c.first[body]))
}

// show lists a point with what is wrong about it.
func (w *window) show(what string, b batch, line int) {
	if len(w.result.Examples) < examplesMax {
		w.result.Examples = append(w.result.Examples, what+": "+w.example(b, line))
	}
}

// example is the text of a line as it was sent, cut at a bound.
func (w *window) example(b batch, line int) string {
	t := &w.plan.corpus.bodies[b.body]
	text := t.appendLines(nil, line+1, b.shift)
	text = bytes.TrimSuffix(text[t.length(line):], []byte("\n"))
	if len(text) > exampleBytesMax {
		head, tail := text[:exampleBytesMax-timeDigits-1], text[len(text)-timeDigits-1:]
		return string(bytes.ToValidUTF8(head, nil)) + "…" + string(tail)
	}
	return string(text)
}
