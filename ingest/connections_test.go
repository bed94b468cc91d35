package ingest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// serve runs a server until the test ends, and returns how to connect to it.
func serve(t *testing.T, h *Handler, listener net.Listener, change ...func(*ServerOptions)) *Server {
	t.Helper()
	options := DefaultServerOptions()
	options.Handler, options.Logger = h, zap.NewNop()
	for _, c := range change {
		c(&options)
	}
	server, err := NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Errorf("the server ended with %v", err)
		}
	})
	return server
}

// loopback returns a listener on this machine.
func loopback(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// pipeListener is a listener without a network, for time that tests move.
type pipeListener struct {
	connections chan net.Conn
	close       func()
	closed      chan struct{}
}

func newPipeListener() *pipeListener {
	l := &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.close()
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// client is one end of a connection.
type client struct {
	net.Conn
	answers *bufio.Reader
}

func newClient(t *testing.T, c net.Conn) *client {
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, bufio.NewReader(c)}
}

func (l *pipeListener) dial(t *testing.T) *client {
	t.Helper()
	here, there := net.Pipe()
	l.connections <- there
	return newClient(t, here)
}

func dialTCP(t *testing.T, l net.Listener) *client {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err = c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return newClient(t, c)
}

// ask sends a request with an empty body and reads the answer.
func (c *client) ask(t *testing.T, method, path string) (*http.Response, string) {
	t.Helper()
	return exchange(t, c, c.answers, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", method, path))
}

// hold makes sure that a connection has a place.
func (c *client) hold(t *testing.T) {
	t.Helper()
	if response, _ := c.ask(t, http.MethodGet, "/ping"); response.StatusCode != http.StatusNoContent || response.Close {
		t.Fatalf("got %d, close %v; want a connection that is served", response.StatusCode, response.Close)
	}
}

func limitConnections(n int) func(*Options) { return func(o *Options) { o.Limits.ConnectionsMax = n } }

// TestConnectionsBeyondTheLimitAreAnswered fills a server to its limit and one more.
func TestConnectionsBeyondTheLimitAreAnswered(t *testing.T) {
	const limit = 3
	h := newTestHandler(t, limitConnections(limit))
	listener := loopback(t)
	serve(t, h, listener)
	var held []*client
	for range limit {
		c := dialTCP(t, listener)
		c.hold(t)
		held = append(held, c)
	}
	for _, url := range append(writeURLs(), "/api/scan", "/nope") {
		response, body := dialTCP(t, listener).ask(t, http.MethodPost, url)
		seconds := response.Header.Get("Retry-After")
		if response.StatusCode != http.StatusServiceUnavailable || !response.Close || len(seconds) != 1 || seconds < "1" {
			t.Errorf("%s: got %d %v, close %v; want 503 and close", url, response.StatusCode, response.Header, response.Close)
		}
		if answer := object(t, []byte(body)); answer["cause"] != reasonConnections {
			t.Errorf("%s: got %s, want the cause %s", url, body, reasonConnections)
		}
	}
	for _, probe := range openPaths {
		response, _ := dialTCP(t, listener).ask(t, http.MethodGet, probe)
		if response.StatusCode >= 300 || !response.Close {
			t.Errorf("%s: got %d, close %v; want a good answer and close", probe, response.StatusCode, response.Close)
		}
	}
	held[0].hold(t) // others go on
	_ = held[0].Close()
	awaitConnections(t, h, limit-1)
	dialTCP(t, listener).hold(t)
}

// awaitConnections waits until the server has noticed that clients are gone.
func awaitConnections(t *testing.T, h *Handler, placed int64) {
	t.Helper()
	deadline := time.After(time.Minute)
	for h.connections.placed.Load() > placed {
		select {
		case <-deadline:
			t.Fatalf("%d connections have a place, want %d", h.connections.placed.Load(), placed)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestAConnectionBeyondTheLimitTakesAFreedPlace opens a connection while all places are taken, and uses it when one is
// free.
func TestAConnectionBeyondTheLimitTakesAFreedPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t, limitConnections(1))
		listener := newPipeListener()
		serve(t, h, listener)
		first, second := listener.dial(t), listener.dial(t)
		first.hold(t)
		_ = first.Close()
		synctest.Wait()
		for range 3 {
			second.hold(t)
			time.Sleep(2 * refusalTimeout) // the deadlines of a refusal are gone
		}
		if response, _ := second.ask(t, http.MethodPost, "/write?db=d"); response.StatusCode != http.StatusNoContent {
			t.Errorf("a write: got %d, want 204", response.StatusCode)
		}
	})
}

// TestAConnectionBeyondTheLimitMayNotLinger opens connections that say nothing, and others that send too slowly.
func TestAConnectionBeyondTheLimitMayNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t, limitConnections(1))
		listener := newPipeListener()
		serve(t, h, listener)
		listener.dial(t).hold(t)
		for _, sent := range []string{"", "POST /write?db=d HT", "POST /write?db=d HTTP/1.1\r\nHost:"} {
			c := listener.dial(t)
			go func() { _, _ = io.WriteString(c, sent) }()
			start := time.Now()
			if n, err := io.Copy(io.Discard, c); err != nil || time.Since(start) != refusalTimeout {
				t.Errorf("%q: the end came after %s with %d bytes, %v; want it after %s",
					sent, time.Since(start), n, err, refusalTimeout)
			}
		}
		synctest.Wait()
		if open := h.connections.open.Load(); open != 1 {
			t.Errorf("%d connections are open, want 1", open)
		}
	})
}

