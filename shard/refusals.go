package shard

import "sync/atomic"

// recentMax is how many refusals the status remembers.
const recentMax = 20

// refusals are the latest refusals. A refusal takes no lock: it takes the next number, and its place by that.
type refusals struct {
	count atomic.Uint64
	slots [recentMax]atomic.Pointer[Refusal]
}

// add notes a refusal, which belongs to the list from then on.
func (r *refusals) add(refusal *Refusal) {
	r.slots[(r.count.Add(1)-1)%recentMax].Store(refusal)
}

// newestFirst returns copies. One that is being added beside it may be missing or out of order.
func (r *refusals) newestFirst() []Refusal {
	count := r.count.Load()
	list := make([]Refusal, 0, min(count, recentMax))
	for back := range min(count, recentMax) {
		if refusal := r.slots[(count-1-back)%recentMax].Load(); refusal != nil {
			list = append(list, *refusal)
		}
	}
	return list
}
