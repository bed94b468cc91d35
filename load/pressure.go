package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"
)

// serverStatus is what lineweir's /api/status tells of backpressure.
type serverStatus struct {
	State string `json:"state"`
	Tier  struct {
		CapacityBytes       int64   `json:"capacity_bytes"`
		SoftBytes           int64   `json:"soft_bytes"`
		RegisteredBytes     int64   `json:"registered_bytes"`
		ReservedBytes       int64   `json:"reserved_bytes"`
		HighestBytes        int64   `json:"highest_bytes"`
		ForcedBytes         int64   `json:"forced_bytes"`
		DrainBytesPerSecond float64 `json:"drain_bytes_per_second"`
		Stalled             bool    `json:"stalled"`
	} `json:"tier"`
	Shards []struct {
		BlockedSince *time.Time `json:"blocked_since"`
	} `json:"shards"`
	Admission struct {
		Waited  int64            `json:"waited"`
		Waiting int64            `json:"waiting"`
		Refused map[string]int64 `json:"refused"`
	} `json:"admission"`
}

// level is the ledger of the tier: what it holds and what is promised.
func (s *serverStatus) level() int64 { return s.Tier.RegisteredBytes + s.Tier.ReservedBytes }

func (s *serverStatus) blocked() int {
	blocked := 0
	for _, shard := range s.Shards {
		if shard.BlockedSince != nil {
			blocked++
		}
	}
	return blocked
}

// PressureSample is how far lineweir held back in one second, at its worst.
type PressureSample struct {
	LevelBytes          int64   `json:"level_bytes"`
	CapacityBytes       int64   `json:"capacity_bytes"`
	SoftBytes           int64   `json:"soft_bytes"`
	Waiting             int64   `json:"waiting"`
	Waited              int64   `json:"waited"`         // since the begin of the run
	BlockedShards       int     `json:"blocked_shards"` // that may not seal
	DrainBytesPerSecond float64 `json:"drain_bytes_per_second"`
}

// worse joins two samples of one second.
func (p *PressureSample) worse(earlier *PressureSample) *PressureSample {
	if earlier == nil {
		return p
	}
	joined := *p
	joined.LevelBytes = max(p.LevelBytes, earlier.LevelBytes)
	joined.Waiting = max(p.Waiting, earlier.Waiting)
	joined.BlockedShards = max(p.BlockedShards, earlier.BlockedShards)
	return &joined
}

// PressureReport is how lineweir held back during a run, as its status told.
type PressureReport struct {
	CapacityBytes     int64            `json:"capacity_bytes"`
	SoftBytes         int64            `json:"soft_bytes"`
	HighestSeenBytes  int64            `json:"highest_seen_bytes"`  // among the samples
	HighestBytes      int64            `json:"highest_bytes"`       // as the server recorded it, since its start
	ForcedBytes       int64            `json:"forced_bytes"`        // past the bound because someone forced a seal
	Samples           int64            `json:"samples"`             // of the status
	SamplesAboveBound int64            `json:"samples_above_bound"` // must be 0, unless seals were forced
	SamplesBlocked    int64            `json:"samples_blocked"`     // at which a shard might not seal
	Waited            int64            `json:"waited"`              // writes that waited for room and were answered then
	WaitingMax        int64            `json:"waiting_max"`
	Refused           map[string]int64 `json:"refused,omitempty"` // by cause, as the server counted
}

// pressureGauge reads a lineweir's status again and again.
type pressureGauge struct {
	target    *Target
	transport *http.Transport
	first     serverStatus
	report    PressureReport
}

// statusTimeout bounds a read of the status: a server that is too busy for it is sampled less often.
const statusTimeout = 2 * time.Second

// newPressureGauge returns nil where the server is no lineweir.
func newPressureGauge(ctx context.Context, t *Target) *pressureGauge {
	g := &pressureGauge{target: t, transport: t.transport(netip.Addr{})}
	status, err := g.read(ctx)
	if err != nil || status.Tier.CapacityBytes <= 0 {
		g.close()
		return nil
	}
	g.first = status
	return g
}

func (g *pressureGauge) close() { g.transport.CloseIdleConnections() }

func (g *pressureGauge) read(ctx context.Context) (serverStatus, error) {
	var status serverStatus
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	request, err := g.target.request(ctx, http.MethodGet, "/api/status", nil)
	if err != nil {
		return status, err
	}
	response, err := g.transport.RoundTrip(request)
	if err != nil {
		return status, fmt.Errorf("read the status: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return status, fmt.Errorf("read the status: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return status, fmt.Errorf("read the status: the server answered %s", response.Status)
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return status, fmt.Errorf("read the status: %w", err)
	}
	return status, nil
}

// sample reads the status once. A read that fails is no sample.
func (g *pressureGauge) sample(ctx context.Context) (*PressureSample, error) {
	status, err := g.read(ctx)
	if err != nil {
		return nil, err
	}
	g.add(&status)
	return &PressureSample{
		LevelBytes: status.level(), CapacityBytes: status.Tier.CapacityBytes, SoftBytes: status.Tier.SoftBytes,
		Waiting: status.Admission.Waiting, Waited: status.Admission.Waited - g.first.Admission.Waited,
		BlockedShards: status.blocked(), DrainBytesPerSecond: status.Tier.DrainBytesPerSecond,
	}, nil
}

func (g *pressureGauge) add(status *serverStatus) {
	r, tier := &g.report, &status.Tier
	r.Samples++
	r.CapacityBytes, r.SoftBytes = tier.CapacityBytes, tier.SoftBytes
	r.HighestSeenBytes = max(r.HighestSeenBytes, status.level())
	r.HighestBytes, r.ForcedBytes = tier.HighestBytes, tier.ForcedBytes
	if status.level() > tier.CapacityBytes {
		r.SamplesAboveBound++
	}
	if status.blocked() > 0 {
		r.SamplesBlocked++
	}
	r.WaitingMax = max(r.WaitingMax, status.Admission.Waiting)
	r.Waited = status.Admission.Waited - g.first.Admission.Waited
	r.Refused = map[string]int64{}
	for cause, count := range status.Admission.Refused {
		if since := count - g.first.Admission.Refused[cause]; since > 0 {
			r.Refused[cause] = since
		}
	}
}
