package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"lineweir/shard"
)

// statusBody is the engine's status, and what the engine does not know.
type statusBody struct {
	Version string    `json:"version"`
	Time    time.Time `json:"time"` // by the server's clock
	shard.Status
	Writes   writesBody   `json:"writes"`
	InFlight inFlightBody `json:"in_flight"`
}

// writesBody counts what came since the start.
type writesBody struct {
	Points    int64 `json:"points"`     // made durable
	TextBytes int64 `json:"text_bytes"` // of line protocol that was received, refused or not
}

// inFlightBody is the budget of the writes in flight.
type inFlightBody struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
}

func (h *Handler) status(http.ResponseWriter, *http.Request) (reply, error) {
	return jsonReply(http.StatusOK, statusBody{
		Version: h.options.Version, Time: time.Now(), Status: h.engine.Status(),
		Writes:   writesBody{Points: h.metrics.points.Load(), TextBytes: h.metrics.text.Load()},
		InFlight: inFlightBody{Bytes: h.budget.usedBytes.Load(), MaxBytes: h.budget.limitBytes},
	})
}

// seal seals every memtable, past the gate. It answers 202 while the flushes go on, 200 after they have ended.
func (h *Handler) seal(_ http.ResponseWriter, r *http.Request) (reply, error) {
	wait, err := parseFlag(r.URL.Query(), "wait", false)
	if err != nil {
		return reply{}, err
	}
	fence, err := h.engine.ForceSeal(r.Context())
	if err != nil {
		// When the engine takes no writes either, the client learns the cause and when to come back.
		return reply{}, errors.Join(fmt.Errorf("force a seal: %w", err), h.engine.Unavailable())
	}
	body := sealBody{Flushes: fence.Outstanding()}
	if !wait {
		return jsonReply(http.StatusAccepted, body)
	}
	if err = fence.Wait(r.Context()); err != nil {
		return reply{}, fmt.Errorf("wait for the flushes of a forced seal: %w", err)
	}
	body.Done = true
	return jsonReply(http.StatusOK, body)
}

// sealBody tells how many flushes a forced seal found or caused, and whether they have ended.
type sealBody struct {
	Flushes int  `json:"flushes"`
	Done    bool `json:"done"`
}

// compactionBodyBytesMax is plenty for two keys.
const compactionBodyBytesMax = 4 << 10

// compactionBody is what an operator may change of compaction while it runs.
type compactionBody struct {
	MaxBytesPerSecond *int64 `json:"max_bytes_per_second"`
	Paused            *bool  `json:"paused"`
}

// compaction changes the keys that are given and answers with both.
func (h *Handler) compaction(_ http.ResponseWriter, r *http.Request) (reply, error) {
	body, err := parseCompaction(r.Body)
	if err != nil {
		return reply{}, err
	}
	if err = h.engine.SetCompaction(body.MaxBytesPerSecond, body.Paused); err != nil {
		return reply{}, fmt.Errorf("change compaction: %w", err)
	}
	drain := h.engine.Status().Drain
	return jsonReply(http.StatusOK, compactionBody{&drain.MaxBytesPerSecond, &drain.Paused})
}

// parseCompaction reads one JSON object. A key that is unknown or misspelt is an error: it would change nothing.
func parseCompaction(source io.Reader) (compactionBody, error) {
	var body compactionBody
	decoder := json.NewDecoder(io.LimitReader(source, compactionBodyBytesMax))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); errors.Is(err, os.ErrDeadlineExceeded) {
		return body, errBodyStalled
	} else if err != nil {
		return body, badRequest(`the body must be {"max_bytes_per_second":N,"paused":true|false} or a part of it: %s`,
			sanitize(err.Error(), quoteBytesMax))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return body, badRequest("the body goes on after its object")
	}
	if body.MaxBytesPerSecond != nil && *body.MaxBytesPerSecond < 0 {
		return body, badRequest("max_bytes_per_second is %d, must be 0 (no limit) or more", *body.MaxBytesPerSecond)
	}
	return body, nil
}
