package ingest

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func zlibbed(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func zstded(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

// TestBodies covers.
func TestBodies(t *testing.T) {
	const one, two = "m v=1i 1", "m v=1i 1\nm v=2i 2"
	long := strings.Repeat("m v=1i 1\n", 100_000)
	for _, tc := range []struct {
		name     string
		body     string
		encoding string
		status   int
		points   int
		want     string // part of the message
	}{
		{"plain, no line feed at the end", two, "", 204, 2, ""},
		{"identity", two, "identity", 204, 2, ""},
		{"gzip", gzipped(t, two), "gzip", 204, 2, ""},
		{"x-gzip in capitals", gzipped(t, two), "X-GZIP", 204, 2, ""},
		{"gzip of two members", gzipped(t, one+"\n") + gzipped(t, "m v=2i 2"), "gzip", 204, 2, ""},
		{"long gzip", gzipped(t, long), "gzip", 204, 1, ""},
		{"long", long, "", 204, 1, ""},
		{"zstd", zstded(t, two), "zstd", 204, 2, ""},
		{"zstd of two frames", zstded(t, one+"\n") + zstded(t, "m v=2i 2"), "zstd", 204, 2, ""},
		{"long zstd", zstded(t, long), "zstd", 204, 1, ""},
		{"nothing", "", "", 204, 0, ""},
		{"nothing in gzip", gzipped(t, ""), "gzip", 204, 0, ""},
		{"nothing, said to be gzip", "", "gzip", 204, 0, ""},
		{"nothing, said to be zstd", "", "zstd", 204, 0, ""},
		{"comments", "# a\tb\n\n  # c\n", "", 204, 0, ""},
		{"zlib, said to be gzip", zlibbed(t, one), "gzip", 400, 0, "not valid gzip"},
		{"text, said to be gzip", two, "gzip", 400, 0, "not valid gzip"},
		{"text, said to be zstd", one, "zstd", 400, 0, "not valid zstd"},
		{"gzip cut off", gzipped(t, long)[:200], "gzip", 400, 0, "gzip body ends early"},
		{"gzip without its checksum", strings.TrimSuffix(gzipped(t, two), gzipped(t, two)[len(gzipped(t, two))-8:]),
			"gzip", 400, 0, "gzip body ends early"},
		{"gzip with garbage behind it", gzipped(t, two) + "garbage garbage", "gzip", 400, 0, "not valid gzip"},
		{"zstd cut off", zstded(t, long)[:20], "zstd", 400, 0, "zstd body ends early"},
		{"unknown encoding", two, "br", 400, 0, `Content-Encoding "br" is unknown`},
		{"two encodings", two, "gzip, gzip", 400, 0, "is unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, reader := range []func(string) io.Reader{
				func(s string) io.Reader { return strings.NewReader(s) }, chunked,
			} {
				h := newTestHandler(t)
				answer := do(t, h, http.MethodPost, "/write?db=d&precision=s", reader(tc.body),
					"Content-Encoding", tc.encoding, "Content-Type", "application/x-www-form-urlencoded")
				want := strings.ReplaceAll(tc.want, `"`, `\"`)
				if answer.Code != tc.status || !strings.Contains(answer.Body.String(), want) {
					t.Errorf("got %d %s, want %d with %q", answer.Code, answer.Body, tc.status, tc.want)
				}
				if got := points(t, h, "d", "m"); len(got) != tc.points {
					t.Errorf("got points %q, want %d", got, tc.points)
				}
			}
		})
	}
}

// TestBodyLimits covers A-09: bytes are counted as they come, on the wire and decompressed.
func TestBodyLimits(t *testing.T) {
	const limit = 1 << 20
	line := "m v=1i 1\n"
	fits := strings.Repeat("#", limit-len(line)-1) + "\n" + line
	for _, tc := range []struct {
		name     string
		body     string
		encoding string
		status   int
	}{
		{"at the limit", fits, "", 204},
		{"above the limit", fits + "#", "", 413},
		{"gzip at the limit", gzipped(t, fits), "gzip", 204},
		{"gzip above the limit", gzipped(t, fits+"#"), "gzip", 413},
		{"zstd above the limit", zstded(t, fits+"#"), "zstd", 413},
		{"bomb", gzipped(t, strings.Repeat(" ", 100*limit)), "gzip", 413},
	} {
		for name, reader := range map[string]func(string) io.Reader{
			"length": func(s string) io.Reader { return strings.NewReader(s) }, "chunked": chunked,
		} {
			h := newTestHandler(t, func(o *Options) { o.Limits.BodyBytesMax = limit })
			for _, url := range writeURLs() {
				answer := do(t, h, http.MethodPost, url, reader(tc.body), "Content-Encoding", tc.encoding)
				if answer.Code != tc.status {
					t.Errorf("%s, %s, %s: got %d %s, want %d", tc.name, name, url, answer.Code, answer.Body, tc.status)
				}
			}
			if used := h.budget.usedBytes.Load(); used != 0 {
				t.Errorf("%s, %s: %d bytes of the budget were not given back", tc.name, name, used)
			}
		}
	}
}

