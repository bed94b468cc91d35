package load

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestValidateNamesEveryProblem(t *testing.T) {
	o := Options{
		Target:   Target{URL: "localhost:8086", API: "v4", Source: netip.MustParseAddr("10.0.0.1")},
		Workload: Workload{Shape: "cube", Interval: -1, Start: time.Unix(0, 0)},
		Pace:     Pace{Rate: -1, Points: -1},
		Refusals: Refusals{Policy: "sulk"},
	}
	err := o.Validate()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, part := range []string{
		"the URL is", "the API is", "no name", "the timeout", "the source address", "the shape", "the number of series",
		"a batch has", "the interval", "the start is", "writers", "the rate", "the number of points", "the run lasts",
		"the policy", "the retry delay", "buffer", "the memory", "the unit of the file",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("nothing says %q in:\n%v", part, err)
		}
	}
	o = DefaultOptions()
	if err := o.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Options)
		want bool
	}{
		{"writers", func(o *Options) { o.Pace.Writers = WritersMax }, true},
		{"writers + 1", func(o *Options) { o.Pace.Writers = WritersMax + 1 }, false},
		{"batch", func(o *Options) { o.Workload.Batch = BatchMax }, true},
		{"batch + 1", func(o *Options) { o.Workload.Batch = BatchMax + 1 }, false},
		{"series", func(o *Options) { o.Workload.Series = SeriesMax }, true},
		{"series + 1", func(o *Options) { o.Workload.Series = SeriesMax + 1 }, false},
		{"rate", func(o *Options) { o.Pace.Rate = RateMax }, true},
		{"more rate", func(o *Options) { o.Pace.Rate = math.Nextafter(RateMax, math.Inf(1)) }, false},
		{"duration", func(o *Options) { o.Pace.Duration = DurationMax }, true},
		{"duration + 1", func(o *Options) { o.Pace.Duration = DurationMax + 1 }, false},
		{"memory", func(o *Options) { o.MemoryBytes = MemoryBytesMin }, true},
		{"memory - 1", func(o *Options) { o.MemoryBytes = MemoryBytesMin - 1 }, false},
		{"profile without rate", func(o *Options) { o.Pace.Profile = Profile{{1, time.Second}} }, false},
		{"profile", func(o *Options) { o.Pace.Profile, o.Pace.Rate = Profile{{1, time.Second}}, 1 }, true},
		{"credentials", func(o *Options) { o.Target.URL = "http://a:b@127.0.0.1" }, false},
		{"loopback", func(o *Options) { o.Target.URL = "http://[::1]:1" }, true},
		{"one source of none", func(o *Options) { o.Target.OneSource = true }, false},
		{"sources", func(o *Options) { o.Target.Source = netip.MustParseAddr("127.255.255.251") }, true},
		{"sources + 1", func(o *Options) { o.Target.Source = netip.MustParseAddr("127.255.255.252") }, false},
	} {
		o := DefaultOptions()
		test.set(&o)
		if err := o.Validate(); (err == nil) != test.want {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

func TestRemoteTargetsAreRefused(t *testing.T) {
	o := smallOptions("http://192.0.2.1:8086")
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrRemote) {
		t.Errorf("an address: got %v, want %v", err, ErrRemote)
	}
	o.Target.AllowRemote = true
	if err := o.Validate(); err != nil {
		t.Errorf("an address that is allowed: %v", err)
	}
	// A name is judged where it leads to, at the last moment before the connection.
	target := Target{URL: "http://example.invalid", Timeout: time.Second}
	if err := target.control("tcp4", "192.0.2.1:8086", nil); !errors.Is(err, ErrRemote) {
		t.Errorf("a name: got %v, want %v", err, ErrRemote)
	}
	if err := target.control("tcp6", "[::ffff:127.0.0.1]:8086", nil); err != nil {
		t.Errorf("a name of this machine: %v", err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	if _, err := Run(t.Context(), smallOptions("http://127.0.0.1:1")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want %v", err, ErrUnreachable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, smallOptions("http://127.0.0.1:1")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want %v", err, ErrUnreachable)
	}
}

func TestWriteURL(t *testing.T) {
	for _, test := range []struct {
		url  string
		api  API
		want string
	}{
		{"http://h:1", APIV1, "http://h:1/write?db=a+b"},
		{"http://h:1/", APIV2, "http://h:1/api/v2/write?bucket=a+b&org=o&precision=ns"},
		{"http://h:1", APIV3, "http://h:1/api/v3/write_lp?db=a+b&precision=nanosecond"},
		{"http://h:1/insert/0/influx?x=y", APIV3, "http://h:1/insert/0/influx?x=y"},
	} {
		target := Target{URL: test.url, API: test.api, Database: "a b", Org: "o"}
		if got := target.writeURL(); got != test.want {
			t.Errorf("%s %s: got %s, want %s", test.url, test.api, got, test.want)
		}
	}
}

func TestDatabaseOfAWholeURL(t *testing.T) {
	for address, want := range map[string]string{
		"http://h:1": "d", "http://h:1/write": "d", "http://h:1/write?db=x&rp=y": "x/y", "http://h:1/w?bucket=b": "b",
	} {
		target := Target{URL: address, API: APIV1, Database: "d"}
		if got := target.database(); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

func TestHeader(t *testing.T) {
	for api, want := range map[API]string{APIV1: "Token secret", APIV2: "Token secret", APIV3: "Bearer secret"} {
		target := Target{API: api, Token: "secret", Gzip: true}
		header := target.header()
		got := [2]string{header.Get("Authorization"), header.Get("Content-Encoding")}
		if diff := cmp.Diff([2]string{want, "gzip"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", api, diff)
		}
	}
}

func TestSourcesCountUp(t *testing.T) {
	target := Target{Source: netip.MustParseAddr("127.0.0.254")}
	if got, want := target.sourceOf(3).String(), "127.0.1.1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	target.OneSource = true
	if got := target.sourceOf(3); got != target.Source {
		t.Errorf("got %s, want %s for all", got, target.Source)
	}
}
