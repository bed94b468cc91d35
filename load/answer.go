package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// outcome is what an answer means for the batch.
type outcome uint8

const (
	acknowledged outcome = iota // all of it is stored, as the server says
	refused                     // nothing is stored, and it may come back
	rejected                    // it is wrong whenever it is sent
	unknown                     // it may be stored or not, and may come back
)

// answer is what became of one attempt.
type answer struct {
	outcome    outcome
	status     int // 0: no answer came
	cause      string
	retryAfter time.Duration
	told       bool // Retry-After was sent
}

// causeOutcomeUnknown is the cause with which lineweir says that it doesn't know whether the batch is stored.
const causeOutcomeUnknown = "outcome_unknown"

// answerBytesMax bounds what is read of an answer.
const answerBytesMax = 64 << 10

// newAnswer reads a response to its end.
func newAnswer(response *http.Response, now time.Time) answer {
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return failed(err)
	}
	a := answer{status: response.StatusCode, cause: causeOf(text)}
	a.retryAfter, a.told = retryAfter(response.Header.Get("Retry-After"), now)
	switch {
	case a.status >= 200 && a.status < 300:
		a.outcome, a.cause = acknowledged, ""
	case a.cause == causeOutcomeUnknown:
		a.outcome = unknown
	case a.status == http.StatusServiceUnavailable, a.status == http.StatusTooManyRequests:
		a.outcome = refused
	case a.status >= 500:
		a.outcome = unknown
	default:
		a.outcome = rejected
	}
	return a
}

// failed is the answer that never came.
func failed(err error) answer {
	a := answer{outcome: unknown}
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		a.cause = "cut off at the end of the run"
	case errors.As(err, &timeout) && timeout.Timeout():
		a.cause = "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		a.cause = "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		a.cause = "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		a.cause = "connection closed"
	default:
		a.cause = shorten(err.Error())
	}
	return a
}

// retryAfterMax is the longest wait that is told apart from longer ones: no run lasts longer.
const retryAfterMax = DurationMax

// retryAfter reads the header: seconds, or a date.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(retryAfterMax/time.Second))) * time.Second, true
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(0, date.Sub(now)), retryAfterMax), true
}

// causeOf finds why a batch was refused: lineweir's cause, or the first words of another server's error.
func causeOf(text []byte) string {
	var told struct{ Cause, Error, Message string }
	if json.Unmarshal(text, &told) != nil {
		return shorten(string(text))
	}
	return cmp.Or(shorten(told.Cause), shorten(told.Error), shorten(told.Message))
}

// printable has blanks for what a terminal would obey instead of showing it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// shorten keeps the first words of a text. What comes after a number or a quote differs from one answer to the next,
// and answers are counted by these words.
func shorten(text string) string {
	const wordsMax, bytesMax = 8, 60
	var short strings.Builder
	for i, word := range strings.Fields(printable(text)) {
		if i == wordsMax || short.Len()+len(word) > bytesMax || strings.ContainsAny(word[:1], "0123456789'\"`") {
			break
		}
		short.WriteString(word + " ")
	}
	return strings.TrimRight(strings.ToValidUTF8(short.String(), ""), " :,;([{")
}
