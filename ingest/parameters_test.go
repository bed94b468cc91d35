package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// precisionNames are all names of precisions, with the unit that each API takes them for: 0 is a refusal, -1 is a unit
// by magnitude.
var precisionNames = map[string][3]time.Duration{
	"":            {1, 1, -1},
	"n":           {1, 0, 1},
	"ns":          {1, 1, 1},
	"u":           {time.Microsecond, 0, time.Microsecond},
	"us":          {time.Microsecond, time.Microsecond, time.Microsecond},
	"ms":          {time.Millisecond, time.Millisecond, time.Millisecond},
	"s":           {time.Second, time.Second, time.Second},
	"m":           {time.Minute, 0, 0},
	"h":           {time.Hour, 0, 0},
	"auto":        {0, 0, -1},
	"nanosecond":  {0, 0, 1},
	"microsecond": {0, 0, time.Microsecond},
	"millisecond": {0, 0, time.Millisecond},
	"second":      {0, 0, time.Second},
	"minute":      {},
	"hour":        {},
	"nanoseconds": {},
	"µs":          {0, time.Microsecond, 0}, // as influxdb3-go has it

	"S":               {},
	"NS":              {},
	" s":              {},
	"aa":              {},
	"1s":              {},
	"d":               {},
	"s\x00":           {},
	"unable to parse": {},
}

// TestPrecisionsOfEachAPI writes with every precision, at both ends of the range of times and one beyond, and without a
// timestamp.
func TestPrecisionsOfEachAPI(t *testing.T) {
	s := startServer(t)
	for i, api := range writeAPIsUnderTest {
		for name, units := range precisionNames {
			t.Run(fmt.Sprintf("%s/%q", api.name, name), func(t *testing.T) {
				path := api.path + url.QueryEscape(database(api.name+name)) + "&precision=" + url.QueryEscape(name)
				switch unit := units[i]; {
				case unit == 0:
					refusePrecision(t, s, api, path, name)
				case unit < 0:
					writeAuto(t, s, api, path, name)
				default:
					writeUnit(t, s, api, path, name, int64(unit))
				}
			})
		}
	}
}

// database makes the name of a database of any text.
func database(text string) string { return fmt.Sprintf("d%x", text) }

func refusePrecision(t *testing.T, s *served, api apiUnderTest, path, name string) {
	answer := s.post(path, "m v=1i 1")
	api.checkContract(t, answer)
	if told := api.refusal(t, answer); answer.StatusCode != http.StatusBadRequest ||
		!strings.HasPrefix(told.Text, "invalid precision ") {
		t.Errorf("got %d %+v, want 400", answer.StatusCode, told)
	}
	if slices.Contains(s.databases(), database(api.name+name)) {
		t.Error("something was written")
	}
}

// writeUnit writes the outermost timestamps of a unit, and those beyond.
func writeUnit(t *testing.T, s *served, api apiUnderTest, path, name string, unit int64) {
	most, least := (math.MaxInt64-1)/unit, (math.MinInt64+2)/unit
	body := fmt.Sprintf("m v=1i %d\nm v=2i %d\nm v=3i %d\nm v=4i %d\nm v=5i 0\nm v=6i 7\nm v=7i -7\nm v=8i %d\nm v=9i %d\n",
		most, least, most+1, least-1, math.MaxInt64, math.MinInt64)
	answer := s.post(path, body)
	api.checkContract(t, answer)
	refused := 4 // beyond, and both ends of int64: for nanoseconds those are the same
	if answer.StatusCode != http.StatusBadRequest || strings.Count(string(answer.body), "time outside range") < 1 {
		t.Errorf("got %d %s, want lines outside of the range of times", answer.StatusCode, answer.body)
	}
	if api.name == "v1" && !strings.HasSuffix(api.refusal(t, answer).Text, fmt.Sprintf("dropped=%d", refused)) {
		t.Errorf("got %s, want %d lines dropped", answer.body, refused)
	}
	want := []string{
		fmt.Sprintf("m v=1i %d", most*unit), fmt.Sprintf("m v=2i %d", least*unit), "m v=5i 0",
		fmt.Sprintf("m v=6i %d", 7*unit), fmt.Sprintf("m v=7i %d", -7*unit),
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, s.lines(database(api.name+name))); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	writeWithoutTime(t, s, api, path, name, unit)
}