// brokenReader yields text and then an error.
func brokenReader(text string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(text), errorReader{err})
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

func TestABodyThatEndsEarlyStoresNothing(t *testing.T) {
	for _, err := range []error{io.ErrUnexpectedEOF, errors.New("connection reset")} {
		h := newTestHandler(t)
		for _, url := range writeURLs() {
			answer := do(t, h, http.MethodPost, url, brokenReader("m v=1i 1\nm v=12", err))
			if answer.Code != http.StatusBadRequest || answer.Header().Get("Connection") != "close" {
				t.Errorf("%s, %v: got %d %v, want 400 and close", url, err, answer.Code, answer.Header())
			}
		}
		if got := h.engine.Databases(); len(got) != 0 {
			t.Errorf("%v: got databases %q, want none", err, got)
		}
	}
}

// unreadable fails a test that reads it.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestWhatNoBodyEscapesIsRefusedUnread(t *testing.T) {
	h := newTestHandler(t)
	fake(h).unavailable = busy("draining")
	if answer := do(t, h, http.MethodPost, "/write?db=d", unreadable{t}); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", answer.Code)
	}
}

// TestLongBodiesAreRefusedUnreadWhileAllIsBlocked is the stated exception to promise 4.
func TestLongBodiesAreRefusedUnreadWhileAllIsBlocked(t *testing.T) {
	const unread = 64 << 10
	short := strings.Repeat("#", unread-10) + "\nm v=1i 1\n"
	h := newTestHandler(t, func(o *Options) { o.Limits.UnreadRefusalBytes = unread })
	f := fake(h)
	f.blocked = busy("l0_full")
	if answer := post(t, h, "/write?db=d", short); answer.Code != http.StatusNoContent {
		t.Errorf("a body at the limit: got %d %s, want 204: it fits", answer.Code, answer.Body)
	}
	announced := httptest.NewRequest(http.MethodPost, "/write?db=d", unreadable{t})
	announced.ContentLength = unread + 1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, announced)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("a body announced above the limit: got %d, want 503", w.Code)
	}
	rest := strings.NewReader(strings.Repeat("m v=1i 1\n", 1<<20))
	size := rest.Len()
	answer := do(t, h, http.MethodPost, "/write?db=d", io.MultiReader(rest))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("a chunked body above the limit: got %d, want 503", answer.Code)
	}
	if read := size - rest.Len(); read > 2*bodySecondBytes {
		t.Errorf("%d bytes were read of a chunked body that is refused above %d", read, unread)
	}
	if diff := cmp.Diff([]string{"l0_full", "l0_full"}, f.refusals); diff != "" {
		t.Errorf("recorded refusals (-want +got):\n%s", diff)
	}
}

// dial connects to a server and returns what reads its answers.
func dial(t *testing.T, server *httptest.Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err = connection.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return connection, bufio.NewReader(connection)
}

// exchange sends text and reads one answer.
func exchange(t *testing.T, connection io.Writer, answers *bufio.Reader, text string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// TestAConnectionLivesThroughARefusal sends bodies that are refused unread, and then a write on the same connection.
func TestAConnectionLivesThroughARefusal(t *testing.T) {
	h := newTestHandler(t)
	f := fake(h)
	server := httptest.NewServer(h)
	defer server.Close()
	connection, answers := dial(t, server)
	const size = 200 << 10
	for _, head := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, strings.Repeat("#", size)),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("#", size)),
	} {
		f.unavailable = busy("wal_full")
		response, _ := exchange(t, connection, answers, "POST /write?db=d HTTP/1.1\r\nHost: x\r\n"+head)
		if response.StatusCode != http.StatusServiceUnavailable || response.Close {
			t.Errorf("got %d, close %v; want 503 on a connection that lives", response.StatusCode, response.Close)
		}
		f.unavailable = nil
		response, _ = exchange(t, connection, answers,
			"POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nm v=1i 1")
		if response.StatusCode != http.StatusNoContent {
			t.Errorf("then: got %d, want 204", response.StatusCode)
		}
	}
}

// TestAStalledBodyIsAnswered covers A-07: 503 and an end of the connection, never 408.
func TestAStalledBodyIsAnswered(t *testing.T) {
	h := newTestHandler(t, func(o *Options) { o.Limits.BodyTimeout = 20 * time.Millisecond })
	server := httptest.NewServer(h)
	defer server.Close()
	for _, head := range []string{
		"Content-Length: 100\r\n\r\nm v=1i 1\n", "Transfer-Encoding: chunked\r\n\r\n9\r\nm v=1i 1\n\r\n",
	} {
		connection, answers := dial(t, server)
		response, body := exchange(t, connection, answers, "POST /write?db=d HTTP/1.1\r\nHost: x\r\n"+head)
		if response.StatusCode != http.StatusServiceUnavailable || !response.Close ||
			response.Header.Get("Retry-After") != "1" || !strings.Contains(body, reasonStalled) {
			t.Errorf("got %d %v %s, want 503 and close", response.StatusCode, response.Header, body)
		}
	}
	if got := h.engine.Databases(); len(got) != 0 {
		t.Errorf("got databases %q, want none", got)
	}
}

