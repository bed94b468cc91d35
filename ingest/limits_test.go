package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lineweir/shard"
)

// limitCase is one limit: a body at it, and one above.
type limitCase struct {
	name      string
	key       string // of the configuration
	change    func(*Options)
	engine    func(*shard.Options)
	max, over string
	status    int    // of the body above; 400: its neighbours stand
	text      string // of the refusal
	metric    string // what counts it; %s is the path of the API
}

func limitCases() []limitCase {
	line := func(change func(*LineLimits)) func(*Options) {
		return func(o *Options) { change(&o.Limits.Line) }
	}
	fault := func(name string) string { return fmt.Sprintf("lineweir_write_lines_refused_total{fault=%q}", name) }
	outcome := func(name string) string {
		return `lineweir_write_requests_total{api="%s",outcome="` + name + `"}`
	}
	repeat := strings.Repeat
	text := func(size int) string { return `m s="` + repeat("x", size) + `" 1` }
	body := func(size int) string { return "#" + repeat(" ", size-1-len("\nm v=1i 1")) + "\nm v=1i 1" }
	return []limitCase{
		{"bytes of a line", "limits.line_bytes", line(func(l *LineLimits) { l.LineBytesMax = 100 }), nil,
			text(100 - len(text(0))), text(101 - len(text(0))), 400, "line is longer than 100 bytes", fault("line_bytes")},
		{"bytes of a line over several lines", "limits.line_bytes", line(func(l *LineLimits) { l.LineBytesMax = 100 }), nil,
			`m s="` + repeat("\n", 92) + `" 1`, `m s="` + repeat("\n", 93) + `" 1`, 400, "line is longer than 100 bytes",
			fault("line_bytes")},
		{"tags", "limits.tags_per_line", line(func(l *LineLimits) { l.TagsMax = 3 }), nil,
			"m,a=1,b=2,c=3 v=1i 1", "m,a=1,b=2,c=3,d=4 v=1i 1", 400, "line has more than 3 tags", fault("tags")},
		{"fields", "limits.fields_per_line", line(func(l *LineLimits) { l.FieldsMax = 3 }), nil,
			"m a=1i,b=2i,c=3i 1", "m a=1i,b=2i,c=3i,c=4i 1", 400, "line has more than 3 fields", fault("fields")},
		// 1 for m, 1 + 1 around the tag, 4 + 1 for the field: 92 are left of 100.
		{"bytes of a series key", "limits.series_key_bytes",
			line(func(l *LineLimits) { l.SeriesKeyBytesMax = 100 }), nil,
			"m,k=" + repeat("x", 91) + " v=1i 1", "m,k=" + repeat("x", 92) + " v=1i 1", 400, "max key length exceeded",
			fault("key_bytes")},
		{"bytes of a field key", "limits.series_key_bytes", line(func(l *LineLimits) { l.SeriesKeyBytesMax = 100 }), nil,
			"m " + repeat("x", 95) + "=1i 1", "m " + repeat("x", 96) + "=1i 1", 400, "max key length exceeded",
			fault("key_bytes")},
		{"bytes of a string", "limits.string_bytes", line(func(l *LineLimits) { l.StringBytesMax = 20 }), nil,
			text(20), text(21), 400, "string is longer than 20 bytes", fault("string_bytes")},
		{"bytes of an escaped string", "limits.string_bytes", line(func(l *LineLimits) { l.StringBytesMax = 20 }), nil,
			text(0)[:5] + repeat(`\"`, 20) + `" 1`, text(0)[:5] + repeat(`\\`, 21) + `" 1`, 400,
			"string is longer than 20 bytes", fault("string_bytes")},
		{"columns of a measurement", "limits.columns_per_measurement", nil,
			func(o *shard.Options) { o.Limits.ColumnsPerMeasurement = 4 },
			"m,t=1 a=1i,b=2i,c=3i 1", "m,t=1 a=1i,b=2i,c=3i,d=4i 1", 400, "columns", fault("point")},
		{"measurements of a batch", "limits.measurements_per_batch", nil,
			func(o *shard.Options) { o.Limits.MeasurementsPerBatch = 3 },
			"m v=1i 1", "m v=1i 1\nn v=1i 1", 400, "measurements", fault("point")},
		{"lines", "limits.lines_per_request", line(func(l *LineLimits) { l.LinesMax = 5 }), nil,
			"# c\n\nm v=1i 1", "# c\n\n  \nm v=1i 1", 413, "the body has more lines", outcome("too_many_lines")},
		{"lines, in comments alone", "limits.lines_per_request", line(func(l *LineLimits) { l.LinesMax = 5 }), nil,
			"m v=1i 1\n#\n#", "m v=1i 1\n#\n#\n#", 413, "the body has more lines", outcome("too_many_lines")},
		{"points", "limits.points_per_request", line(func(l *LineLimits) { l.PointsMax = 4 }), nil,
			"# c\nm v=1i 1\nm v=2i 2", "# c\nm v=1i 1\nm v=2i 2\nm v=3i 3", 413,
			"the body has more points", outcome("too_many_points")},
		{"rows of a memtable", "memtable.max_rows", nil,
			func(o *shard.Options) { o.Shards, o.Memtable.MaxRows = 1, 4 },
			"m v=1i 1\nm v=2i 2", "m v=1i 1\nm v=2i 2\nm v=3i 3", 413, "rows in one memtable", outcome("too_large")},
		{"bytes of a body", "http.max_body_bytes", func(o *Options) { o.Limits.BodyBytesMax = 1000 }, nil,
			body(1000 - len(aroundLimits(""))), body(1001 - len(aroundLimits(""))), 413, "http.max_body_bytes",
			outcome("too_large")},
		{"in-flight bytes", "http.in_flight_bytes",
			func(o *Options) { o.Limits.BodyBytesMax, o.Limits.InFlightBytesMax = 50_000, 200_000 }, nil,
			"m v=1i 1", "m v=1i 1\n" + repeat("n v=1i 1\n", 5000), 413, "http.in_flight_bytes", outcome("too_large")},
	}
}