// writeWithoutTime checks that lines without a timestamp share one, in the unit.
func writeWithoutTime(t *testing.T, s *served, api apiUnderTest, path, name string, unit int64) {
	before := time.Now().UnixNano()
	s.mustWrite(path, "n,a=b v=1i\nn,a=c v=1i\n")
	after := time.Now().UnixNano()
	var times []int64
	for _, line := range s.lines(database(api.name + name)) {
		var at int64
		if _, err := fmt.Sscanf(line, "n,a=b v=1i %d", &at); err == nil {
			times = append(times, at)
		}
		if _, err := fmt.Sscanf(line, "n,a=c v=1i %d", &at); err == nil {
			times = append(times, at)
		}
	}
	if len(times) != 2 || times[0] != times[1] || times[0]%unit != 0 || times[0] < before-unit || times[0] > after {
		t.Errorf("got times %d, want the same whole unit of now twice", times)
	}
}

// writeAuto writes timestamps on both sides of every bound between units.
func writeAuto(t *testing.T, s *served, api apiUnderTest, path, name string) {
	const seconds = int64(5e9)
	var body strings.Builder
	var want []string
	add := func(timestamp, unit int64) {
		fmt.Fprintf(&body, "m v=1i %d\nm v=1i %d\n", timestamp, -timestamp)
		want = append(want, fmt.Sprintf("m v=1i %d", timestamp*unit))
		if timestamp != 0 {
			want = append(want, fmt.Sprintf("m v=1i %d", -timestamp*unit))
		}
	}
	add(0, 1)
	add(1_700_000_000, 1e9)
	add(seconds-1, 1e9)
	add(seconds, 1e6)
	add(seconds*1e3-1, 1e6)
	add(seconds*1e3+1, 1e3)
	add(seconds*1e6-1, 1e3)
	add(seconds*1e6+1, 1)
	add(math.MaxInt64-1, 1)
	s.mustWrite(path, body.String())
	slices.Sort(want)
	if diff := cmp.Diff(want, s.lines(database(api.name+name))); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	answer := s.post(path, fmt.Sprintf("m v=1i %d\nm v=1i %d", math.MaxInt64, math.MinInt64))
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d, want both ends of int64 refused", answer.StatusCode)
	}
	writeWithoutTime(t, s, api, path, name, 1)
}

// TestParametersOfWrites writes with parameters of all kinds, and reads back where the point went.
func TestParametersOfWrites(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	long := strings.Repeat("x", databaseNameBytesMax)
	for _, tc := range []struct {
		api  int
		url  string
		want string // the database; "": a refusal
		text string // of the refusal
	}{
		{0, "/write?db=d", "d", ""},
		{0, "/write?db=d&rp=", "d", ""},
		{0, "/write?db=d&rp=autogen", "d", ""},
		{0, "/write?db=d&rp=default", "d", ""},
		{0, "/write?db=d&rp=week", "d/week", ""},
		{0, "/write?db=d%2Fweek", "d/week", ""},
		{0, "/write?db=d&rp=&consistency=all", "d", ""}, // as the shell of InfluxDB 1 has it
		{0, "/write?db=d&consistency=any", "d", ""},
		{0, "/write?db=d&consistency=one", "d", ""},
		{0, "/write?db=d&consistency=QUORUM", "d", ""},
		{0, "/write?db=d&consistency=", "d", ""},
		{0, "/write?db=d&u=user&p=password", "d", ""},
		{0, "/write?db=d&db=e", "d", ""},
		{0, "/write?db=d&unknown=x&bucket=e&org=o", "d", ""},
		{0, "/write?db=%C3%A9%20%22x%22", `é "x"`, ""},
		{0, "/write?db=" + long, long, ""},
		{1, "/api/v2/write?bucket=d", "d", ""},
		{1, "/api/v2/write?bucket=d&org=any", "d", ""},
		{1, "/api/v2/write?bucket=d&orgID=0123456789abcdef", "d", ""},
		{1, "/api/v2/write?bucket=d%2F&org=", "d", ""},
		{1, "/api/v2/write?bucket=d%2Fautogen", "d", ""},
		{1, "/api/v2/write?bucket=d%2Fweek", "d/week", ""},
		{1, "/api/v2/write?bucket=d&db=e&rp=week&consistency=some", "d", ""},
		{2, "/api/v3/write_lp?db=d", "d", ""},
		{2, "/api/v3/write_lp?db=d%2Fweek", "d/week", ""},
		{2, "/api/v3/write_lp?db=d&no_sync=true", "d", ""},
		{2, "/api/v3/write_lp?db=d&no_sync=false&accept_partial=true", "d", ""},
		{2, "/api/v3/write_lp?db=d&org=o&accept_partial=false", "d", ""},

		{0, "/write", "", "the database is missing"},
		{0, "/write?db=", "", "the database is missing"},
		{0, "/write?bucket=d", "", "the database is missing"},
		{0, "/write?db=d&consistency=some", "", `invalid consistency "some"`},
		{0, "/write?db=d&precision=x", "", `invalid precision "x"`},
		{0, "/write?db=a%2Fb%2Fc", "", "more than one slash"},
		{0, "/write?db=a%2Fb&rp=c", "", "more than one slash"},
		{0, "/write?db=%2Fb", "", "can't be called"},
		{0, "/write?db=..", "", "can't be called"},
		{0, "/write?db=a%00b", "", "bytes that are no text"},
		{0, "/write?db=a%0Ab", "", "bytes that are no text"},
		{0, "/write?db=a%FFb", "", "bytes that are no text"},
		{0, "/write?db=" + long + "x", "", "256 bytes"},
		{0, "/write?db=d&x=%zz", "", "can't be read"},
		{0, "/write?db=d;x=1", "", "can't be read"},
		{0, "/write?db=partial+write/unable+to+parse/database+not+found", "", "more than one slash"},
		{1, "/api/v2/write?db=d", "", "the bucket is missing"},
		{1, "/api/v2/write?org=o", "", "the bucket is missing"},
		{1, "/api/v2/write?bucket=unable+to+parse/x/y", "", "more than one slash"},
		{2, "/api/v3/write_lp", "", "the database is missing"},
		{2, "/api/v3/write_lp?db=d&accept_partial=maybe", "", `accept_partial is "maybe"`},
		{2, "/api/v3/write_lp?db=d&no_sync=", "", `no_sync is ""`},
		{2, "/api/v3/write_lp?db=d&no_sync=partial+write%00", "", "no_sync is"},
	} {
		t.Run(tc.url[:min(len(tc.url), 80)], func(t *testing.T) {
			s, api := startServer(t), writeAPIsUnderTest[tc.api]
			// The body looks like a form that would set everything, and Content-Type says so.
			const line = "db=1,bucket=2,precision=3,rp=4 v=1i 1700000000000000000"
			answer := s.post(tc.url, line, "Content-Type", form)
			api.checkContract(t, answer)
			if tc.want == "" {
				if told := api.refusal(t, answer); answer.StatusCode != http.StatusBadRequest ||
					!strings.Contains(told.Text, tc.text) {
					t.Errorf("got %d %q, want 400 with %q", answer.StatusCode, told.Text, tc.text)
				}
				if got := s.databases(); len(got) > 0 {
					t.Errorf("got databases %q, want nothing written", got)
				}
				return
			}
			if answer.StatusCode != http.StatusNoContent {
				t.Fatalf("got %d %s, want 204", answer.StatusCode, answer.body)
			}
			if got := s.databases(); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("got databases %q, want %q", got, tc.want)
			}
			if got := s.lines(tc.want); !slices.Equal(got, []string{line}) {
				t.Errorf("stored is %q, want %q", got, line)
			}
		})
	}
}

