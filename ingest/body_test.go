package ingest

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// bodyForm is a way in which a client sends a body.
type bodyForm struct {
	name string
	of   func(string) io.Reader
}

var bodyForms = []bodyForm{
	{"with its length", func(text string) io.Reader { return strings.NewReader(text) }}, {"chunked", chunked},
}

// randomText makes text of 64 letters that hardly compresses.
func randomText(size int) string {
	random := rand.New(rand.NewPCG(7, 8))
	text := make([]byte, size)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[random.IntN(64)]
	}
	return string(text)
}

// TestBodies sends bodies of all kinds to each API, with their length and chunked, and reads the points back.
func TestBodies(t *testing.T) {
	const one, two = "m v=1i 1", "m v=1i 1\nm v=2i 2"
	long := strings.Repeat("m v=1i 1\n", 100_000)
	s := startServer(t)
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
		{"Identity", two, " Identity ", 204, 2, ""},
		{"gzip", gzipped(t, two), "gzip", 204, 2, ""},
		{"GZip", gzipped(t, two), "GZip", 204, 2, ""},
		{"x-gzip", gzipped(t, two), "x-gzip", 204, 2, ""},
		{"x-gzip in capitals", gzipped(t, two), "X-GZIP", 204, 2, ""},
		{"gzip of two members", gzipped(t, one+"\n") + gzipped(t, "m v=2i 2"), "gzip", 204, 2, ""},
		{"gzip cut within a line", gzipped(t, one+"\nm v=") + gzipped(t, "2i 2"), "gzip", 204, 2, ""},
		{"gzip with empty members", gzipped(t, "") + gzipped(t, two) + gzipped(t, ""), "gzip", 204, 2, ""},
		{"long gzip", gzipped(t, long), "gzip", 204, 1, ""},
		{"long", long, "", 204, 1, ""},
		{"zstd", zstded(t, two), "zstd", 204, 2, ""},
		{"ZSTD", zstded(t, two), "ZSTD", 204, 2, ""},
		{"zstd of two frames", zstded(t, one+"\n") + zstded(t, "m v=2i 2"), "zstd", 204, 2, ""},
		{"long zstd", zstded(t, long), "zstd", 204, 1, ""},
		{"nothing", "", "", 204, 0, ""},
		{"nothing in gzip", gzipped(t, ""), "gzip", 204, 0, ""},
		{"nothing in zstd", zstded(t, ""), "zstd", 204, 0, ""},
		{"nothing, said to be gzip", "", "gzip", 204, 0, ""},
		{"nothing, said to be x-gzip", "", "x-gzip", 204, 0, ""},
		{"nothing, said to be zstd", "", "zstd", 204, 0, ""},
		{"comments", "# a\tb\n\n  # c\n", "", 204, 0, ""},
		{"zlib, said to be gzip", zlibbed(t, one), "gzip", 400, 0, "not valid gzip"},
		{"text, said to be gzip", two, "gzip", 400, 0, "not valid gzip"},
		{"gzip, said to be nothing", gzipped(t, two), "", 400, 0, ""},
		{"text, said to be zstd", one, "zstd", 400, 0, "not valid zstd"},
		{"gzip cut off", gzipped(t, long)[:200], "gzip", 400, 0, "gzip body ends early"},
		{"gzip cut off in its header", gzipped(t, two)[:5], "gzip", 400, 0, "gzip body ends early"},
		{"gzip without its checksum", strings.TrimSuffix(gzipped(t, two), gzipped(t, two)[len(gzipped(t, two))-8:]),
			"gzip", 400, 0, "gzip body ends early"},
		{"gzip with a wrong checksum", gzipped(t, two)[:len(gzipped(t, two))-8] + "12345678", "gzip", 400, 0, "not valid gzip"},
		{"gzip with garbage behind it", gzipped(t, two) + "garbage garbage", "gzip", 400, 0, "not valid gzip"},
		{"zstd cut off", zstded(t, long)[:20], "zstd", 400, 0, "zstd body ends early"},
		{"br", two, "br", 400, 0, `Content-Encoding "br" is unknown`},
		{"deflate", zlibbed(t, two), "deflate", 400, 0, `Content-Encoding "deflate" is unknown`},
		{"snappy", two, "snappy", 400, 0, `Content-Encoding "snappy" is unknown`},
		{"two encodings", gzipped(t, gzipped(t, two)), "gzip, gzip", 400, 0, "is unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, api := range writeAPIsUnderTest {
				for i, form := range bodyForms {
					name := fmt.Sprintf("%s_%d %s", api.name, i, tc.name)
					answer := s.send(http.MethodPost, api.url(name), form.of(tc.body), "Content-Encoding", tc.encoding,
						"Content-Type", "application/x-www-form-urlencoded")
					api.checkContract(t, answer)
					if answer.StatusCode != tc.status || !strings.Contains(string(answer.body), strings.ReplaceAll(tc.want, `"`, `\"`)) {
						t.Errorf("%s, %s: got %d %s, want %d with %q", api.name, form.name, answer.StatusCode, answer.body,
							tc.status, tc.want)
					}
					if diff := cmp.Diff([]string{"m v=1i 1", "m v=2i 2"}[:tc.points], s.lines(name), cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s, %s: stored (-want +got):\n%s", api.name, form.name, diff)
					}
				}
			}
		})
	}
}

