package shard

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lineweir/segment"
	"lineweir/wal"
)

// neighbours are the frames around a run of lost ones.
type neighbours struct{ before, behind string }

// report says in sentences what is damaged and what is lost.
func (r *repair) report(ctx context.Context) (string, error) {
	if !r.needed() {
		return "nothing is damaged\n", nil
	}
	var out strings.Builder
	r.reportManifest(&out)
	for _, lost := range r.segments.Lost {
		r.reportSegment(&out, lost)
	}
	for _, damage := range r.log.Damage {
		fmt.Fprintf(&out, "log: %s at byte %d: %s\n", damage.Path, damage.Offset, damage.Reason)
	}
	if err := r.reportFrames(ctx, &out); err != nil {
		return "", err
	}
	fmt.Fprintf(&out, "kept: %d segments; %d frames of the log from sequence %d on\n",
		r.segments.Kept, r.log.Kept, r.segments.Recorded().Horizon+1)
	return out.String(), nil
}

func (r *repair) reportManifest(out *strings.Builder) {
	if r.segments.Damage != nil {
		fmt.Fprintf(out, "manifest: %v\n", r.segments.Damage)
	}
	for _, doubt := range r.segments.Doubts {
		fmt.Fprintf(out, "in doubt: %s\n", doubt)
	}
}

func (r *repair) reportSegment(out *strings.Builder, lost segment.LostSegment) {
	m := &lost.Meta
	fmt.Fprintf(out, "segment: %s: %v\n", lost.Path, lost.Reason)
	if m.Rows == 0 {
		fmt.Fprintf(out, "lost: what segment %d held, which nothing tells any more\n", m.ID)
		return
	}
	fmt.Fprintf(out, "lost: %d rows of measurement %q in database %q, times %s to %s, sequences %d to %d",
		m.Rows, m.Measurement, m.Database, timeText(m.MinTime), timeText(m.MaxTime), m.MinSequence, m.MaxSequence)
	floor := lowest(r.segments.Recorded().Floors)
	switch {
	case floor < m.MinSequence:
		fmt.Fprint(out, "; the log still has all of them, and replays them")
	case floor < m.MaxSequence:
		fmt.Fprintf(out, "; the log still has those from sequence %d on, and replays them", floor+1)
	}
	fmt.Fprintln(out)
}

// reportFrames names the frames that are lost, and what lies around them: their own points can't be read.
func (r *repair) reportFrames(ctx context.Context, out *strings.Builder) error {
	if len(r.log.Damage) == 0 {
		return nil
	}
	if len(r.log.Lost) == 0 {
		fmt.Fprintln(out, "no frame of the log that is needed is known to be lost; whether there were later ones than "+
			"the last one that can be read, nothing tells")
		return nil
	}
	around, err := r.neighbours(ctx)
	if err != nil {
		return err
	}
	for _, lost := range r.log.Lost {
		fmt.Fprintf(out, "lost: frames %d to %d of the log; before them %s, behind them %s\n",
			lost.First, lost.Last, around[lost].before, around[lost].behind)
	}
	fmt.Fprintln(out, "in doubt: a DROP among the lost frames is not done; frames behind the last one that can be read "+
		"are not known")
	return nil
}

// neighbours describes the frames around each loss.
func (r *repair) neighbours(ctx context.Context) (map[wal.Lost]neighbours, error) {
	around := make(map[wal.Lost]neighbours, len(r.log.Lost))
	before := "nothing that can be read"
	err := r.log.Frames(func(missing uint64, f wal.Frame) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if missing > 0 {
			lost := wal.Lost{First: f.Sequence - missing, Last: f.Sequence - 1}
			around[lost] = neighbours{before, r.describe(f)}
		}
		before = r.describeLazily(f)
		return nil
	})
	for _, lost := range r.log.Lost {
		if _, known := around[lost]; !known {
			around[lost] = neighbours{before, "nothing that can be read"}
		}
	}
	return around, err
}

// describeLazily describes a frame only if a loss is next to it.
func (r *repair) describeLazily(f wal.Frame) string {
	for _, lost := range r.log.Lost {
		if lost.First == f.Sequence+1 {
			return r.describe(f)
		}
	}
	return ""
}

func (r *repair) describe(f wal.Frame) string {
	s, ok := r.spanOf(f)
	if !ok {
		return fmt.Sprintf("frame %d", f.Sequence)
	}
	return fmt.Sprintf("frame %d with points of database %q, measurements %q, times %s to %s",
		f.Sequence, s.database, s.measurements, timeText(s.first), timeText(s.last))
}

// timeText formats nanoseconds since 1970.
func timeText(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }
