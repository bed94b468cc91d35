package ingest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lineweir/segment"
	"lineweir/shard"
)

// statusError is an error of another package that knows its status.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("parameter wants %d", int(e)) }

func (e statusError) StatusCode() int { return int(e) }

// scanErrors are what a scan may return.
func scanErrors() []struct {
	err    error
	status int
	want   string
} {
	damage := &segment.CorruptionError{Path: "l0/7.parquet", Offset: 9, Reason: "bad page"}
	return []struct {
		err    error
		status int
		want   string
	}{
		{fmt.Errorf("scan: %w", statusError(http.StatusBadRequest)), 400, "parameter wants"},
		{fmt.Errorf("scan d: %w", shard.ErrDatabaseNotFound), 404, "database not found"},
		{fmt.Errorf("scan d: %w", shard.ErrMeasurementNotFound), 404, "measurement not found"},
		{fmt.Errorf("scan d: %w", damage), 500, "l0/7.parquet"},
		{fmt.Errorf("scan d: %w", busy(shard.CauseRecovering)), 503, "refused for now"},
		{errors.New("secret"), 500, "internal error"},
	}
}

// activeText lists what makes a client act on the text of an error.
var activeText = []string{
	"partial write", "unable to parse", "points beyond retention policy", "hinted handoff queue not empty",
	"retention policy not found",
}

func TestNoAnswerHoldsAnActiveTextWhereItWouldHarm(t *testing.T) {
	text := strings.Join(activeText, " and ")
	for _, s := range []shape{shapeV1, shapeV2, shapeV3} {
		for _, f := range []failure{
			{status: 503, message: text, cause: "l0_full"},
			{status: 500, message: text, internal: true},
			{status: 400, message: text},
			{status: 400, lines: &linesError{refused: 1, errors: []LineError{{Line: 1, Reason: text, Text: text}}}},
		} {
			answer := s.answer(f)
			if s == shapeV1 && answer.status < 500 {
				continue // Telegraf drops what is answered 4xx anyway
			}
			for _, active := range activeText {
				if strings.Contains(string(answer.body), active) {
					t.Errorf("shape %d, status %d: %s holds %q", s, answer.status, answer.body, active)
				}
			}
		}
	}
}

func TestRetryAfterIsAWholeNumberOfSeconds(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{
		{0, "1"}, {time.Millisecond, "1"}, {time.Second, "1"}, {1001 * time.Millisecond, "2"}, {time.Minute, "60"},
	} {
		answer := shapeV2.answer(failure{status: http.StatusServiceUnavailable, retryAfter: tc.after})
		if got := answer.header.Get("Retry-After"); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.after, got, tc.want)
		}
	}
}

func TestHeaderTextIsPrintableASCII(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                   "plain",
		"a\r\nSet-Cookie: b\x00é": "a??Set-Cookie: b??",
		strings.Repeat("x", 2000): strings.Repeat("x", errorHeaderBytesMax),
	} {
		if got := headerText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