// TestAcceptPartial writes good and bad lines.
func TestAcceptPartial(t *testing.T) {
	const body = "m v=1i 1\nm v=bad 2\nnew w=1i 1"
	for value, stored := range map[string][]string{
		"": {"m v=1i 1", "new w=1i 1"}, "&accept_partial=true": {"m v=1i 1", "new w=1i 1"}, "&accept_partial=false": nil,
	} {
		s, api := startServer(t), writeAPIsUnderTest[2]
		answer := s.post(api.url("d")+value, body)
		api.checkContract(t, answer)
		told := api.refusal(t, answer)
		if answer.StatusCode != http.StatusBadRequest || len(told.Data) != 1 ||
			strings.Contains(told.Text, "nothing is stored") != (stored == nil) {
			t.Errorf("%q: got %d %+v", value, answer.StatusCode, told)
		}
		if diff := cmp.Diff(stored, s.lines("d")); diff != "" {
			t.Errorf("%q: stored (-want +got):\n%s", value, diff)
		}
		if stored == nil && len(s.databases()) > 0 {
			t.Errorf("%q: a refused batch has made a database", value)
		}
	}
}

// TestNoSyncChangesNothing checks that a write is on disk when it is answered, whatever no_sync says.
func TestNoSyncChangesNothing(t *testing.T) {
	s := startServer(t)
	last := uint64(0)
	for i, value := range []string{"false", "true", "1", "0"} {
		s.mustWrite("/api/v3/write_lp?db=d&no_sync="+value, fmt.Sprintf("m v=1i %d", 1700000000+i))
		var status struct {
			WAL struct {
				Last   uint64 `json:"last_sequence"`
				Synced uint64 `json:"synced_sequence"`
			} `json:"wal"`
		}
		answer := s.send(http.MethodGet, "/api/status", nil)
		if err := json.Unmarshal(answer.body, &status); err != nil {
			t.Fatal(err)
		}
		if status.WAL.Last <= last || status.WAL.Synced != status.WAL.Last {
			t.Errorf("no_sync=%s: got sequence %d, synced %d; want a new one that is synced",
				value, status.WAL.Last, status.WAL.Synced)
		}
		last = status.WAL.Last
	}
}
