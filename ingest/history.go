package ingest

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	historyInterval = time.Second
	historyMax      = 15 * 60 // samples, so that the plots of a page that is opened late begin 15 minutes ago
)

// historyColumns name the figures of a sample. Counters grow from the start of the process; rates follow from two
// samples.
var historyColumns = [...]string{
	"time_ms", "capacity_bytes", "soft_bytes", "registered_bytes", "reserved_bytes", "drain_bytes_per_second",
	"points", "text_bytes", "refused", "waiting", "blocked_shards", "active_bytes", "frozen_bytes", "wal_bytes",
}

// sample holds the figures of a moment, in the order of historyColumns.
type sample [len(historyColumns)]int64

func (s *sample) timeMs() int64 { return s[0] }

// history is a ring of the latest samples. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	ring  [historyMax]sample
	count int // of all samples until now
}

func (h *history) add(s sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring[h.count%historyMax] = s
	h.count++
}

// after returns the samples that are later than a time in milliseconds since 1970, oldest first.
func (h *history) after(timeMs int64) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	samples := []sample{}
	for i := max(0, h.count-historyMax); i < h.count; i++ {
		if s := &h.ring[i%historyMax]; s.timeMs() > timeMs {
			samples = append(samples, *s)
		}
	}
	return samples
}

// record takes a sample now and then one in each interval, until ctx ends.
func (h *history) record(ctx context.Context, take func() sample) {
	tick := time.NewTicker(historyInterval)
	defer tick.Stop()
	for {
		h.add(take())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sample reads the figures of now.
func (h *Handler) sample() sample {
	s := h.engine.Status()
	var refused, blocked, active, frozen int64
	for _, count := range s.Admission.Refused {
		refused += count
	}
	for i := range s.Shards {
		active += s.Shards[i].ActiveBytes
		frozen += s.Shards[i].FrozenBytes
		if s.Shards[i].BlockedSince != nil {
			blocked++
		}
	}
	return sample{
		time.Now().UnixMilli(), s.Tier.CapacityBytes, s.Tier.SoftBytes, s.Tier.RegisteredBytes, s.Tier.ReservedBytes,
		int64(s.Tier.DrainBytesPerSecond), h.metrics.points.Load(), h.metrics.text.Load(), refused, s.Admission.Waiting,
		blocked, active, frozen, s.WAL.Bytes,
	}
}

// historyBody is the answer of GET /api/history: names once, then a row for each sample.
type historyBody struct {
	IntervalSeconds float64  `json:"interval_seconds"`
	Columns         []string `json:"columns"`
	Samples         []sample `json:"samples"`
}

// past answers with the samples that are later than the parameter after, or with all of them.
func (h *Handler) past(_ http.ResponseWriter, r *http.Request) (reply, error) {
	after := int64(0)
	if values := r.URL.Query(); values.Has("after") {
		var err error
		if after, err = strconv.ParseInt(values.Get("after"), 10, 64); err != nil {
			return reply{}, badRequest("after is %s, must be milliseconds since 1970", quote(values.Get("after")))
		}
	}
	return jsonReply(http.StatusOK, historyBody{
		IntervalSeconds: historyInterval.Seconds(), Columns: historyColumns[:], Samples: h.history.after(after),
	})
}
