package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScanAsksAndPrints(t *testing.T) {
	var asked url.Values
	var path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, path = r.URL.Query(), r.URL.Path
		fmt.Fprint(w, "cpu,host=a usage=1 1\n")
	}))
	defer server.Close()
	for _, test := range []struct {
		args string
		want url.Values
	}{
		{"", url.Values{"db": {"d"}, "measurement": {"cpu"}, "format": {"lp"}}},
		{
			"--start 1 --stop 2026-01-01T00:00:00Z --tag host=a,b --tag region=x=y --field u --field v --limit 5 --format csv",
			url.Values{
				"db": {"d"}, "measurement": {"cpu"}, "format": {"csv"}, "start": {"1"}, "stop": {"2026-01-01T00:00:00Z"},
				"tag": {"host=a,b", "region=x=y"}, "field": {"u", "v"}, "limit": {"5"},
			},
		},
	} {
		args := append([]string{"scan", "--url", server.URL, "--db", "d", "--measurement", "cpu"},
			strings.Fields(test.args)...)
		if diff := cmp.Diff(outcome{Stdout: "cpu,host=a usage=1 1\n"}, run(t, nil, args...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
		if diff := cmp.Diff(test.want, asked); diff != "" || path != "/api/scan" {
			t.Errorf("%s: asked %s (-want +got):\n%s", test.args, path, diff)
		}
	}
}

func TestScanPrintsTheServersError(t *testing.T) {
	for _, test := range []struct{ answer, want string }{
		{`{"error":"database not found: d"}`, "database not found: d"},
		{`{"code":"not found","message":"no such measurement"}`, "no such measurement"},
		{"gateway says no\n", "gateway says no"},
		{`{}`, "{}"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, test.answer)
		}))
		got := run(t, nil, "scan", "--url", server.URL, "--db", "d", "--measurement", "m")
		server.Close()
		want := outcome{1, "", "lineweir: scan: the server answered 404 Not Found: " + test.want + "\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.answer, diff)
		}
	}
}

// A server that fails in the middle can only cut its answer off. That must not look like the end of the data.
func TestScanNoticesACutAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "cpu usage=1 1\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	want := outcome{1, "cpu usage=1 1\n", "lineweir: scan: the answer is incomplete: unexpected EOF\n"}
	got := run(t, nil, "scan", "--url", server.URL, "--db", "d", "--measurement", "m")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestScanRefusesWhatIsNoServer(t *testing.T) {
	for _, address := range []string{"localhost:8086", "ftp://localhost", "http://", "%"} {
		want := outcome{1, "", "lineweir: scan: --url " + address + ": want a URL such as http://127.0.0.1:8086\n"}
		if diff := cmp.Diff(want, run(t, nil, "scan", "--url", address, "--db", "d", "--measurement", "m")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	in := &invocation{ctx: ctx, stdout: t.Output(), stderr: t.Output()}
	err := scanCommand{URL: server.URL, DB: "d", Measurement: "m", Format: "lp"}.Run(in)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
