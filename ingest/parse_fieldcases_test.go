package ingest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseOfFieldCases holds what went wrong in the field, as far as it is a matter of parsing. Each case is named after the
// issue in which it was reported.
func TestParseOfFieldCases(t *testing.T) {
	const t0 = " 1700000000123456789" // testDefaultTime
	ns := PrecisionNanosecond
	tests := []struct {
		name      string
		precision Precision
		body      string
		lines     []string
		reasons   []string
	}{
		{"greptimedb 3739: seconds that are nanoseconds", PrecisionSecond,
			"census,location=klamath bees=23 1566086400000000000\ncensus bees=1 1566086400",
			[]string{"census bees=1 1566086400000000000"}, []string{"time outside range"}},
		{"telegraf 11771: minutes", PrecisionMinute, "cpu v=1 28333333", []string{"cpu v=1 1699999980000000000"}, nil},
		{"telegraf 11771: hours", PrecisionHour, "cpu v=1 472222", []string{"cpu v=1 1699999200000000000"}, nil},
		{"telegraf 3754: default time in the precision", PrecisionMillisecond, "cpu value=42\ncpu value=43",
			[]string{"cpu value=42 1700000000123000000", "cpu value=43 1700000000123000000"}, nil},
		{"telegraf 3754: default time in hours", PrecisionHour, "cpu value=42",
			[]string{"cpu value=42 1699999200000000000"}, nil},
		{"influxdb-java 626: ends of int64", ns,
			"m1 a=1.2 9223372036854775807\nm1 a=1.2 9223372036854775806\nm1 a=1.2 9223372036854775808\n" +
				"m1 a=1.2 -9223372036854775807\nm1 a=1.2 -9223372036854775806",
			[]string{"m1 a=1.2 9223372036854775806", "m1 a=1.2 -9223372036854775806"},
			[]string{"time outside range", "time outside range", "time outside range"}},
		{"influxdb 9203: CRLF", ns, "yla1,host=server01 httpsRequests=100i\r\nyla1,host=server01 bodySize=7528i\r\n",
			nil, []string{`carriage return, \r`, `carriage return, \r`}},
		{"influxdb 5407: Windows path in a tag", ns, "Disk,check=C:\\,host=web01 value=52.45\ncpu v=1",
			[]string{"cpu v=1" + t0}, []string{"expected tag key"}},
		{"influxdb 10087: text behind a string", ns, "m f=\"blah\"=123,r 1531703600000000000",
			nil, []string{"unexpected character '='"}},
		{"influxdb-java 578: line break in a tag", ns, "ok v=1\ncpu,tag=foo\nbar count=1",
			[]string{"ok v=1" + t0, "bar count=1" + t0}, []string{"missing fields"}},
		{"VictoriaMetrics 10049: space at the end", ns, "foo,tag1=xyz field1=1.23 \nfoo field1=2",
			[]string{"foo,tag1=xyz field1=1.23" + t0, "foo field1=2" + t0}, nil},
		{"influxdb_iox 4398: duplicates", ns, "t A=1,A=1\nt A=1,A=2\nt A=1,A=1i\nt,x=1,x=2 A=1\nt,A=1 A=1",
			[]string{"t A=1" + t0, "t A=2" + t0},
			[]string{"field type conflict", "duplicate tag", "has the key of a field"}},
		{"influxdb 23024: field called time", ns, "weather,location=ca time=82\nweather,location=ca time=82,temperature=82",
			nil, []string{"a field can't be called time", "a field can't be called time"}},
		{"metrics-influxdb 47: NaN and infinity", PrecisionMillisecond,
			"cpu mean=1 1464880881814\ncpu mean=NaN 1464880881814\ncpu mean=-Inf\ncpu mean=1e400\ncpu mean=2 1464880881815",
			[]string{"cpu mean=1 1464880881814000000", "cpu mean=2 1464880881815000000"},
			[]string{"unrecognized type", "invalid", "out of range"}},
		{"influxdb 7454: tag and field of one name", ns, "cpu,host=a host=\"b\",v=1", nil, []string{"has the key of a tag"}},
		{"influxdb 9102: quotes in strings", ns, "foo value=\"a \"b\" c\"\nfoo value=\"abc\"x 1\nfoo v=1",
			[]string{"foo v=1" + t0}, []string{"unexpected character 'b'", "unexpected character 'x'"}},
		{"influxdb 11621: nonsense", ns, "****8&^@", nil, []string{"missing fields"}},
		{"VictoriaMetrics 127: comments", ns, "# ERROR: NaN value\ncpu v=1\n  # indented\n#\ttab\n",
			[]string{"cpu v=1" + t0}, nil},
		{"influxdb 7815: type conflict within a body", ns, "test value=1\ntest2 value=1\ntest3 value=1\ntest value=1i",
			[]string{"test value=1" + t0, "test2 value=1" + t0, "test3 value=1" + t0}, []string{"field type conflict"}},
		{"telegraf 18228: lone backslash", ns, "\\", nil, []string{"missing fields"}},
		{"telegraf: measurement that ends in a backslash", ns, "a\\", nil, []string{"missing fields"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _ := parseWith(t, DefaultLineLimits(), test.precision, test.body)
			if diff := cmp.Diff(test.lines, got.Lines); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
			if len(got.Errors) != len(test.reasons) {
				t.Fatalf("got errors %v, want %q", got.Errors, test.reasons)
			}
			for i, want := range test.reasons {
				if !strings.Contains(got.Errors[i].Reason, want) {
					t.Errorf("error %d: got %q, want %q", i, got.Errors[i].Reason, want)
				}
			}
		})
	}
}

