package e2e

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// curl runs curl against a server, with what its tests have in common, and returns what it printed.
func curl(t *testing.T, s *server, path string, flags ...string) string {
	t.Helper()
	cmd := exec.Command("curl", append([]string{"--no-progress-meter", "--max-time", "60"}, flags...)...)
	if s.authority != "" {
		cmd.Args = append(cmd.Args, "--cacert", s.authority)
	}
	cmd.Args = append(cmd.Args, s.url()+path)
	return ends(t, cmd, 0)
}

// curlStatus makes curl print the status and the version of HTTP after the answer.
const curlStatus = "-w%{http_code} HTTP/%{http_version}"

// TestCurlBodies writes one body in each way in which curl sends one.
func TestCurlBodies(t *testing.T) {
	outside(t)
	require(t, "clients", found("curl"))
	t.Parallel()
	s := start(t, t.TempDir())
	dir := t.TempDir()
	lines := knownLines(0, 20)
	file, compressed := filepath.Join(dir, "lines.lp"), filepath.Join(dir, "lines.lp.gz")
	big := knownLines(20, 10_000) // longer than the megabyte above which curl asks before it sends
	bigFile := filepath.Join(dir, "big.lp")
	for path, text := range map[string][]byte{
		file: []byte(lines), compressed: gzipped(t, lines), bigFile: []byte(big),
	} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, path, want string
		flags            []string
	}{
		{"d", "/write?db=curl-d", lines, []string{"-d", lines}},
		{"data-binary", "/api/v2/write?org=any&bucket=curl-data-binary", lines, []string{"--data-binary", lines}},
		{"file", "/api/v3/write_lp?db=curl-file&precision=ns", lines, []string{"--data-binary", "@" + file}},
		{"gzip", "/write?db=curl-gzip", lines, []string{"-H", "Content-Encoding: gzip", "--data-binary", "@" + compressed}},
		{"chunked", "/write?db=curl-chunked", lines, []string{"-H", "Transfer-Encoding: chunked", "--data-binary", "@" + file}},
		{"hours", "/write?db=curl-hours&precision=h", "known f=1 18000000000000", []string{"-d", "known f=1 5"}},
		{"seconds", "/api/v2/write?bucket=curl-seconds&precision=s", "known f=1 5000000000", []string{"-d", "known f=1 5"}},
		{"expect", "/write?db=curl-expect", big, []string{"-v", "-H", "Expect: 100-continue", "--data-binary", "@" + bigFile}},
	} {
		printed := curl(t, s, test.path, append(test.flags, curlStatus)...)
		if !strings.HasSuffix(printed, "204 HTTP/1.1") {
			t.Errorf("%s: curl printed %s", test.name, tail(printed, 1000))
		}
		if test.name == "expect" && !strings.Contains(printed, "< HTTP/1.1 100 Continue") {
			t.Errorf("curl was not told to go on: %s", tail(printed, 1000))
		}
		want, err := parsePoints(test.want)
		if err != nil {
			t.Fatal(err)
		}
		s.holds(t, test.name, "curl-"+test.name, want, "known")
	}
	testCurlErrors(t, s, file)
	s.stop(t)
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return compressed.Bytes()
}

// testCurlErrors shows that -d @file, which drops line feeds, is refused; and what a refusal and a query look like.
func testCurlErrors(t *testing.T, s *server, file string) {
	t.Helper()
	for _, test := range []struct {
		path, want string
		flags      []string
	}{
		{"/write?db=joined", `"error":"partial write: unable to parse .*dropped=1"}\s+400 HTTP/1.1$`, []string{"-d", "@" + file}},
		{"/write?db=none&precision=x", `"error":"invalid precision \\"x\\" .*400 HTTP`, []string{"-d", "a f=1 1"}},
		{"/query", `"name":"databases",.*\["curl-d"\].*200 HTTP`, []string{"-G", "--data-urlencode", "q=SHOW DATABASES"}},
		{"/query", `"statement_id":0\}.*200 HTTP`, []string{"--data-urlencode", "q=CREATE DATABASE made"}},
		{"/write", `405 HTTP`, []string{"-X", "DELETE"}},
		{"/ping", `^204 HTTP/1.1$`, nil},
	} {
		printed := curl(t, s, test.path, append(test.flags, curlStatus)...)
		if !regexp.MustCompile(`(?s)` + test.want).MatchString(printed) {
			t.Errorf("%s %v: curl printed %s", test.path, test.flags, tail(printed, 1000))
		}
	}
	if stored := s.databases(t); slices.Contains(stored, "joined") || slices.Contains(stored, "none") {
		t.Errorf("the server has the databases %v after what it refused", stored)
	}
}