// TestABodyThatStaysAwayHoldsNoAnswerBack announces bodies and never sends them.
func TestABodyThatStaysAwayHoldsNoAnswerBack(t *testing.T) {
	h := newTestHandler(t, func(o *Options) { o.Limits.BodyTimeout = 20 * time.Millisecond })
	fake(h).unavailable = busy("draining")
	server := httptest.NewServer(h)
	defer server.Close()
	for request, status := range map[string]int{
		"POST /write?db=d":             503,
		"POST /nope":                   404,
		"POST /query?q=SHOW+DATABASES": 200,
		"PUT /api/compaction":          503, // nothing says that it was wrong
		"GET /ping":                    204,
	} {
		connection, answers := dial(t, server)
		response, _ := exchange(t, connection, answers, request+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
		if response.StatusCode != status || !response.Close {
			t.Errorf("%s: got %d, close %v; want %d and close", request, response.StatusCode, response.Close, status)
		}
	}
}

// TestExpectContinue lets a client ask before it sends its body.
func TestExpectContinue(t *testing.T) {
	h := newTestHandler(t)
	f := fake(h)
	server := httptest.NewServer(h)
	defer server.Close()
	const head = "POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n"
	connection, answers := dial(t, server)
	if response, _ := exchange(t, connection, answers, head); response.StatusCode != http.StatusContinue {
		t.Fatalf("got %d, want 100", response.StatusCode)
	}
	if response, _ := exchange(t, connection, answers, "m v=1i 1"); response.StatusCode != http.StatusNoContent {
		t.Errorf("got %d, want 204", response.StatusCode)
	}
	f.unavailable = busy("draining")
	connection, answers = dial(t, server)
	if response, _ := exchange(t, connection, answers, head); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("refused: got %d, want 503 and no upload", response.StatusCode)
	}
}

// TestADeadlineOfTheBodyEndsWithIt holds a write back for longer than its body may take.
func TestADeadlineOfTheBodyEndsWithIt(t *testing.T) {
	const timeout = 30 * time.Millisecond
	h := newTestHandler(t, func(o *Options) { o.Limits.BodyTimeout = timeout })
	f := fake(h)
	held := make(chan error, 1)
	h.committer = &contextCommitter{fakeEngine: f, held: held, hold: 3 * timeout}
	server := httptest.NewServer(h)
	defer server.Close()
	response, err := http.Post(server.URL+"/write?db=d", "text/plain", strings.NewReader("m v=1i 1"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if err := <-held; err != nil || response.StatusCode != http.StatusNoContent {
		t.Errorf("got %d and %v, want 204 and a context that lives", response.StatusCode, err)
	}
}

// stepReader yields a text in small steps, and looks at the claim before each of them.
type stepReader struct {
	text string
	look func(given int)
	done int
}

func (r *stepReader) Read(p []byte) (int, error) {
	r.look(r.done)
	if r.done == len(r.text) {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1000)], r.text[r.done:])
	r.done += n
	return n, nil
}

// TestIntakeHoldsWhatHasCome reads streams whose announced length is right, wrong or missing.
func TestIntakeHoldsWhatHasCome(t *testing.T) {
	const limit = 300_000
	for _, length := range []int{0, 1, 4095, 4096, 4097, bodySecondBytes, bodySecondBytes + 1, limit, limit + 1} {
		for _, hint := range []int{-1, 0, length, length / 2, 10 * limit} {
			text := strings.Repeat("0123456789", length/10+1)[:length]
			c := &claim{budget: &budget{limitBytes: 1 << 30}}
			in := &intake{pool: new(bufferPool), claim: c, maxBytes: limit}
			b, err := in.read(&stepReader{text: text, look: func(given int) {
				if most := int64(max(bodyFirstBytes, 2*bodyGrowthMax*given)); c.heldBytes > most {
					t.Errorf("%d bytes, hint %d: %d bytes held for %d that came", length, hint, c.heldBytes, given)
				}
			}}, hint)
			if length > limit {
				if !errors.Is(err, errBodyTooLarge) || c.heldBytes != 0 {
					t.Errorf("hint %d: got %v and %d bytes held, want too large and none", hint, err, c.heldBytes)
				}
				continue
			}
			if err != nil || string(b.bytes) != text || c.heldBytes != int64(cap(b.bytes)) {
				t.Errorf("%d bytes, hint %d: got %v, %d bytes held", length, hint, err, c.heldBytes)
			}
		}
	}
}