// TestRefusedLinesLeaveNoColumns checks that what only a refused line has does not bind the lines behind it.
func TestRefusedLinesLeaveNoColumns(t *testing.T) {
	got := parseBody(t, "m v=1i,w=1,w=\"x\"\nm,w=a v=1 1\nm,v=a w=1 2\n")
	if diff := cmp.Diff([]string{"m,w=a v=1 1"}, got.Lines); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

// TestTextInsideOfStringsIsNoPoint smuggles a line in a string of a line that is bad in many ways.
func TestTextInsideOfStringsIsNoPoint(t *testing.T) {
	const smuggled = "cpu usage=100 5"
	bad := []string{
		"m v=bad,f=\"x\n%s\n\"", "m f=\"x\n%s\n\",v=bad", "m f=\"x\n%s\n\"x", "m f=\"x\n%s\n\" 1 2",
		"m f=\"x\n%s\n\" 99999999999999999999", "m f=\"x\n%s\n\",", "m f=\"x\n%s\n", "m,a= f=\"x\n%s\n\"",
		",a=b f=\"x\n%s\n\"", "m,a f=\"x\n%s\n\"", "m,time=1 f=\"x\n%s\n\"", "m time=1,f=\"x\n%s\n\"",
		"m f=\"x\n%s\n\",time=1", "m v=1_0,f=\"x\n%s\n\"", "m v=1e999,f=\"x\n%s\n\"", "m,a=b,a=c f=\"x\n%s\n\"",
		"m,a=b a=1,f=\"x\n%s\n\"", "m v=1,v=1i,f=\"x\n%s\n\"", "m f=\"\xff\n%s\n\"", "m,a=\x01,b f=\"x\n%s\n\"",
		"m\x01\\\n f=bad,g=\"x\n%s\n\"", "m a\x7f=\"x\n%s\n\",b", "m\x00 f=\"x\n%s\n\"",
		"m f=\"a\",g=x,h=\"\n%s\n\"", "m f=\"\\\"\n%s\n\",g=x", "m f=\"\\\\\\\"\n%s\n\",g=x",
		"m f=\"x\r\n%s\r\n\",g=x", "\x00m f=\"x\n%s\n\"", "m\tx f=\"x\n%s\n\"",
		"m f=" + strings.Repeat("9", 400) + ",g=\"x\n%s\n\"",
		"m " + strings.Repeat("k", 70_000) + "=1,g=\"x\n%s\n\"",
	}
	for _, line := range bad {
		body := "first v=1 1\n" + strings.Replace(line, "%s", smuggled, 1) + "\n"
		got := parseBody(t, body)
		if diff := cmp.Diff([]string{"first v=1 1"}, got.Lines); diff != "" || len(got.Errors) != 1 {
			t.Errorf("%.40q: errors %v, points (-want +got):\n%s", line, got.Errors, diff)
		}
		if strings.Count(line, "\"")%2 != 0 && !strings.Contains(line, "\\\"") {
			continue // the string takes all the text that follows
		}
		got = parseBody(t, body+"last v=1 2\n")
		if diff := cmp.Diff([]string{"first v=1 1", "last v=1 2"}, got.Lines); diff != "" {
			t.Errorf("%.40q: points (-want +got):\n%s", line, diff)
		}
	}
}

// TestCutBodiesStayBodies cuts a body at every byte: what remains are whole points of it, at most the last one is
// another.
func TestCutBodiesStayBodies(t *testing.T) {
	body := string(telegrafBody(12)) + "m,a\\ b=c\\,d s=\"x\\\"\ny\",t=\"\\\\\",u=1u,v=true 17\r\n"
	whole := parseBody(t, body).Lines
	for cut := range len(body) {
		got := parseBody(t, body[:cut])
		kept := got.Lines[:max(len(got.Lines)-1, 0)]
		if !slices.Equal(whole[:len(kept)], kept) || len(got.Errors) > 1 {
			t.Fatalf("cut at %d: errors %v, points %q", cut, got.Errors, got.Lines)
		}
	}
}