// TestBodyLimits counts bytes as they come, on the wire and decompressed, whatever was announced.
func TestBodyLimits(t *testing.T) {
	const limit = 1 << 20
	line := "m v=1i 1\n"
	fits := strings.Repeat("#", limit-len(line)-1) + "\n" + line
	noise := randomText(2*limit) + "\n" + line
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
		{"zstd at the limit", zstded(t, fits), "zstd", 204},
		{"zstd above the limit", zstded(t, fits+"#"), "zstd", 413},
		{"gzip above the limit on the wire", gzipped(t, "# c\n"+noise[limit/2:]), "gzip", 413},
		{"zstd above the limit on the wire", zstded(t, "# c\n"+noise[limit/2:]), "zstd", 413},
	} {
		s := startServer(t, func(o *Options) { o.Limits.BodyBytesMax = limit })
		for _, api := range writeAPIsUnderTest {
			for _, form := range bodyForms {
				answer := s.send(http.MethodPost, api.url("d"), form.of(tc.body), "Content-Encoding", tc.encoding)
				api.checkContract(t, answer)
				if answer.StatusCode != tc.status {
					t.Errorf("%s, %s, %s: got %d %s, want %d", tc.name, form.name, api.name, answer.StatusCode, answer.body,
						tc.status)
				}
			}
		}
		want := []string{"m v=1i 1"}
		if tc.status != http.StatusNoContent {
			want = nil
		}
		if diff := cmp.Diff(want, s.lines("d")); diff != "" {
			t.Errorf("%s: stored (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestABombTakesBoundedMemory decompresses what is a thousand times as long as it is allowed to become.
func TestABombTakesBoundedMemory(t *testing.T) {
	const limit = 1 << 20
	h := newTestHandler(t, func(o *Options) { o.Limits.BodyBytesMax = limit })
	text := strings.Repeat("m v=1i 1\n", 100*limit/9)
	for name, body := range map[string]string{
		"gzip": gzipped(t, text), "zstd": zstded(t, text), "x-gzip": gzipped(t, strings.Repeat(" ", 100*limit)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answer := post(t, h, "/write?db=d", body, "Content-Encoding", name)
		runtime.ReadMemStats(&after)
		// All that was allocated, not only what was held at once: buffers that double, and a window.
		if took := after.TotalAlloc - before.TotalAlloc; answer.Code != http.StatusRequestEntityTooLarge || took > 32*limit {
			t.Errorf("%s: got %d and %d bytes allocated, want 413 and a few times %d", name, answer.Code, took, limit)
		}
	}
	if got := h.engine.Databases(); len(got) > 0 {
		t.Errorf("got databases %q, want none", got)
	}
}

// TestAClientThatLeavesStoresNothing closes connections within bodies: at the end of a line, within one, and within a
// compressed text.
func TestAClientThatLeavesStoresNothing(t *testing.T) {
	s := startServer(t)
	compressed := gzipped(t, strings.Repeat("m v=1i 1\n", 1000))
	sent := 0
	for _, api := range writeAPIsUnderTest {
		for _, part := range []string{
			"Content-Length: 100\r\n\r\nm v=1i 1\n", "Content-Length: 100\r\n\r\nm v=1i 1\nm v=12",
			"Transfer-Encoding: chunked\r\n\r\n9\r\nm v=1i 1\n\r\n", "Transfer-Encoding: chunked\r\n\r\n9\r\nm v=1i",
			"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n" + compressed[:0x20] + "\r\n",
			fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(compressed),
				compressed[:len(compressed)-1]),
		} {
			connection, _ := dial(t, s.Server)
			if _, err := io.WriteString(connection, "POST "+api.url("d")+" HTTP/1.1\r\nHost: x\r\n"+part); err != nil {
				t.Fatal(err)
			}
			if err := connection.Close(); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	waitUntil(t, "all requests to end", func() bool {
		ended := 0.0
		for name, value := range exposed(t, s.handler) {
			if strings.HasPrefix(name, "lineweir_write_requests_total{") {
				count, err := strconv.ParseFloat(value, 64)
				if err != nil || count > 0 && !strings.Contains(name, reasonTruncated) {
					t.Fatalf("%s is %s", name, value)
				}
				ended += count
			}
		}
		return int(ended) == sent
	})
	if got := s.databases(); len(got) > 0 {
		t.Errorf("got databases %q, want none", got)
	}
}

// waitUntil waits for a condition; only what hangs waits for ever.
func waitUntil(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
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
	if err = connection.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
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
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t)
		f := fake(h)
		listener := newPipeListener()
		serve(t, h, listener)
		c := listener.dial(t)
		const size = 200 << 10
		for _, head := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, strings.Repeat("#", size)),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("#", size)),
		} {
			f.unavailable = busy("wal_full")
			response, _ := exchange(t, c, c.answers, "POST /write?db=d HTTP/1.1\r\nHost: x\r\n"+head)
			if response.StatusCode != http.StatusServiceUnavailable || response.Close {
				t.Errorf("got %d, close %v; want 503 on a connection that lives", response.StatusCode, response.Close)
			}
			f.unavailable = nil
			response, _ = exchange(t, c, c.answers,
				"POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nm v=1i 1")
			if response.StatusCode != http.StatusNoContent {
				t.Errorf("then: got %d, want 204", response.StatusCode)
			}
		}
	})
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

