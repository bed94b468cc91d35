package segment

import "slices"

// result is what a job has come to.
type result struct {
	merged   []mergedTask
	promotes []*Segment
}

// mergedTask is a task and the files that it led to.
type mergedTask struct {
	task    mergeTask
	outputs []*PendingFile
}

func (r *result) empty() bool { return len(r.merged)+len(r.promotes) == 0 }

// edit replaces the inputs by the outputs.
func (r *result) edit() Edit {
	var e Edit
	for _, m := range r.merged {
		for _, sg := range m.task.inputs {
			e.Remove = append(e.Remove, sg.meta.ID)
		}
		for _, p := range m.outputs {
			e.Add = append(e.Add, p.meta)
		}
	}
	for _, sg := range r.promotes {
		e.Promote = append(e.Promote, sg.meta.ID)
	}
	return e
}

func (r *result) outputs() []*PendingFile {
	var all []*PendingFile
	for _, m := range r.merged {
		all = append(all, m.outputs...)
	}
	return all
}

func (r *result) tasks() []mergeTask {
	tasks := make([]mergeTask, len(r.merged))
	for i, m := range r.merged {
		tasks[i] = m.task
	}
	return tasks
}

// withdraw gives up what can't take effect, because an edit has removed a segment that it began with.
func (r *result) withdraw(live *version) {
	r.merged = slices.DeleteFunc(r.merged, func(m mergedTask) bool {
		gone := slices.ContainsFunc(m.task.inputs, func(sg *Segment) bool { return !live.holds(sg) })
		if gone {
			abortAll(m.outputs)
		}
		return gone
	})
	r.promotes = slices.DeleteFunc(slices.Clone(r.promotes), func(sg *Segment) bool { return !live.holds(sg) })
}

// holds tells whether a segment is live, at the level it had when it was found.
func (v *version) holds(sg *Segment) bool {
	list := v.lists[keyOf(sg.meta)]
	return list != nil && slices.ContainsFunc(list.segments, func(other *Segment) bool {
		return other.meta.ID == sg.meta.ID && other.meta.Level == sg.meta.Level
	})
}

func abortAll(pending []*PendingFile) {
	for _, p := range pending {
		p.Abort()
	}
}