// TestConnectionsToBeRefusedAreBounded opens more than may be open. The last one is accepted when another has left.
func TestConnectionsToBeRefusedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2
		h := newTestHandler(t, limitConnections(limit))
		listener := newPipeListener()
		serve(t, h, listener)
		var silent *client
		for range limit + refusedConnectionsMax {
			silent = listener.dial(t)
		}
		synctest.Wait()
		if open := h.connections.open.Load(); open != limit+refusedConnectionsMax {
			t.Errorf("%d connections are open, want %d", open, limit+refusedConnectionsMax)
		}
		dialed := make(chan *client)
		go func() { dialed <- listener.dial(t) }()
		synctest.Wait()
		select {
		case <-dialed:
			t.Error("a connection was accepted beyond the bound")
		default:
		}
		_ = silent.Close()
		response, _ := (<-dialed).ask(t, http.MethodPost, "/write?db=d")
		if response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("got %d, want 503", response.StatusCode)
		}
	})
}

// TestAFullServerCanBeStopped ends a server whose Accept waits for a connection to leave.
func TestAFullServerCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHandler(t, limitConnections(1))
		listener := newPipeListener()
		server := serve(t, h, listener)
		for range 1 + refusedConnectionsMax {
			listener.dial(t)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx) // connections that have sent nothing yet count as busy
		_ = server.Close()
		synctest.Wait()
		if open, placed := h.connections.open.Load(), h.connections.placed.Load(); open != 0 || placed != 0 {
			t.Errorf("%d connections are open and %d have a place, want none", open, placed)
		}
	})
}

// drip sends a chunked body of a byte every few seconds, and returns the answer and when it came.
func (c *client) drip(pause time.Duration) (*http.Response, time.Duration, error) {
	start := time.Now()
	go func() {
		const head = "POST /write?db=d HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		const step = "1\r\n#\r\n"
		_, err := io.WriteString(c, head+step)
		for err == nil {
			time.Sleep(pause)
			_, err = io.WriteString(c, step)
		}
	}()
	response, err := http.ReadResponse(c.answers, nil)
	return response, time.Since(start), err
}

// TestManySlowClientsHoldNothingUp lets a thousand clients send a byte now and then. What they have sent counts, but
// little; another client is answered at once; and each of them is answered in the end.
func TestManySlowClientsHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			slow  = 1000
			pause = 3 * time.Second
		)
		h := newTestHandler(t, limitConnections(slow+1))
		listener := newPipeListener()
		serve(t, h, listener)
		var group sync.WaitGroup
		for range slow {
			c := listener.dial(t)
			group.Go(func() {
				response, after, err := c.drip(pause)
				if err != nil || response.StatusCode != http.StatusServiceUnavailable || !response.Close ||
					after < h.options.Limits.BodyTimeout || after > h.options.Limits.BodyTimeout+time.Second {
					t.Errorf("got %v, %v after %s; want 503 and close", response, err, after)
				}
				_ = c.Close()
			})
		}
		synctest.Wait()
		if used := h.budget.usedBytes.Load(); used < slow || used > slow*bodyFirstBytes {
			t.Errorf("%d slow clients hold %d bytes, want some and at most %d", slow, used, slow*bodyFirstBytes)
		}
		quick, start := listener.dial(t), time.Now()
		for range 100 {
			response, _ := exchange(t, quick, quick.answers,
				"POST /write?db=d HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nm v=1i 1")
			if response.StatusCode != http.StatusNoContent || time.Since(start) != 0 {
				t.Fatalf("a quick client got %d after %s, want 204 at once", response.StatusCode, time.Since(start))
			}
		}
		group.Wait()
		time.Sleep(pause) // the clients notice that their connections are gone
		if used := h.budget.usedBytes.Load(); used != 0 {
			t.Errorf("%d bytes are still counted", used)
		}
		if got := points(t, h, "d", "m"); len(got) != 1 {
			t.Errorf("got points %q, want the one of the quick client", got)
		}
	})
}

// TestConnectionsAreCounted looks at the metrics.
func TestConnectionsAreCounted(t *testing.T) {
	h := newTestHandler(t, limitConnections(1))
	listener := loopback(t)
	serve(t, h, listener)
	first := dialTCP(t, listener)
	first.hold(t)
	dialTCP(t, listener).ask(t, http.MethodPost, "/write?db=d")
	_, text := first.ask(t, http.MethodGet, "/metrics")
	for _, want := range []string{
		"lineweir_http_connections_max 1\n", `lineweir_http_refused_total{reason="connections"} 1` + "\n",
		`lineweir_http_refused_total{reason="unauthorized"} 0` + "\n", "lineweir_http_connections ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

// TestAClientThatTakesNoAnswerHoldsNoConnection sends requests and reads nothing.
func TestAClientThatTakesNoAnswerHoldsNoConnection(t *testing.T) {
	for _, path := range []string{"/", "/metrics", "/ping", "/nope"} {
		synctest.Test(t, func(t *testing.T) {
			h := newTestHandler(t)
			listener := newPipeListener()
			serve(t, h, listener)
			c := listener.dial(t)
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
				t.Fatal(err)
			}
			time.Sleep(answerTimeout + time.Second)
			synctest.Wait()
			if open := h.connections.open.Load(); open != 0 {
				t.Errorf("%s: %d connections are open, want none", path, open)
			}
		})
	}
}
