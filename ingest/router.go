package ingest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.uber.org/zap"

	"lineweir/shard"
)

// Handler answers all requests.
type Handler struct {
	options     Options
	engine      *shard.Engine
	committer   committer
	gate        gatekeeper
	budget      *budget
	needs       needs
	connections *connections
	buffers     bufferPool
	decoders    decoders
	parsers     sync.Pool
	metrics     *metrics
	history     history
	router      *chi.Mux
	started     time.Time
}

// NewHandler returns a Handler.
func NewHandler(o Options) (*Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	h := &Handler{
		options: o, engine: o.Engine, committer: o.Engine, gate: o.Engine,
		budget:      &budget{limitBytes: o.Limits.InFlightBytesMax},
		connections: &connections{max: int64(o.Limits.ConnectionsMax)},
		parsers:     sync.Pool{New: func() any { return NewParser(o.Limits.Line) }},
		started:     time.Now(),
	}
	h.metrics = newMetrics(h)
	h.router = h.routes()
	return h, nil
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.router.ServeHTTP(w, r) }

// endpoint handles the requests of a route. It returns what to answer, and writes nothing unless it returns the zero
// reply.
type endpoint func(w http.ResponseWriter, r *http.Request) (reply, error)

// route is one method of one path.
type route struct {
	methods []string
	path    string
	about   string // what GET / says of it
	needs   need
	handle  endpoint
}

// table lists everything there is beside the write APIs.
func (h *Handler) table() []route {
	read := []string{http.MethodGet, http.MethodHead}
	return []route{
		{read, "/", "the status page for browsers, this list for others", needRead, h.page},
		{read, assetPrefix + "{name}", "parts of the status page", needRead, h.asset},
		{read, "/ping", "204; verbose=true: the version", nil, h.ping},
		{read, "/health", "200 while the process can serve, 503 when only a restart helps", nil, h.health},
		{read, "/ready", "200 when writes are taken, else 503 with the cause", nil, h.ready},
		{read, "/metrics", "metrics for Prometheus", needRead, h.exposition},
		{[]string{http.MethodGet, http.MethodPost}, "/query",
			"InfluxQL: q with CREATE, DROP, ALTER and SHOW statements; db", needToken, h.query},
		{[]string{http.MethodGet}, "/api/scan",
			"points: db, measurement, start, stop, tag, field, limit, format=lp|csv|jsonl|count", needScan, h.scan},
		{read, "/api/status", "what the engine does, as JSON", needRead, h.status},
		{read, "/api/history", "figures of the last 15 minutes, one row a second; after=MILLISECONDS", needRead, h.past},
		{[]string{http.MethodPost}, "/api/seal", "seal all memtables; wait=true: until they are flushed", needAdmin, h.seal},
		{[]string{http.MethodPut}, "/api/compaction", `{"max_bytes_per_second":N,"paused":bool}`, needAdmin, h.compaction},
	}
}

// routes builds the router.
func (h *Handler) routes() *chi.Mux {
	router := chi.NewRouter()
	router.Use(identify(h.options.Version), h.refuseExcess)
	for _, api := range writeAPIs() {
		router.Post(api.path, h.serveWrite(api))
	}
	for _, route := range h.table() {
		for _, method := range route.methods {
			router.MethodFunc(method, route.path, h.serve(route))
		}
	}
	router.NotFound(h.fallback(notFound))
	router.MethodNotAllowed(h.fallback(h.methodNotAllowed))
	return router
}

// serve makes a handler of a route: it sends the reply, or the answer to the error or the panic.
func (h *Handler) serve(route route) http.HandlerFunc {
	guarded := h.guard(route.needs, route.handle)
	return func(w http.ResponseWriter, r *http.Request) {
		hurryBody(w, r, h.options.Limits.BodyTimeout)
		_ = h.answer(shapeV1, guarded, w, r)
	}
}

