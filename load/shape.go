package load

import (
	"io"
	"math/rand/v2"
	"time"
)

// The shapes of generated lines.
const (
	ShapeTSBS        = "tsbs-cpu"    // 10 tags and 10 integer fields, as the devops case of TSBS has them
	ShapeTelegraf    = "telegraf"    // the measurements of a host, mostly floats
	ShapeCardinality = "cardinality" // many series with one field
)

var shapeNames = []string{ShapeTSBS, ShapeTelegraf, ShapeCardinality}

// timeMin is the first time, in nanoseconds, that is written with as many digits as the last: all later ones fit into
// the same place of a line.
const timeMin = 1_000_000_000_000_000_000

// source yields the lines of a corpus in their order.
type source interface {
	// next appends the next line up to its time, with the space before it, and returns that time in nanoseconds.
	// It returns io.EOF behind the last line, and then appends nothing.
	next(dst []byte) (line []byte, at int64, err error)
}

// shape makes the lines of a generated source.
type shape interface {
	// series is the number of series, and so of lines per step.
	series() int
	// append appends the line of a series up to its time. Steps and series come in ascending order.
	append(dst []byte, series int) []byte
}

// generated yields steps without end; in each, every series has one line.
type generated struct {
	shape    shape
	interval int64
	at       int64 // of the step
	series   int   // next one
}

func newGenerated(w Workload) *generated {
	return &generated{shape: newShape(w), interval: int64(w.Interval), at: w.Start.UnixNano()}
}

func (g *generated) next(dst []byte) ([]byte, int64, error) {
	if g.at > g.at+g.interval {
		return dst, 0, io.EOF // the end of all times
	}
	dst, at := g.shape.append(dst, g.series), g.at
	if g.series++; g.series == g.shape.series() {
		g.series, g.at = 0, g.at+g.interval
	}
	return dst, at, nil
}

// shapeBytes is what the shape itself keeps of its series, at most.
func (w *Workload) shapeBytes() int64 {
	if w.Shape == ShapeTSBS {
		return int64(w.Series) * tsbsHostBytes
	}
	return 0
}

func newShape(w Workload) shape {
	random := rand.New(rand.NewPCG(w.Seed, uint64(len(w.Shape))))
	switch w.Shape {
	case ShapeTelegraf:
		return newTelegraf(w.Series, int64(w.Interval/time.Second), random)
	case ShapeCardinality:
		return &cardinality{count: w.Series, random: random}
	default:
		return newTSBS(w.Series, random)
	}
}