// TestCurlTokens writes over TLS, with HTTP/2 where curl has it, and with a token in each place where one may stand.
func TestCurlTokens(t *testing.T) {
	outside(t)
	require(t, "clients", found("curl"))
	t.Parallel()
	s := startGuarded(t)
	secret := s.createToken(t, "--write", "weir")
	version, spoken := "--http1.1", "HTTP/1.1"
	if strings.Contains(ends(t, exec.Command("curl", "--version"), 0), " HTTP2") {
		version, spoken = "--http2", "HTTP/2"
	} else {
		t.Log("this curl has no HTTP/2")
	}
	write := func(way, want, path string, flags ...string) {
		t.Helper()
		flags = append(flags, version, curlStatus, "-i", "-d", "odd f=1,way=\""+way+"\"")
		if printed := curl(t, s, path, flags...); !strings.HasSuffix(printed, want+" "+spoken) {
			t.Errorf("%s: curl printed %s", way, tail(printed, 2000))
		}
	}
	ways := map[string][]string{
		"user": {"-u", "any:" + secret}, "token": {"-H", "Authorization: Token " + secret},
		"bearer": {"-H", "authorization: bearer " + secret}, "named": {"-H", "Authorization: Token any:" + secret},
	}
	for way, flags := range ways {
		write(way, "204", "/write?db=weir", flags...)
		write(way, "403", "/write?db=other", flags...)
	}
	write("parameter", "204", "/write?db=weir&u=any&p="+secret)
	write("nobody", "401", "/write?db=weir")
	write("unknown", "401", "/api/v2/write?bucket=weir", "-H", "Authorization: Token lw_unknown")
	if got := s.count(t, "weir", "odd"); got != len(ways)+1 {
		t.Errorf("%d points are stored, want %d", got, len(ways)+1)
	}
	printed := curl(t, s, "/write?db=weir", "-i", "-d", "odd f=1", version)
	if !regexp.MustCompile(`(?is)www-authenticate: Basic realm=.*"error":"a token is needed`).MatchString(printed) {
		t.Errorf("without a token curl printed %s", printed)
	}
	if strings.Contains(s.printed(t), secret) {
		t.Error("the log holds the token")
	}
	s.stop(t)
}

// TestCurlRetryThroughAShutGate lets curl be refused, come back when it was told to, and be accepted.
func TestCurlRetryThroughAShutGate(t *testing.T) {
	outside(t)
	require(t, "curl", found("curl"))

	settings := append(slices.Clone(tinyTier), "admission.retry_after_min=3s", "admission.retry_after_max=3s")
	s := start(t, t.TempDir(), settings...)
	s.drain(t, true)
	accepted, refused := fillTier(t, s)
	began := time.Now()
	curl := startProcess(t, exec.Command("curl", "--no-progress-meter", "--retry", "30",
		"--write-out", "last status %{http_code}\n", "--data-binary", refused, "http://"+s.address+"/write?db=weir"))
	eventually(t, clientLimit, "curl is told to come back after 3 seconds", func() bool {
		return regexp.MustCompile(`Will retry in 3(\.0+)? second`).MatchString(curl.printed(t))
	})
	s.drain(t, false)
	if code := curl.wait(t, clientLimit); code != 0 {
		t.Fatalf("curl exited with status %d", code)
	}
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("curl was done after %v, though it was told to wait 3 seconds", took)
	}
	if printed := curl.printed(t); !strings.HasSuffix(printed, "last status 204\n") {
		t.Errorf("curl printed %q, want 204 as its last status", printed)
	}
	want, err := parsePoints(accepted + refused)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "after the retry", s.scan(t, "weir", "known"), want)
	if got := s.status(t).Tier; got.HighestBytes > got.CapacityBytes {
		t.Errorf("the tier held %d bytes, above its bound of %d", got.HighestBytes, got.CapacityBytes)
	}
}