// serveWrite is serve for a write API, which also counts.
func (h *Handler) serveWrite(api *writeAPI) http.HandlerFunc {
	write := h.guard(needToken, h.write(api))
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		err := h.answer(api.shape, write, w, r)
		h.metrics.countRequest(api.path, start, err)
	}
}

// answer runs an endpoint, sends its one answer, and returns its error.
func (h *Handler) answer(s shape, e endpoint, w http.ResponseWriter, r *http.Request) error {
	tracked := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
	result, err := protect(e, tracked, r)
	if err == nil {
		if result.release != nil {
			defer result.release()
		}
		send(tracked, result)
		return nil
	}
	f := describe(err)
	h.metrics.countRefusal(f.reason)
	if r.ProtoMajor > 1 && f.reason != reasonConnections {
		f.closes = false // a broken stream of HTTP/2 breaks no other
	}
	if f.internal {
		h.options.Logger.Error("request failed", zap.String("method", r.Method), zap.String("path", r.URL.Path),
			zap.String("request_id", w.Header().Get("Request-Id")), zap.Error(err))
	}
	if tracked.Status() != 0 {
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	}
	hurryBody(w, r, drainTimeout)
	send(tracked, s.answer(f))
	return err
}

// protect runs an endpoint and makes an error of a panic.
func protect(e endpoint, w http.ResponseWriter, r *http.Request) (result reply, err error) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case http.ErrAbortHandler:
			panic(value)
		default:
			result, err = reply{}, &panicError{value, debug.Stack()}
		}
	}()
	return e(w, r)
}

// fallback answers what no route takes, in the shape that the path suggests.
func (h *Handler) fallback(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { _ = h.answer(shapeOf(r.URL.Path), e, w, r) }
}

func shapeOf(path string) shape {
	switch {
	case strings.HasPrefix(path, "/api/v2/"):
		return shapeV2
	case strings.HasPrefix(path, "/api/v3/"):
		return shapeV3
	default:
		return shapeV1
	}
}

func notFound(_ http.ResponseWriter, r *http.Request) (reply, error) {
	return reply{}, &requestError{
		status: http.StatusNotFound, reason: reasonRequest,
		message: "there is no " + quote(r.URL.Path) + "; write to POST /write?db=NAME, /api/v2/write?bucket=NAME or " +
			"/api/v3/write_lp?db=NAME; GET / lists everything",
	}
}

// methodError refuses a method that a path does not have.
type methodError struct{ method, path, allow string }

func (e *methodError) Error() string {
	return fmt.Sprintf("%s does not take %s, only %s", quote(e.path), quote(e.method), e.allow)
}

func (h *Handler) methodNotAllowed(w http.ResponseWriter, r *http.Request) (reply, error) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
		if h.router.Match(chi.NewRouteContext(), method, r.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return notFound(w, r) // a method that nobody knows, on a path that nobody has
	}
	return reply{}, &methodError{r.Method, r.URL.Path, strings.Join(allowed, ", ")}
}

// compatibleVersion is what clients that look for features find: the last of InfluxDB 1.8, then ours.
const compatibleVersion = "1.8.10-lineweir-"

// identify adds the headers by which clients know the server and find a request in the log.
func identify(version string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id := requestID(r)
			header := w.Header()
			header.Set("Request-Id", id)
			header.Set("X-Request-Id", id)
			header.Set("X-Influxdb-Version", compatibleVersion+version)
			header.Set("X-Influxdb-Build", "lineweir")
			next.ServeHTTP(w, r)
		})
	}
}

// requestID returns the client's name of the request if it is fit for a header, else a new one.
func requestID(r *http.Request) string {
	const idBytesMax = 128
	for _, name := range []string{"X-Request-Id", "Request-Id"} {
		id := r.Header.Get(name)
		if id != "" && len(id) <= idBytesMax && headerText(id) == id {
			return id
		}
	}
	return rand.Text()
}
