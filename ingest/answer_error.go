package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lineweir/segment"
	"lineweir/shard"
)

// requestError refuses a request for what it is, not for what the server can do at the moment.
type requestError struct {
	status  int
	reason  string // counts in metrics
	message string
	closes  bool // the connection can't carry another request
	line    bool // the request is one line, which is bad
	// retryAfter is when another try has a chance; 0: at any time, if the status is 503.
	retryAfter time.Duration
}

func (e *requestError) Error() string { return e.message }

// Errors of bodies.
var (
	errBodyTooLarge = &requestError{
		status: http.StatusRequestEntityTooLarge, reason: reasonTooLarge,
		message: "the body is longer than http.max_body_bytes, or takes more memory than http.in_flight_bytes allows;" +
			" nothing of it is stored; send fewer lines at once",
	}
	errLineTooLarge = &requestError{
		status: http.StatusBadRequest, reason: reasonTooLarge, line: true,
		message: "the line can never be stored: it is longer than http.max_body_bytes, or takes more memory than" +
			" http.in_flight_bytes allows",
	}
	errFormTooLarge = &requestError{
		status: http.StatusRequestEntityTooLarge, reason: reasonTooLarge,
		message: fmt.Sprintf("the form is longer than %d bytes", queryBodyBytesMax),
	}
	errBodyTruncated = &requestError{
		status: http.StatusBadRequest, reason: reasonTruncated, closes: true,
		message: "the body ended early; nothing of it is stored",
	}
	errBodyStalled = &requestError{
		status: http.StatusServiceUnavailable, reason: reasonStalled, closes: true,
		message: "the body came too slowly; nothing of it is stored",
	}
)

// Errors of writing.
var errSchemaUnsettled = &requestError{
	status: http.StatusServiceUnavailable, reason: reasonSchema,
	message: "other writes keep changing the schema; nothing of this one is stored",
}

// badRequest refuses a request that is wrong whenever it is sent.
func badRequest(format string, arguments ...any) *requestError {
	return &requestError{
		status: http.StatusBadRequest, reason: reasonRequest, message: fmt.Sprintf(format, arguments...),
	}
}

// panicError is a panic that was recovered.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// linesError tells of the lines of a body that were refused.
type linesError struct {
	refused int
	errors  []LineError // of the first ones
	good    int         // other lines
	stored  bool        // the good ones are
}

func (e *linesError) Error() string {
	return fmt.Sprintf("%d of %d lines refused", e.refused, e.refused+e.good)
}

// failure is an error as HTTP sees it. It is the same for all APIs; the shape of the answer is theirs.
type failure struct {
	status     int
	reason     string // counts in metrics
	message    string
	cause      string // of backpressure
	retryAfter time.Duration
	closes     bool
	line       bool   // the request is one line, which is bad
	allow      string // methods of the path
	lines      *linesError
	internal   bool // worth a log entry
}

// describe maps errors to HTTP. Nothing else chooses the status of an error.
func describe(err error) failure {
	var (
		backpressure *shard.BackpressureError
		tooLarge     *shard.TooLargeError
		refused      *requestError
		method       *methodError
		lines        *linesError
		damage       *segment.CorruptionError
		reads        *shard.ReadLimitError
		other        interface{ StatusCode() int }
	)
	switch {
	case errors.As(err, &backpressure):
		return failure{
			status: http.StatusServiceUnavailable, reason: backpressure.Cause, cause: backpressure.Cause,
			message: "refused for now: " + backpressure.Detail, retryAfter: backpressure.RetryAfter,
		}
	case errors.As(err, &lines):
		return failure{status: http.StatusBadRequest, reason: reasonLines, lines: lines}
	case errors.As(err, &refused):
		return failure{
			status: refused.status, reason: refused.reason, message: refused.message, closes: refused.closes,
			retryAfter: refused.retryAfter, line: refused.line,
		}
	case errors.As(err, &tooLarge):
		return describeTooLarge(tooLarge)
	case errors.Is(err, ErrTooManyLines):
		return describeTooMany(ErrTooManyLines, reasonTooManyLines)
	case errors.Is(err, ErrTooManyPoints):
		return describeTooMany(ErrTooManyPoints, reasonTooManyPoints)
	case errors.As(err, &method):
		return failure{
			status: http.StatusMethodNotAllowed, reason: reasonRequest, message: err.Error(), allow: method.allow,
		}
	case errors.As(err, &reads):
		return describeReadLimit(reads)
	case errors.As(err, &other):
		return failure{status: other.StatusCode(), reason: reasonRequest, message: err.Error()}
	case errors.Is(err, shard.ErrDatabaseNotFound), errors.Is(err, shard.ErrMeasurementNotFound):
		return failure{status: http.StatusNotFound, reason: reasonRequest, message: err.Error()}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return failure{
			status: http.StatusServiceUnavailable, reason: reasonGone, closes: true,
			message: "the client left before the request was done; nothing of it is stored",
		}
	case errors.As(err, &damage):
		return failure{
			status: http.StatusInternalServerError, reason: reasonInternal, message: err.Error(), internal: true,
		}
	default:
		return failure{
			status: http.StatusInternalServerError, reason: reasonInternal, internal: true,
			message: "internal error; the log tells more under this answer's Request-Id",
		}
	}
}

// describeReadLimit tells a client to come back, or to ask for less if no wait would help.
func describeReadLimit(err *shard.ReadLimitError) failure {
	if err.RetryAfter == 0 {
		return failure{
			status: http.StatusBadRequest, reason: reasonRequest, message: "the answer is too large: " + err.Error(),
		}
	}
	return failure{
		status: http.StatusServiceUnavailable, reason: reasonReads, message: "refused for now: " + err.Error(),
		retryAfter: err.RetryAfter,
	}
}

// describeTooLarge tells a client that can split its batch to do so: 413. A single point can't be split, and a
// client that keeps what is answered 413 would send it for ever.
func describeTooLarge(err *shard.TooLargeError) failure {
	f := failure{
		status: http.StatusRequestEntityTooLarge, reason: reasonTooLarge,
		message: err.Error() + "; send fewer lines at once",
	}
	if err.Points == 1 {
		f.status, f.message, f.line = http.StatusBadRequest, "the line can never be stored: "+err.Error(), true
	}
	return f
}

// describeTooMany tells a client to split a body that has more lines or points than allowed.
func describeTooMany(err error, reason string) failure {
	return failure{
		status: http.StatusRequestEntityTooLarge, reason: reason,
		message: err.Error() + "; nothing of it is stored; send fewer lines at once",
	}
}

// isBackpressure reports whether an error is one that goes away.
func isBackpressure(err error) bool {
	var backpressure *shard.BackpressureError
	return errors.As(err, &backpressure)
}
