package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// driver is a client library in the hands of a small program of testdata/clients, with what the library can and how it
// presents what it is answered. What it can't stands in docs/CLIENTS.md.
type driver struct {
	name    string   // of the library
	command []string // the program and the flags that choose the library

	newline   string // what it writes for a line feed in a string
	uints     bool   // it has unsigned integers
	wideInts  bool   // its integers have 64 bits
	oddNames  bool   // it escapes names of measurements
	gzip      bool
	ping      bool
	basic     bool // it sends a user and a password
	token     bool // it sends a token
	statement bool // it sends statements to /query
	statuses  bool // it presents the status
	waits     bool // it presents the seconds of Retry-After
	lines     bool // it presents the numbers of refused lines
	retries   bool // it comes back by itself
	obeys     bool // after as many seconds as it was told to wait

	// Regular expressions of the errors that it presents.
	partly, unauthorized, forbidden, refused, unanswered string
	noMicros                                             string // of a write in microseconds, if it can't
}

// presented is what a program prints of one call.
type presented struct {
	Did        string   `json:"did"`
	Version    string   `json:"version"`
	Values     []string `json:"values"`
	Error      string   `json:"error"`
	Status     int      `json:"status"`
	Code       string   `json:"code"`
	RetryAfter int      `json:"retry_after"`
	Lines      []int    `json:"lines"`
}

// clientLimit is for one run of a client.
const clientLimit = 2 * time.Minute

// cmd is a run of the driver's program.
func (d driver) cmd(flags ...string) *exec.Cmd {
	cmd := exec.Command(d.command[0], append(slices.Clone(d.command[1:]), flags...)...)
	cmd.Env = foreignEnvironment()
	return cmd
}

// run runs the driver's program to its end, and returns what its calls gave.
func (d driver) run(t *testing.T, s *server, flags ...string) []presented {
	t.Helper()
	cmd := d.cmd(append([]string{"--url", s.url()}, flags...)...)
	if s.authority != "" {
		cmd.Env = append(cmd.Env, "NODE_EXTRA_CA_CERTS="+s.authority)
	}
	printed := ends(t, cmd, 0)
	return presentedIn(t, printed)
}

// one is run for a program that does one thing.
func (d driver) one(t *testing.T, s *server, flags ...string) presented {
	t.Helper()
	all := d.run(t, s, flags...)
	if len(all) == 0 {
		t.Fatalf("%s %v printed nothing", d.name, flags)
	}
	return all[len(all)-1]
}

// ends runs a client to its end and returns what it printed.
func ends(t *testing.T, cmd *exec.Cmd, want int) string {
	t.Helper()
	client := startProcess(t, cmd)
	if code := client.wait(t, clientLimit); code != want {
		t.Fatalf("%s exited with status %d, want %d:\n%s", strings.Join(cmd.Args, " "), code, want,
			tail(client.printed(t), printedMax))
	}
	return client.printed(t)
}

// presentedIn reads the whole lines of what a program has printed so far.
func presentedIn(t *testing.T, printed string) []presented {
	t.Helper()
	var all []presented
	for line := range strings.Lines(printed) {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "\n") {
			continue
		}
		var one presented
		decode(t, line, &one)
		all = append(all, one)
	}
	return all
}

// record is one point in the form that the programs read.
type record struct {
	Measurement string             `json:"measurement"`
	Tags        map[string]string  `json:"tags"`
	Floats      map[string]float64 `json:"floats"`
	Ints        map[string]string  `json:"ints"`
	Uints       map[string]string  `json:"uints,omitempty"`
	Bools       map[string]bool    `json:"bools"`
	Strings     map[string]string  `json:"strings"`
	Time        string             `json:"time"` // nanoseconds
}

