package ingest

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lineweir/shard"
)

// Stages of a write, as metrics show them.
const (
	stageRead    = "read"    // the body comes in and is decompressed
	stageParse   = "parse"   // the text becomes a batch
	stageWrite   = "write"   // admission, commit, fsync and apply
	stageWhole   = "whole"   // of requests that were stored, from first header to answer
	stageRefused = "refused" // the same of the others
)

// Outcomes of a write request: accepted, a cause of backpressure, or one of these.
const (
	outcomeAccepted = "accepted"
	reasonLines     = "bad_lines"   // the good ones are stored
	reasonRequest   = "bad_request" // route, parameters, encoding
	reasonTooLarge  = "too_large"   // bytes, of the body or of its batch
	reasonTruncated = "truncated"
	reasonStalled   = "stalled"
	reasonSchema    = "schema_unsettled"
	reasonGone      = "client_gone"
	reasonInternal  = "internal"

	reasonTooManyLines  = "too_many_lines"
	reasonTooManyPoints = "too_many_points"

	reasonUnauthorized = "unauthorized"      // no token, or one that is not known
	reasonForbidden    = "forbidden"         // the token is not good for this
	reasonTokens       = "tokens_unreadable" // nobody knows
	reasonConnections  = "connections"       // there are too many
	reasonReads        = "reads"             // they hold all the memory that they may
)

func outcomes() []string {
	return append(shard.Causes(), outcomeAccepted, reasonLines, reasonRequest, reasonTooLarge,
		reasonTooManyLines, reasonTooManyPoints, reasonTruncated, reasonStalled, reasonSchema, reasonGone,
		reasonInternal, reasonUnauthorized, reasonForbidden, reasonTokens)
}

// accessReasons are why requests that are no writes are refused too.
func accessReasons() []string {
	return []string{reasonUnauthorized, reasonForbidden, reasonTokens, reasonConnections, reasonReads}
}

// stageSeconds reach from a refusal without reading to a client's last patience.
var stageSeconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// metrics are those of the write path. They belong to one Handler: nothing is registered globally.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec // by api and outcome
	points   atomic.Int64           // made durable
	wire     atomic.Int64           // bytes of bodies as they came
	text     atomic.Int64           // bytes of their text
	faults   map[Fault]prometheus.Counter
	stages   map[string]prometheus.Observer
	access   map[string]prometheus.Counter // by reason
}

func newMetrics(h *Handler) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), faults: map[Fault]prometheus.Counter{},
		stages: map[string]prometheus.Observer{}, access: map[string]prometheus.Counter{},
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newEngineCollector(h.options.Engine.Status),
	)
	m.registerRequests()
	m.registerVolume()
	m.registerBudget(h.budget)
	m.registerAccess(h.connections)
	return m
}

func (m *metrics) registerRequests() {
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lineweir_write_requests_total", Help: "Write requests by API and by what became of them.",
	}, []string{"api", "outcome"})
	for _, api := range writeAPIs() {
		for _, outcome := range outcomes() {
			m.requests.WithLabelValues(api.path, outcome)
		}
	}
	stages := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "lineweir_write_stage_seconds", Help: "Time of write requests by stage.", Buckets: stageSeconds,
	}, []string{"stage"})
	for _, stage := range []string{stageRead, stageParse, stageWrite, stageWhole, stageRefused} {
		m.stages[stage] = stages.WithLabelValues(stage)
	}
	m.registry.MustRegister(m.requests, stages)
}

func (m *metrics) registerVolume() {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lineweir_write_lines_refused_total", Help: "Lines that were refused, by fault.",
	}, []string{"fault"})
	for _, fault := range Faults() {
		m.faults[fault] = refused.WithLabelValues(fault.String())
	}
	bytes := func(form string) prometheus.CounterOpts {
		return prometheus.CounterOpts{
			Name: "lineweir_write_body_bytes_total", Help: "Bytes of bodies on the wire, and of their text.",
			ConstLabels: prometheus.Labels{"form": form},
		}
	}
	points := prometheus.CounterOpts{Name: "lineweir_write_points_total", Help: "Points that were made durable."}
	m.registry.MustRegister(refused, count(points, &m.points), count(bytes("wire"), &m.wire),
		count(bytes("text"), &m.text))
}

// count exposes a counter that the status reads as well.
func count(o prometheus.CounterOpts, value *atomic.Int64) prometheus.Collector {
	return prometheus.NewCounterFunc(o, func() float64 { return float64(value.Load()) })
}

func (m *metrics) registerBudget(b *budget) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lineweir_write_in_flight_bytes", Help: "Memory of the write requests in flight.",
		}, func() float64 { return float64(b.usedBytes.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lineweir_write_in_flight_max_bytes", Help: "What lineweir_write_in_flight_bytes never exceeds.",
		}, func() float64 { return float64(b.limitBytes) }),
	)
}

func (m *metrics) registerAccess(c *connections) {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lineweir_http_refused_total", Help: "Requests of all kinds whose client or connection was refused, by reason.",
	}, []string{"reason"})
	for _, reason := range accessReasons() {
		m.access[reason] = refused.WithLabelValues(reason)
	}
	m.registry.MustRegister(refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lineweir_http_connections", Help: "Open connections, with those that are being refused.",
		}, func() float64 { return float64(c.open.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lineweir_http_connections_max", Help: "How many connections are served at once.",
		}, func() float64 { return float64(c.max) }),
	)
}

// countRefusal notes a request that was answered with an error, if it is one of access.
func (m *metrics) countRefusal(reason string) {
	if counter := m.access[reason]; counter != nil {
		counter.Inc()
	}
}

// observe notes how long a stage took since its start, and returns when it ended.
func (m *metrics) observe(stage string, start time.Time) time.Time {
	now := time.Now()
	m.stages[stage].Observe(now.Sub(start).Seconds())
	return now
}

// countRefused notes why lines of a body were refused.
func (m *metrics) countRefused(result *Result) {
	for fault, lines := range result.Faults {
		if lines > 0 {
			m.faults[Fault(fault)].Add(float64(lines))
		}
	}
}

// countRequest notes what became of a write request.
func (m *metrics) countRequest(api string, start time.Time, err error) {
	outcome, stage := outcomeAccepted, stageWhole
	if err != nil {
		outcome, stage = describe(err).reason, stageRefused
		var lines *linesError
		if errors.As(err, &lines) {
			stage = stageWhole
		}
	}
	m.requests.WithLabelValues(api, outcome).Inc()
	m.observe(stage, start)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}
