package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		status       int
		after, body  string
		want         answer
		comesBack    bool
		afterAtLeast time.Duration
	}{
		{status: 204, want: answer{outcome: acknowledged}},
		{status: 200, body: "whatever", want: answer{outcome: acknowledged}},
		{
			status: 503, after: "7", body: `{"error":"x","cause":"l0_full"}`,
			want:      answer{outcome: refused, cause: "l0_full", retryAfter: 7 * time.Second, told: true},
			comesBack: true, afterAtLeast: 7 * time.Second,
		},
		{
			status: 429, after: "0", body: `{"message":"too many requests: 17 per second"}`,
			want:      answer{outcome: refused, cause: "too many requests", told: true},
			comesBack: true, afterAtLeast: time.Millisecond,
		},
		{
			status: 503, body: `{"error":"x","cause":"outcome_unknown"}`,
			want: answer{outcome: unknown, cause: "outcome_unknown"}, comesBack: true, afterAtLeast: time.Minute,
		},
		{
			status: 500, after: "soon", body: "timeout\n'm' 1", want: answer{outcome: unknown, cause: "timeout"},
			comesBack: true, afterAtLeast: time.Minute,
		},
		{status: 413, body: `{}`, want: answer{outcome: rejected}},
		{ // nothing that a terminal would obey
			status: 503, after: "1", body: `{"cause":"\u001b[2Jl0_full"}`,
			want:      answer{outcome: refused, cause: "[2Jl0_full", retryAfter: time.Second, told: true},
			comesBack: true, afterAtLeast: time.Second,
		},
		{status: 307, body: ``, want: answer{outcome: rejected}},
	} {
		recorder := httptest.NewRecorder()
		if test.after != "" {
			recorder.Header().Set("Retry-After", test.after)
		}
		recorder.WriteHeader(test.status)
		_, _ = recorder.WriteString(test.body)
		got := newAnswer(recorder.Result(), time.Now())
		test.want.status = test.status
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%d %s (-want +got):\n%s", test.status, test.body, diff)
		}
		wait, again := (&Refusals{Policy: Obey, Delay: time.Minute}).comeBack(got)
		if again != test.comesBack || wait != test.afterAtLeast {
			t.Errorf("%d %s: comes back %v after %v", test.status, test.body, again, wait)
		}
		if _, again = (&Refusals{Policy: Drop}).comeBack(got); again {
			t.Errorf("%d: comes back though it was dropped", test.status)
		}
		if wait, _ = (&Refusals{Policy: Retry, Delay: time.Hour}).comeBack(got); test.comesBack && wait != time.Hour {
			t.Errorf("%d: comes back after %v, want the delay", test.status, wait)
		}
	}
}

func TestRetryAfterMayBeADate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{ // no wait is so long that it is taken for none
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Hour).Format(http.TimeFormat): 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": retryAfterMax, "86401": retryAfterMax,
		"99999999999999999999999999": retryAfterMax,
	} {
		if got, told := retryAfter(text, now); got != want || !told {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "soon"} {
		if got, told := retryAfter(text, now); told {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "cut off at the end of the run"},
		{fmt.Errorf("write: %w", context.DeadlineExceeded), "timeout"},
		{os.ErrDeadlineExceeded, "timeout"},
		{&os.SyscallError{Syscall: "connect", Err: syscall.ECONNREFUSED}, "connection refused"},
		{&os.SyscallError{Syscall: "write", Err: syscall.EPIPE}, "connection reset"},
		{io.ErrUnexpectedEOF, "connection closed"},
		{errors.New("dial tcp 127.0.0.1:1: " + strings.Repeat("x", 1000)), "dial tcp"},
	} {
		got := failed(test.err)
		if diff := cmp.Diff(answer{outcome: unknown, cause: test.want}, got, cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.err, diff)
		}
	}
}

// Answers whose texts all differ must not fill the memory.
func TestKindsOfAnswersAreBounded(t *testing.T) {
	c := newCollector(&plan{schedule: newSchedule(&Pace{Duration: time.Second})}, 1, false)
	for i := range 2 * answersMax {
		c.countAnswer(answer{status: 500, cause: fmt.Sprint("cause", i)})
	}
	if got := len(c.answers); got != answersMax+1 {
		t.Errorf("got %d kinds, want %d", got, answersMax+1)
	}
	if got := c.answers[answerKey{0, "others"}]; got != answersMax {
		t.Errorf("got %d others, want %d", got, answersMax)
	}
}