// records makes n points of every type that the driver has, seconds apart.
func (d driver) records(n int) []record {
	all := make([]record, n)
	for i := range all {
		wide := int64(i-n/2) * 9_000_000_000_000
		if d.wideInts {
			wide *= 4096 / int64(n)
		}
		all[i] = record{
			Measurement: "known",
			Tags:        map[string]string{"series": fmt.Sprintf("s%d", i%7), "path": `C:\a dir=x,☂`},
			Floats:      map[string]float64{"f": float64(i-n/2) / 7e9},
			Ints:        map[string]string{"i": strconv.FormatInt(wide, 10)},
			Bools:       map[string]bool{"b": i%3 == 0},
			Strings:     map[string]string{"s": fmt.Sprintf("%064x \" \\ , = ☂\nnumber %d", i*i*i, i)},
			Time:        strconv.FormatInt(1_700_000_000_123_456_789+int64(i)*1_000_000_007, 10),
		}
		if d.uints {
			all[i].Uints = map[string]string{"u": strconv.FormatUint(1<<64-1-uint64(i), 10)}
		}
		if d.oddNames && i%5 == 0 {
			all[i].Measurement = "known, too"
		}
	}
	return all
}

// points are what the server should hold of records that the driver wrote with times rounded to a unit.
func (d driver) points(t *testing.T, all []record, unit int64) points {
	t.Helper()
	want := points{}
	for _, r := range all {
		values := map[string]string{}
		for name, value := range r.Floats {
			values[name] = lineprotocol.MustNewValue(value).String()
		}
		for name, value := range r.Ints {
			values[name] = value + "i"
		}
		for name, value := range r.Uints {
			values[name] = value + "u"
		}
		for name, value := range r.Bools {
			values[name] = lineprotocol.BoolValue(value).String()
		}
		for name, value := range r.Strings {
			values[name] = lineprotocol.MustNewValue(strings.ReplaceAll(value, "\n", d.newline)).String()
		}
		at, err := strconv.ParseInt(r.Time, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		want[fmt.Sprintf("%s %s %d", r.Measurement, joined(r.Tags), at/unit*unit)] = joined(values)
	}
	return want
}

// writeRecords makes a file of records.
func writeRecords(t *testing.T, all []record) (path string) {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, r := range all {
		if err := encoder.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	path = filepath.Join(t.TempDir(), "points.jsonl")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds compares what a database holds of the measurements that records has with what it should.
func (s *server) holds(t *testing.T, what, database string, want points, measurements ...string) {
	t.Helper()
	got := points{}
	for _, measurement := range measurements {
		if s.count(t, database, measurement) == 0 {
			continue // a scan of what doesn't exist is an error
		}
		for identity, fields := range s.scan(t, database, measurement) {
			got[identity] = fields
		}
	}
	same(t, what, got, want)
}

// exercise holds a library to what every client must get from lineweir.
func (d driver) exercise(t *testing.T) {
	t.Run("points", d.testPoints)
	t.Run("one bad point", d.testBadPoint)
	t.Run("tokens over TLS", d.testTokens)
	t.Run("shut gate", d.testGate)
}

// testPoints writes points of every type in every precision, compressed and not, and reads them back.
func (d driver) testPoints(t *testing.T) {
	s := start(t, t.TempDir())
	all := d.records(64)
	file := writeRecords(t, all)
	if d.noMicros != "" {
		got := d.one(t, s, "--database", "us", "--precision", "us", "--points", file)
		d.presents(t, got, d.noMicros, http.StatusBadRequest)
	}
	for precision, unit := range map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9} {
		for _, gzip := range []bool{false, true} {
			if gzip && !d.gzip || precision == "us" && d.noMicros != "" {
				continue
			}
			database := fmt.Sprintf("%s-%t", precision, gzip)
			flags := []string{"--database", database, "--precision", precision, "--points", file, "--token", "any"}
			if gzip {
				flags = append(flags, "--gzip")
			}
			if got := d.one(t, s, flags...); got.Error != "" || got.Did != "write" {
				t.Errorf("%s: %+v", database, got)
			}
			s.holds(t, database, database, d.points(t, all, unit), "known", "known, too")
		}
	}
	d.testQuery(t, s)
	s.stop(t)
}

// testQuery asks for what has been written through the library's own means.
func (d driver) testQuery(t *testing.T, s *server) {
	t.Helper()
	if d.ping {
		if got := d.one(t, s, "--ping", "--database", "any", "--token", "any"); got.Error != "" || got.Version == "" {
			t.Errorf("ping: %+v", got)
		}
	}
	base := []string{"--database", "ns-false", "--token", "any", "--query"}
	if !d.statement {
		if got := d.one(t, s, append(base, "SHOW MEASUREMENTS")...); !matches(d.unanswered, got.Error) {
			t.Errorf("a query gave %+v, want the error %q", got, d.unanswered)
		}
		return
	}
	for _, test := range []struct{ query, want string }{
		{"SHOW MEASUREMENTS", `\bknown\b`},
		{`SHOW TAG VALUES FROM known WITH KEY="series"`, `^series s0 series s1 series s2 series s3 series s4 series s5 series s6$`},
		{"CREATE DATABASE made", `^$`},
		{"SHOW DATABASES", `^made ms-false.* ns-false.* s-false`},
		{"DROP MEASUREMENT known", `^$`},
	} {
		got := d.one(t, s, append(base, test.query)...)
		if values := strings.Join(got.Values, " "); got.Error != "" || !matches(test.want, values) {
			t.Errorf("%s gave %+v", test.query, got)
		}
	}
	got := d.one(t, s, append(base, "SELECT * FROM known")...)
	if !matches(`SELECT is not supported; read points with GET /api/scan\?db=ns-false&measurement=known`, got.Error) {
		t.Errorf("SELECT gave %+v", got)
	}
	if left := s.count(t, "ns-false", "known"); left != 0 {
		t.Errorf("%d points are left of a dropped measurement", left)
	}
}

// testBadPoint lets one of three points be of a wrong type: the library presents what is wrong, and the others stand.
func (d driver) testBadPoint(t *testing.T) {
	s := start(t, t.TempDir())
	s.write(t, "weir", "odd f=1 1")
	file := writeRecords(t, []record{
		{Measurement: "odd", Floats: map[string]float64{"f": 1.5}, Time: "1700000000000000000"},
		{Measurement: "odd", Strings: map[string]string{"f": "four"}, Time: "1700000001000000000"},
		{Measurement: "odd", Floats: map[string]float64{"f": 2.5}, Time: "1700000002000000000"},
	})
	got := d.one(t, s, "--database", "weir", "--points", file, "--token", "any")
	d.presents(t, got, d.partly, http.StatusBadRequest)
	if d.lines && !slices.Equal(got.Lines, []int{2}) {
		t.Errorf("%s presents %v as the refused lines, want 2", d.name, got.Lines)
	}
	want, err := parsePoints("odd f=1 1\nodd f=1.5 1700000000000000000\nodd f=2.5 1700000002000000000\n")
	if err != nil {
		t.Fatal(err)
	}
	s.holds(t, "the good points", "weir", want, "odd")
	s.stop(t)
}

// presents compares an error as the library presents it.
func (d driver) presents(t *testing.T, got presented, pattern string, status int) {
	t.Helper()
	if got.Error == "" || !matches(pattern, got.Error) || d.statuses && got.Status != status {
		t.Errorf("%s presents %+v, want %q and status %d", d.name, got, pattern, status)
	}
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// testTokens writes over TLS with a token, in each way in which the library sends one.
func (d driver) testTokens(t *testing.T) {
	s := startGuarded(t)
	write := s.createToken(t, "--write", "weir")
	all := d.records(8)
	file := writeRecords(t, all)
	base := []string{"--ca", s.authority, "--points", file}
	ways := map[string][]string{}
	if d.token {
		ways["token"] = []string{"--token"}
	}
	if d.basic {
		ways["password"] = []string{"--user", "somebody", "--password"}
	}
	for way, flags := range ways {
		flags = slices.Concat(base, flags)
		d.presents(t, d.one(t, s, append(flags, "lw_unknown", "--database", "weir")...), d.unauthorized, http.StatusUnauthorized)
		d.presents(t, d.one(t, s, append(flags, write, "--database", "other")...), d.forbidden, http.StatusForbidden)
		if stored := s.databases(t); slices.Contains(stored, "other") {
			t.Errorf("%s: the server has the databases %v after what it refused", way, stored)
		}
		if got := d.one(t, s, append(flags, write, "--database", "weir")...); got.Error != "" {
			t.Errorf("%s: %+v", way, got)
		}
		s.holds(t, way, "weir", d.points(t, all, 1), "known", "known, too")
		s.must(t, http.MethodPost, "/query?q="+"DROP+DATABASE+weir", "", http.StatusOK)
	}
	s.stop(t)
}

// testGate writes against a shut gate: the library presents the refusal, and what it wrote is there in the end, whether
// it comes back by itself or is started again.
func (d driver) testGate(t *testing.T) {
	const wait = 3 // seconds
	settings := append(slices.Clone(tinyTier), "admission.retry_after_min=3s", "admission.retry_after_max=3s")
	s := start(t, t.TempDir(), settings...)
	s.drain(t, true)
	accepted, _ := fillTier(t, s)
	kept, err := parsePoints(accepted)
	if err != nil {
		t.Fatal(err)
	}
	all := d.records(200)
	flags := []string{"--database", "gate", "--token", "any", "--points", writeRecords(t, all)}
	if d.retries {
		d.comesBack(t, s, flags, len(all), wait)
	} else {
		d.presents(t, d.refusal(t, d.one(t, s, flags...), wait), d.refused, http.StatusServiceUnavailable)
		s.drain(t, false)
		eventually(t, 2*clientLimit, d.name+" is accepted after the gate opened", func() bool {
			return d.one(t, s, flags...).Error == ""
		})
	}
	s.holds(t, "after the gate opened", "gate", d.points(t, all, 1), "known", "known, too")
	s.holds(t, "what was accepted before", "weir", kept, "known")
	if got := s.status(t).Tier; got.HighestBytes > got.CapacityBytes {
		t.Errorf("the tier held %d bytes, above its bound of %d", got.HighestBytes, got.CapacityBytes)
	}
	s.stop(t)
}

// refusal compares the Retry-After that the library presents.
func (d driver) refusal(t *testing.T, got presented, wait int) presented {
	t.Helper()
	if d.waits && got.RetryAfter != wait {
		t.Errorf("%s presents %+v, want a wait of %d", d.name, got, wait)
	}
	return got
}

// comesBack lets the library be refused, opens the gate, and waits until what it wrote is there.
func (d driver) comesBack(t *testing.T, s *server, flags []string, n, wait int) {
	t.Helper()
	began := time.Now()
	cmd := d.cmd(append([]string{"--url", s.url(), "--retry"}, flags...)...)
	input, writer := io.Pipe()
	cmd.Stdin = input
	defer writer.Close() // ends the copying to a program that has ended
	client := startProcess(t, cmd)
	var first presented
	eventually(t, clientLimit, d.name+" is refused", func() bool {
		all := presentedIn(t, client.printed(t))
		if len(all) > 0 {
			first = all[0]
		}
		return len(all) > 0
	})
	d.presents(t, d.refusal(t, first, wait), d.refused, http.StatusServiceUnavailable)
	s.drain(t, false)
	eventually(t, clientLimit, d.name+" comes back and is accepted", func() bool {
		return s.count(t, "gate", "known")+s.count(t, "gate", "known, too") == n
	})
	// The first attempt was made after the beginning, and the one that was accepted before now: if the library waits as it
	// is told, this holds however slow the machine is.
	if took := time.Since(began); d.obeys && took < time.Duration(wait)*time.Second {
		t.Errorf("%s was accepted after %v, though it was told to wait %d seconds", d.name, took, wait)
	}
	writer.Close()
	if code := client.wait(t, clientLimit); code != 0 {
		t.Errorf("%s exited with status %d", d.name, code)
	}
}

// databases lists what SHOW DATABASES does.
func (s *server) databases(t *testing.T) []string {
	t.Helper()
	var body struct {
		Results []struct {
			Series []struct {
				Values [][]string `json:"values"`
			} `json:"series"`
		} `json:"results"`
	}
	decode(t, s.must(t, http.MethodGet, "/query?q=SHOW+DATABASES", "", http.StatusOK).body, &body)
	var names []string
	for _, result := range body.Results {
		for _, series := range result.Series {
			names = append(names, slices.Concat(series.Values...)...)
		}
	}
	return names
}
