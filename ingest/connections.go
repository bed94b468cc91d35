package ingest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// refusedConnectionsMax is how many connections beyond the limit are open at once, to be told so. More wait in the
	// backlog of the listener.
	refusedConnectionsMax = 256
	// refusalTimeout is how long a connection beyond the limit has to send a request and to take its refusal.
	refusalTimeout = 3 * time.Second
)

// connections bounds how many connections are served at once.
//
// One beyond the limit is not closed: a client that finds a bare closed socket learns nothing, and agents lose a flush
// by it. It may send a request and is answered 503, with Connection: close, however it speaks: over TLS, as HTTP/2. By
// then others may have left; it takes the place of one of them and is served. That costs a few more connections than
// the limit, each for a moment. The alternative, to close an idle one in its stead, breaks the next flush of another
// agent, which can't tell that its request was never read.
type connections struct {
	max    int64
	placed atomic.Int64 // those that are served
	open   atomic.Int64 // all of them
}

// take takes a place if one is free.
func (c *connections) take() bool {
	for {
		placed := c.placed.Load()
		if placed >= c.max {
			return false
		}
		if c.placed.CompareAndSwap(placed, placed+1) {
			return true
		}
	}
}

// limitedListener accepts connections while there are fewer than the limit and those to be refused.
type limitedListener struct {
	net.Listener
	connections *connections
	doors       chan struct{} // holds one for each open connection
	closing     chan struct{}
	close       func() error
}

// listen bounds the connections of a listener.
func (c *connections) listen(listener net.Listener) net.Listener {
	l := &limitedListener{
		Listener: listener, connections: c, doors: make(chan struct{}, c.max+refusedConnectionsMax),
		closing: make(chan struct{}),
	}
	l.close = sync.OnceValue(func() error {
		close(l.closing)
		return listener.Close()
	})
	return l
}

// Accept waits for a door before it accepts, so that a connection without one stays in the backlog.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.doors <- struct{}{}:
	case <-l.closing:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.doors
		return nil, err
	}
	l.connections.open.Add(1)
	c := &connection{Conn: accepted, connections: l.connections}
	c.close = sync.OnceValue(func() error { return l.leave(c) })
	if !c.admit() {
		c.hurry(time.Now().Add(refusalTimeout))
	}
	return c, nil
}

// Close makes Accept return.
func (l *limitedListener) Close() error { return l.close() }

// leave closes a connection and gives back what it held.
func (l *limitedListener) leave(c *connection) error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.placed.Load() {
		l.connections.placed.Add(-1)
	}
	l.connections.open.Add(-1)
	<-l.doors
	return err
}

// connection is one that was accepted. Without a place, all its deadlines are at most the one for its refusal.
type connection struct {
	net.Conn
	connections *connections
	close       func() error
	placed      atomic.Bool
	answering   atomic.Bool // a request is; what is written is not net/http's own

	mu            sync.Mutex
	closed        bool
	latest        time.Time // for a refusal; zero: deadlines are as they are set
	reads, writes time.Time // as they were set
}

// admit tells whether the connection has a place, and takes one if it can.
func (c *connection) admit() bool {
	if c.placed.Load() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.placed.Load() || !c.connections.take() {
		return c.placed.Load()
	}
	c.placed.Store(true)
	if !c.latest.IsZero() {
		c.latest = time.Time{}
		// A deadline that can't be taken away ends the connection early, and its client connects again.
		_, _ = c.Conn.SetReadDeadline(c.reads), c.Conn.SetWriteDeadline(c.writes)
	}
	return true
}

// hurry bounds all deadlines.
func (c *connection) hurry(latest time.Time) {
	c.mu.Lock()
	c.latest = latest
	c.mu.Unlock()
	_ = c.SetDeadline(time.Time{}) // one that can't be set leaves the server's own
}

// boundLocked returns the deadline that holds instead of t.
func (c *connection) boundLocked(t time.Time) time.Time {
	if !c.latest.IsZero() && (t.IsZero() || t.After(c.latest)) {
		return c.latest
	}
	return t
}

func (c *connection) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads, c.writes = t, t
	return c.Conn.SetDeadline(c.boundLocked(t))
}

func (c *connection) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = t
	return c.Conn.SetReadDeadline(c.boundLocked(t))
}

func (c *connection) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = t
	return c.Conn.SetWriteDeadline(c.boundLocked(t))
}

// CloseWrite lets net/http end a connection so that the client still reads its answer.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close can be called more than once.
func (c *connection) Close() error { return c.close() }

type connectionKey struct{}

// nameConnection lets a request find its connection, below TLS if need be.
func nameConnection(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// openPaths are those of probes, which are answered on any connection: a full server is not to be restarted for it.
var openPaths = []string{"/ping", "/health", "/ready"}

// refuseExcess refuses requests on connections that have no place.
func (h *Handler) refuseExcess(next http.Handler) http.Handler {
	refuse := h.fallback(func(http.ResponseWriter, *http.Request) (reply, error) {
		return reply{}, errTooManyConnections()
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connectionKey{}).(*connection)
		if ok {
			c.answering.Store(true)
		}
		switch {
		case !ok || c.admit():
			next.ServeHTTP(w, r)
		case slices.Contains(openPaths, r.URL.Path):
			w.Header().Set("Connection", "close")
			next.ServeHTTP(w, r)
		default:
			refuse(w, r)
		}
	})
}

// errTooManyConnections spreads the clients, which all have to connect again.
func errTooManyConnections() error {
	return &requestError{
		status: http.StatusServiceUnavailable, reason: reasonConnections, closes: true, retryAfter: spreadRetryAfter(),
		message: "there are as many connections as http.max_connections allows; nothing of this request is stored",
	}
}
