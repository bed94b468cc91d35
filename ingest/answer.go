package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// reply is what an endpoint wants to answer. The zero reply means that the endpoint has streamed its answer.
type reply struct {
	status int
	header http.Header // beyond the usual
	body   []byte      // JSON, unless header says otherwise
	// release, if there is one, is called when the client has the answer, or is not waited for any longer.
	release func()
}

// noContent answers a write whose every line is durable: exactly 204 and no body, which all clients take.
func noContent() reply { return reply{status: http.StatusNoContent} }

// jsonReply answers with a value.
func jsonReply(status int, value any) (reply, error) {
	body, err := encodeJSON(value)
	if err != nil {
		return reply{}, fmt.Errorf("encode answer: %w", err)
	}
	return reply{status: status, body: body}, nil
}

// encodeJSON encodes without the escapes that only HTML needs, and with one for DEL, which JSON does not need either.
func encodeJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	if bytes.IndexByte(out.Bytes(), 0x7f) >= 0 {
		return bytes.ReplaceAll(out.Bytes(), []byte{0x7f}, []byte(`\u007f`)), nil
	}
	return out.Bytes(), nil
}

// answerTimeout is how long a client may take to take its answer. Scans, which are longer, have a timeout of their own.
const answerTimeout = 30 * time.Second

// hurryAnswer bounds how long a client that does not read can hold its connection; if the deadline can't be set, the
// operating system's patience is the bound.
func hurryAnswer(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
}

// send writes an answer. Nothing else writes a status.
func send(w http.ResponseWriter, answer reply) {
	if answer.status == 0 {
		return
	}
	hurryAnswer(w)
	header := w.Header()
	if len(answer.body) > 0 {
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", strconv.Itoa(len(answer.body)))
	}
	for name, values := range answer.header {
		header[name] = values
	}
	w.WriteHeader(answer.status)
	// A client that has left is no error of ours, and there is nobody to tell.
	_, _ = w.Write(answer.body)
}

// setRetryAfter tells when to come back, as every client reads it: digits only, at least 1. It returns the seconds, or
// 0 if there is nothing to tell.
func setRetryAfter(header http.Header, d time.Duration) int {
	if d <= 0 {
		return 0
	}
	seconds := int(math.Ceil(d.Seconds()))
	header.Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}
