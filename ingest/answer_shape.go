package ingest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"lineweir/internal/auth"
)

// shape is the form in which an API tells errors.
type shape uint8

const (
	shapeV1 shape = iota // also of everything that is no write API
	shapeV2
	shapeV3
)

// Bounds of what an answer repeats of a request.
const (
	quoteBytesMax       = 128
	errorHeaderBytesMax = 1024
)

// errorBodyV1 is the error of InfluxDB 1, with what a machine may want to know of a refusal.
type errorBodyV1 struct {
	Error      string `json:"error"`
	Cause      string `json:"cause,omitempty"`
	RetryAfter int    `json:"retry_after_seconds,omitempty"`
}

// errorBodyV2 is the error of InfluxDB 2. Clients drop the text when a type is not theirs: line is a number.
type errorBodyV2 struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	Line       int    `json:"line,omitempty"`
	Cause      string `json:"cause,omitempty"`
	RetryAfter int    `json:"retry_after_seconds,omitempty"`
}

// errorBodyV3 is the error of InfluxDB 3.
type errorBodyV3 struct {
	Error      string     `json:"error"`
	Data       []lineInV3 `json:"data,omitempty"`
	Cause      string     `json:"cause,omitempty"`
	RetryAfter int        `json:"retry_after_seconds,omitempty"`
}

// lineInV3 is one refused line.
type lineInV3 struct {
	OriginalLine string `json:"original_line"`
	LineNumber   int    `json:"line_number"`
	ErrorMessage string `json:"error_message"`
}

// answer forms the reply to a failure in the shape of an API.
func (s shape) answer(f failure) reply {
	if s != shapeV1 && f.internal {
		// Clients of these APIs come back to a 500 without a pause, and to a 503 after one.
		f.status, f.retryAfter = http.StatusServiceUnavailable, time.Second
	}
	if f.status == http.StatusServiceUnavailable {
		f.retryAfter = max(f.retryAfter, time.Second)
		f.cause = cmp.Or(f.cause, f.reason)
	}
	header := http.Header{}
	seconds := setRetryAfter(header, f.retryAfter)
	if f.closes {
		header.Set("Connection", "close")
	}
	if f.allow != "" {
		header.Set("Allow", f.allow)
	}
	if f.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Basic realm="lineweir"`) // so browsers ask for a token
	}
	message := auth.Redact(s.message(f))
	if s == shapeV1 {
		header.Set("X-Influxdb-Error", headerText(message))
	}
	body, err := encodeJSON(s.body(f, message, seconds))
	if err != nil {
		panic("BUG: an error can't be encoded: " + err.Error())
	}
	return reply{status: f.status, header: header, body: body}
}

func (s shape) body(f failure, message string, retrySeconds int) any {
	switch s {
	case shapeV2:
		body := errorBodyV2{Code: codeV2(f.status), Message: message, Cause: f.cause, RetryAfter: retrySeconds}
		if f.lines != nil && len(f.lines.errors) > 0 {
			body.Line = f.lines.errors[0].Line
		}
		return body
	case shapeV3:
		body := errorBodyV3{Error: message, Cause: f.cause, RetryAfter: retrySeconds}
		if f.lines != nil {
			for _, line := range f.lines.errors {
				body.Data = append(body.Data, lineInV3{
					auth.Redact(defuse(line.Text)), line.Line, auth.Redact(defuse(line.Reason)),
				})
			}
		}
		return body
	default:
		return errorBodyV1{Error: message, Cause: f.cause, RetryAfter: retrySeconds}
	}
}

// codeV2 is the word of InfluxDB 2 for a status.
func codeV2(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "not found"
	case http.StatusMethodNotAllowed:
		return "method not allowed"
	case http.StatusRequestEntityTooLarge:
		return "request too large"
	case http.StatusServiceUnavailable:
		return "unavailable"
	default:
		return "internal error"
	}
}

// message is the text of a failure. Clients act on some texts, so they stand where they should and nowhere else.
func (s shape) message(f failure) string {
	if s == shapeV1 && f.lines != nil {
		return linesV1(f.lines)
	}
	if s == shapeV1 && f.line {
		return partialWrite + defuse(f.message) + "; dropped=1"
	}
	message := f.message
	if f.lines != nil {
		message = s.lines(f.lines)
	}
	if s != shapeV1 || f.status >= http.StatusInternalServerError {
		message = defuse(message)
	}
	return message
}

// partialWrite begins what version 1 says of bad lines: Telegraf, of any age, drops a batch that is answered so.
const partialWrite = "partial write: "

// linesV1 tells of refused lines as InfluxDB 1 does. Telegraf's v1 output drops the batch for this text, which is
// right: the good lines are stored.
func linesV1(e *linesError) string {
	var b strings.Builder
	b.WriteString(partialWrite)
	for _, line := range e.errors {
		fmt.Fprintf(&b, "unable to parse '%s': line %d: %s; ", defuse(line.Text), line.Line, defuse(line.Reason))
	}
	writeRest(&b, e)
	fmt.Fprintf(&b, "dropped=%d", e.refused)
	return b.String()
}

// lines tells of refused lines without the words that make influxdb-client-go take a refusal for a success. By those
// that version 3 has for it, influxdb3-go knows that there is a list of lines beside the text.
func (s shape) lines(e *linesError) string {
	var b strings.Builder
	if s == shapeV3 {
		b.WriteString("line protocol parsing error: ")
	}
	b.WriteString(e.Error())
	if e.stored {
		b.WriteString(", the others are stored; ")
	} else {
		b.WriteString(", nothing is stored; ")
	}
	if s == shapeV2 { // version 3 lists them beside the text
		for _, line := range e.errors {
			fmt.Fprintf(&b, "line %d: %s; ", line.Line, line.Reason)
		}
		writeRest(&b, e)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func writeRest(b *strings.Builder, e *linesError) {
	if rest := e.refused - len(e.errors); rest > 0 {
		fmt.Fprintf(b, "and %d more; ", rest)
	}
}

// defuse breaks the texts on which clients act, which can get into a message with the text of a line: Telegraf's v1
// output drops what is answered 5xx with most of them, and resends for ever what is answered with the last one, and
// influxdb-client-go takes a refusal for a success.
func defuse(message string) string { return activeTexts.Replace(message) }

var activeTexts = strings.NewReplacer(
	"partial write", "partial-write",
	"unable to parse", "unable-to-parse",
	"points beyond retention policy", "points-beyond-retention-policy",
	"hinted handoff queue not empty", "hinted-handoff-queue-not-empty",
	"retention policy not found", "retention-policy-not-found",
	"database not found", "database-not-found",
)

// headerText makes a message fit for a header: printable ASCII of bounded length.
func headerText(message string) string {
	var b strings.Builder
	for _, r := range message {
		if b.Len() == errorHeaderBytesMax {
			break
		}
		if r < ' ' || r > '~' {
			r = '?'
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}

// quote shows text of a request in a message: printable, of bounded length, and nothing that a client acts on.
func quote(text string) string { return `"` + defuse(sanitize(text, quoteBytesMax)) + `"` }
