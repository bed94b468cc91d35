package segment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
)

// step runs one job, if there is one to run, and otherwise tells when there may be.
func (c *Compactor) step(ctx context.Context, forced bool) (did bool, next time.Time, err error) {
	select {
	case <-c.running:
		defer func() { c.running <- struct{}{} }()
	case <-ctx.Done():
		return false, time.Time{}, ctx.Err()
	}
	if _, err := c.throttle.pay(ctx, 0); err != nil {
		return false, time.Time{}, err
	}
	did, next, err = c.stepL0(ctx, forced)
	if err != nil {
		return did, time.Now().Add(retryAfterMin), err // by then what failed may be tried again, or will say when
	}
	if did {
		return did, next, nil
	}
	if did, err = c.stepL1(ctx); err != nil {
		next = earlier(next, time.Now().Add(retryAfterMax))
	}
	return did, next, err
}

// stepL0 runs one job of level 0.
func (c *Compactor) stepL0(ctx context.Context, forced bool) (did bool, next time.Time, err error) {
	view := c.store.Acquire(nil)
	defer view.Release()
	t := c.trigger
	t.forced = forced
	j, next := planL0(view.version, t, c.bounds, c.attempts.admit, time.Now())
	if j.empty() {
		c.idle = idle{view.version, next}
		return false, next, nil
	}
	c.count(func(s *CompactorStatus) { s.Running = true })
	defer c.count(func(s *CompactorStatus) { s.Running = false })
	defer c.jobEnded()
	did, err = c.run(ctx, j, newMeter(c))
	return did, next, err
}

// stepL1 runs one job of level 1.
func (c *Compactor) stepL1(ctx context.Context) (did bool, err error) {
	view := c.store.Acquire(nil)
	defer view.Release()
	j := c.planL1Job(view.version, time.Now())
	if j.empty() {
		return false, nil
	}
	if room, err := c.hasRoom(j); !room {
		return false, err
	}
	return c.run(ctx, j, nil)
}

// hasRoom tells whether the disk has room for the outputs of a job beside its inputs, and as much again for writes. A
// job of level 0 does not ask: it must go on, and its outputs are smaller than what they replace.
func (c *Compactor) hasRoom(j job) (bool, error) {
	var need int64
	for _, task := range j.merges {
		need += 2 * task.sizeBytes
	}
	free, err := c.store.options.FS.FreeBytes(c.store.options.Dir)
	if err != nil {
		return false, fmt.Errorf("look for room for a merge: %w", err)
	}
	return free >= need, nil
}

// planL1Job takes the best run of each measurement until the job is full.
func (c *Compactor) planL1Job(v *version, now time.Time) job {
	var candidates []mergeTask
	resting := c.attempts.resting(now)
	maps.DeleteFunc(c.settled, func(key measurementKey, list *segmentList) bool { return v.lists[key] != list })
	for key, list := range v.lists {
		if c.settled[key] == list || len(list.level1()) < c.bounds.fanIn {
			continue
		}
		run := planL1(list.level1(), c.bounds, resting)
		if run != nil {
			candidates = append(candidates, newMergeTask(key, 1, run))
		} else if !slices.ContainsFunc(list.level1(), resting) {
			c.settled[key] = list
		}
	}
	return job{merges: withinJob(candidates, c.bounds)}
}

// interleave runs what is due in level 0 while a merge of level 1 is under way. Its failures are counted and do not
// concern that merge.
func (c *Compactor) interleave(ctx context.Context) error {
	for ctx.Err() == nil {
		poked := c.poked.Swap(false)
		if !poked && c.store.current.Load() == c.idle.version && !c.idle.passed(time.Now()) {
			break
		}
		did, next, err := c.stepL0(ctx, poked)
		if err != nil && ctx.Err() == nil {
			c.logger.Warn("a merge failed and will be tried again", zap.Error(err))
		}
		if !did {
			if poked && (err != nil || !next.IsZero()) {
				c.poked.Store(true)
			}
			break
		}
	}
	return ctx.Err()
}

func (i idle) passed(now time.Time) bool { return !i.until.IsZero() && !now.Before(i.until) }

// run merges what a job names and replaces it by one edit. What fails stays live and is noted; the rest goes on.
func (c *Compactor) run(ctx context.Context, j job, m *meter) (did bool, err error) {
	defer m.flush()
	r := result{promotes: j.promotes}
	defer func() { abortAll(r.outputs()) }() // does nothing once the edit has the files
	var failure error
	for _, task := range j.merges {
		outputs, err := c.merge(ctx, task, m)
		if ctx.Err() != nil {
			abortAll(outputs)
			return false, ctx.Err()
		}
		if err != nil {
			failure = errors.Join(failure, c.noteFailure(err, task))
			continue
		}
		r.merged = append(r.merged, mergedTask{task, outputs})
	}
	if r.empty() {
		return false, failure
	}
	if err := c.commit(&r); err != nil {
		c.attempts.postpone(r.promotes, time.Now())
		return false, errors.Join(failure, c.noteFailure(err, r.tasks()...))
	}
	c.noteDone(r)
	return true, failure
}

// commit makes the outputs durable and then replaces the inputs by them. Merges of which an input was dropped or
// expired meanwhile are given up, which is no failure; nothing may be left of the result then.
func (c *Compactor) commit(r *result) error {
	if err := c.store.Seal(r.outputs()); err != nil {
		return fmt.Errorf("seal merged segments: %w", err)
	}
	for {
		live := c.store.current.Load()
		r.withdraw(live)
		if r.empty() {
			return nil
		}
		_, err := c.store.Apply(r.edit(), nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrNotLive) || c.store.current.Load() == live {
			return fmt.Errorf("register merged segments: %w", err)
		}
	}
}

func (c *Compactor) noteFailure(err error, tasks ...mergeTask) error {
	now := time.Now()
	for _, task := range tasks {
		c.attempts.failed(task, suspects(task, err), now)
	}
	c.count(func(s *CompactorStatus) {
		s.Failures++
		s.LastError, s.LastErrorTime = err.Error(), now
	})
	return err
}

// suspects are the inputs that may be why a merge failed: the damaged one, if the error names it, otherwise all.
func suspects(task mergeTask, err error) []*Segment {
	var corruption *CorruptionError
	if !errors.As(err, &corruption) {
		return task.inputs
	}
	for _, sg := range task.inputs {
		if sg.store.path(sg.meta) == corruption.Path {
			return []*Segment{sg}
		}
	}
	return task.inputs
}

func (c *Compactor) noteDone(r result) {
	for _, m := range r.merged {
		c.attempts.merged(m.task)
	}
	for _, sg := range r.promotes {
		c.attempts.promoted(sg)
		c.logger.Warn("a segment could not be merged and went to level 1 as it is",
			zap.String("path", c.store.path(sg.meta)), zap.String("database", sg.meta.Database),
			zap.String("measurement", sg.meta.Measurement))
	}
	edit := r.edit()
	c.count(func(s *CompactorStatus) {
		s.Jobs++
		s.Merges += int64(len(r.merged))
		s.Promoted += int64(len(r.promotes))
		for _, m := range edit.Add {
			s.BytesWritten += m.SizeBytes
			s.RowsWritten += m.Rows
		}
		for _, m := range r.merged {
			if m.task.level == 0 {
				s.BytesRead += m.task.sizeBytes
			}
		}
	})
	c.logger.Debug("compacted", zap.Int("merges", len(r.merged)), zap.Int("segments_in", len(edit.Remove)),
		zap.Int("segments_out", len(edit.Add)), zap.Int("promoted", len(r.promotes)))
}