// aroundLimits puts two good lines around a body.
func aroundLimits(body string) string { return "a v=1i 1\n" + body + "\nz v=1i 1" }

// TestLimits writes at each limit and one above it, through each API, and reads back.
func TestLimits(t *testing.T) {
	for _, tc := range limitCases() {
		for _, api := range writeAPIsUnderTest {
			t.Run(tc.name+"/"+api.name, func(t *testing.T) {
				testLimit(t, &tc, api)
			})
		}
	}
}

func testLimit(t *testing.T, tc *limitCase, api apiUnderTest) {
	var engine []func(*shard.Options)
	var change []func(*Options)
	if tc.engine != nil {
		engine = append(engine, tc.engine)
	}
	if tc.change != nil {
		change = append(change, tc.change)
	}
	s := startServerOf(t, newTestEngine(t, engine...), change...)
	s.mustWrite(api.url("max"), aroundLimits(tc.max))
	if got := strings.Join(s.lines("max"), "\n"); !strings.Contains(got, "a v=1i 1") || !strings.Contains(got, "m") {
		t.Errorf("at the limit: stored is %q", got)
	}
	metric := tc.metric
	if strings.Contains(metric, "%s") {
		metric = fmt.Sprintf(metric, strings.Split(api.path, "?")[0])
	}
	if got := exposed(t, s.handler)[metric]; got != "0" {
		t.Errorf("at the limit: %s is %q, want 0", metric, got)
	}
	answer := s.post(api.url("over"), aroundLimits(tc.over))
	api.checkContract(t, answer)
	told := fmt.Sprint(api.refusal(t, answer))
	if answer.StatusCode != tc.status || !strings.Contains(told, tc.text) || strings.Contains(told, "parse: ") {
		t.Errorf("above: got %d %s, want %d with %q", answer.StatusCode, told, tc.status, tc.text)
	}
	if got := exposed(t, s.handler)[metric]; got != "1" {
		t.Errorf("above: %s is %q, want 1", metric, got)
	}
	stored := s.lines("over")
	if tc.status == http.StatusBadRequest {
		if len(stored) < 2 || stored[0] != "a v=1i 1" {
			t.Errorf("above: stored is %q, want the neighbours", stored)
		}
	} else if diff := cmp.Diff([]string(nil), stored); diff != "" {
		t.Errorf("above: stored (-want +got):\n%s", diff)
	}
}

// TestASingleLineIsNeverToldToSplit sends bodies of one line that can't be stored, and bodies of more: a client that
// splits what is answered 413 would send the single line for ever.
func TestASingleLineIsNeverToldToSplit(t *testing.T) {
	const size = 150_000 // a block of zstd is shorter, and what is left unread does not break the connection
	noise := randomText(2 * size)
	one := "m s=\"" + noise + "\" 1"
	s := startServer(t, func(o *Options) { o.Limits.BodyBytesMax = size })
	for _, tc := range []struct {
		name, body string
		status     int
	}{
		{"one line", one, 400},
		{"one line that ends", one + "\n", 400},
		{"one line with blanks around", "\n  \n" + one + "\n\n", 400},
		{"one line that just fits but for its end", "m s=\"" + noise[:size-len("m s=\"\" 1")] + "\" 1\n", 400},
		{"one line over several lines", "m s=\"" + strings.Repeat(noise[:70]+"\n", 2*size/71) + "\" 1", 400},
		{"two lines", one[:size/2] + "\" 1\n" + one, 413},
		{"very many lines", strings.Repeat("m v=1i 1\n", size/5), 413},
		{"a long line and a short one", one + "\nm v=1i 1", 400}, // what follows is not read
		{"a comment and a long line", "# c\n" + one, 413},
		{"blanks", strings.Repeat(" ", 2*size), 413},
	} {
		for _, encoding := range []string{"identity", "gzip", "zstd"} {
			body := tc.body
			switch encoding {
			case "gzip":
				body = gzipped(t, body)
			case "zstd":
				body = zstded(t, body)
			}
			for _, api := range writeAPIsUnderTest {
				for _, reader := range bodyForms {
					answer := s.send(http.MethodPost, api.url("d"), reader.of(body), "Content-Encoding", encoding)
					api.checkContract(t, answer)
					told := api.refusal(t, answer)
					if answer.StatusCode != tc.status ||
						api.name == "v1" && strings.HasPrefix(told.Text, partialWrite) != (tc.status == 400) {
						t.Errorf("%s, %s, %s, %s: got %d %.200s, want %d", tc.name, encoding, api.name, reader.name,
							answer.StatusCode, answer.body, tc.status)
					}
				}
			}
			if got := s.databases(); len(got) > 0 {
				t.Errorf("%s, %s: got databases %q", tc.name, encoding, got)
			}
		}
	}
}