// deadlineWriter keeps the read deadlines that an endpoint sets.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	deadlines []time.Time
}

func (w *deadlineWriter) SetReadDeadline(at time.Time) error {
	w.deadlines = append(w.deadlines, at)
	return nil
}

// last is the deadline that stands.
func (w *deadlineWriter) last() time.Time {
	if len(w.deadlines) == 0 {
		return time.Time{}
	}
	return w.deadlines[len(w.deadlines)-1]
}

// TestADeadlineOfTheBodyEndsWithIt looks at the deadline when a body is whole and its write or statement is executed.
// net/http takes the deadline away too when it has read a body, so a server would not show who did.
func TestADeadlineOfTheBodyEndsWithIt(t *testing.T) {
	for _, tc := range []struct{ path, contentType, body string }{
		{"/write?db=d", "text/plain", "m v=1i 1"},
		{"/query", formType, "q=CREATE+DATABASE+x"},
	} {
		h := newTestHandler(t)
		w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
		f := fake(h)
		f.write = func() error {
			if at := w.last(); !at.IsZero() {
				t.Errorf("%s: the write has %s left of the time of its body", tc.path, time.Until(at))
			}
			return nil
		}
		r := httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", tc.contentType)
		h.ServeHTTP(w, r)
		during := slices.ContainsFunc(w.deadlines, func(at time.Time) bool { return !at.IsZero() })
		if w.Code >= 300 || !during || !w.last().IsZero() {
			t.Errorf("%s: got %d and the deadlines %v; want some, and none that stays", tc.path, w.Code, w.deadlines)
		}
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
