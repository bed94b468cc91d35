package ingest

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"lineweir/shard"
)

// ping tells that there is a server. verbose asks for its version, as InfluxDB 1 has it.
func (h *Handler) ping(_ http.ResponseWriter, r *http.Request) (reply, error) {
	if verbose := r.URL.Query().Get("verbose"); verbose == "" || verbose == "0" || verbose == "false" {
		return noContent(), nil
	}
	return jsonReply(http.StatusOK, struct {
		Version string `json:"version"`
	}{compatibleVersion + h.options.Version})
}

// healthBody has the names of InfluxDB.
type healthBody struct {
	Name    string   `json:"name"`
	Status  string   `json:"status"`
	Message string   `json:"message"`
	Checks  []string `json:"checks"`
	Version string   `json:"version"`
}

// health tells whether the process should live on: it fails in the one state that only a restart ends.
func (h *Handler) health(http.ResponseWriter, *http.Request) (reply, error) {
	status, body := http.StatusOK, healthBody{
		Name: "lineweir", Status: "pass", Message: "ready for queries and writes", Checks: []string{},
		Version: h.options.Version,
	}
	err := h.gate.Unavailable()
	if err != nil {
		body.Message = describe(err).message
	}
	var refusal *shard.BackpressureError
	if errors.As(err, &refusal) && refusal.Cause == shard.CauseReadOnly {
		status, body.Status = http.StatusServiceUnavailable, "fail"
	}
	return jsonReply(status, body)
}

// readyBody tells since when writes are taken, or why they are not.
type readyBody struct {
	Status   string               `json:"status"`
	Started  time.Time            `json:"started"`
	Up       string               `json:"up"`
	Cause    string               `json:"cause,omitempty"`
	Error    string               `json:"error,omitempty"`
	Recovery shard.RecoveryStatus `json:"recovery"`
}

// ready tells whether writes are taken.
func (h *Handler) ready(http.ResponseWriter, *http.Request) (reply, error) {
	body := readyBody{
		Status: "ready", Started: h.started.UTC(), Up: time.Since(h.started).Round(time.Millisecond).String(),
		Recovery: h.engine.Status().Recovery,
	}
	err := h.gate.Unavailable()
	if err == nil && h.options.Tokens != nil && h.options.Tokens.Ready() != nil {
		err = errTokensUnreadable
	}
	if err == nil {
		return jsonReply(http.StatusOK, body)
	}
	f := describe(err)
	body.Status, body.Cause, body.Error = "not ready", cmp.Or(f.cause, f.reason), f.message
	answer, err := jsonReply(http.StatusServiceUnavailable, body)
	answer.header = http.Header{}
	setRetryAfter(answer.header, max(f.retryAfter, time.Second))
	return answer, err
}

// endpointBody is one line of GET /.
type endpointBody struct {
	Path    string   `json:"path"`
	Methods []string `json:"methods"`
	About   string   `json:"about"`
}

// index lists what there is.
func (h *Handler) index() (reply, error) {
	body := struct {
		Name      string         `json:"name"`
		Version   string         `json:"version"`
		Endpoints []endpointBody `json:"endpoints"`
	}{Name: "lineweir", Version: h.options.Version}
	for _, api := range writeAPIs() {
		body.Endpoints = append(body.Endpoints, endpointBody{api.path, []string{http.MethodPost}, api.about})
	}
	for _, route := range h.table() {
		body.Endpoints = append(body.Endpoints, endpointBody{route.path, route.methods, route.about})
	}
	return jsonReply(http.StatusOK, body)
}

// exposition streams the metrics.
func (h *Handler) exposition(w http.ResponseWriter, r *http.Request) (reply, error) {
	hurryAnswer(w)
	h.metrics.handler().ServeHTTP(w, r)
	return reply{}, nil
}

// scan streams points.
func (h *Handler) scan(w http.ResponseWriter, r *http.Request) (reply, error) {
	return reply{}, h.options.Scan(w, r)
}
