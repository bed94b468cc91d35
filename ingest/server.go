package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"lineweir/internal/auth"
	"lineweir/shard"
)

// Options configure a Handler.
type Options struct {
	Engine  *shard.Engine
	Logger  *zap.Logger
	Version string // of lineweir
	// Scan answers GET /api/scan. It returns an error before it has written anything.
	Scan func(w http.ResponseWriter, r *http.Request) error
	// Page serves a file of the status page, and the page itself where name is empty. It returns false and has written
	// nothing if there is no such file.
	Page func(w http.ResponseWriter, r *http.Request, name string) bool
	// Tokens tell what a client may do. Without them everybody may do everything.
	Tokens *auth.Verifier
	Limits Limits
}

// Limits bound what requests take. Sizes are bytes.
type Limits struct {
	BodyBytesMax       int64         // of a body on the wire, and again of its text
	InFlightBytesMax   int64         // of all writes that are read, parsed, waiting or being made durable
	UnreadRefusalBytes int64         // a longer body is not read while every shard is blocked
	BodyTimeout        time.Duration // in which a body must come, beside a second for each 4 KiB
	ConnectionsMax     int           // that are served at once
	Line               LineLimits
}

// DefaultLimits are what the documentation states.
func DefaultLimits() Limits {
	return Limits{
		BodyBytesMax:       25_000_000,
		InFlightBytesMax:   256 << 20,
		UnreadRefusalBytes: 64 << 10,
		BodyTimeout:        10 * time.Second,
		ConnectionsMax:     4096,
		Line:               DefaultLineLimits(),
	}
}

// inFlightBodiesMin is how many times the budget must hold a body of full size: its text, its batch and its payload. A
// batch of very short lines takes more. What the whole budget can't hold is answered 413, so that it is sent in parts.
const inFlightBodiesMin = 4

// Validate returns every problem at once.
func (o *Options) Validate() error {
	l := &o.Limits
	return errors.Join(
		require(o.Engine != nil && o.Logger != nil && o.Scan != nil && o.Page != nil,
			"Engine, Logger, Scan and Page are needed"),
		require(l.BodyBytesMax >= 1 && l.BodyBytesMax <= TextBytesMax,
			"limit of a body is %d bytes, must be from 1 to %d", l.BodyBytesMax, TextBytesMax),
		require(l.InFlightBytesMax >= inFlightBodiesMin*l.BodyBytesMax,
			"limit of the writes in flight is %d bytes, must be at least %d times the limit of a body, %d",
			l.InFlightBytesMax, inFlightBodiesMin, l.BodyBytesMax),
		require(l.UnreadRefusalBytes >= 0, "limit of an unread refusal is %d bytes, must not be negative",
			l.UnreadRefusalBytes),
		require(l.BodyTimeout > 0, "timeout of a body is %s, must be above 0", l.BodyTimeout),
		require(l.ConnectionsMax > 0, "limit of connections is %d, must be above 0", l.ConnectionsMax),
		l.Line.Validate(),
	)
}

func require(ok bool, format string, arguments ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("ingest: "+format, arguments...)
}

// ServerOptions configure the HTTP server.
type ServerOptions struct {
	Handler *Handler
	Logger  *zap.Logger
	// ReadHeaderTimeout is how long a header may take, and a TLS handshake.
	ReadHeaderTimeout time.Duration
	// IdleTimeout is how long a connection may carry nothing. Telegraf keeps connections between flushes and can't
	// repeat a request that meets a closed one, so it should be well above any flush interval.
	IdleTimeout    time.Duration
	MaxHeaderBytes int
	// CertificateFile and KeyFile, both PEM, make the server speak TLS alone. They are read again when they change.
	CertificateFile, KeyFile string
}

// DefaultServerOptions returns options that lack Handler and Logger only.
func DefaultServerOptions() ServerOptions {
	return ServerOptions{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 64 << 10}
}

// Validate returns every problem at once.
func (o *ServerOptions) Validate() error {
	const headerBytesMin = 4 << 10
	return errors.Join(
		require(o.Handler != nil && o.Logger != nil, "Handler and Logger are needed"),
		require(o.ReadHeaderTimeout > 0, "timeout of a header is %s, must be above 0", o.ReadHeaderTimeout),
		require(o.IdleTimeout > 0, "idle timeout is %s, must be above 0", o.IdleTimeout),
		require(o.MaxHeaderBytes >= headerBytesMin, "limit of a header is %d bytes, must be at least %d",
			o.MaxHeaderBytes, headerBytesMin),
		require((o.CertificateFile == "") == (o.KeyFile == ""), "a certificate and its key need each other"),
	)
}

// Server is the HTTP server. Its owner ends it with Shutdown or Close.
type Server struct {
	*http.Server
	handler *Handler
}

// NewServer returns the HTTP server. It has no timeout for whole requests: bodies and scans have their own, by
// progress.
func NewServer(o ServerOptions) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	log, err := zap.NewStdLogAt(o.Logger.Named("http"), zap.WarnLevel)
	if err != nil {
		return nil, fmt.Errorf("make the log of the HTTP server: %w", err)
	}
	s := &Server{handler: o.Handler, Server: &http.Server{
		Handler: o.Handler, ReadHeaderTimeout: o.ReadHeaderTimeout, IdleTimeout: o.IdleTimeout,
		MaxHeaderBytes: o.MaxHeaderBytes, ErrorLog: log, ConnContext: nameConnection, HTTP2: http2Limits(),
		ConnState: noteState, DisableGeneralOptionsHandler: true, // OPTIONS * is answered as any other request
	}}
	if o.CertificateFile == "" {
		return s, nil
	}
	secured, err := newCertificate(o.CertificateFile, o.KeyFile, o.Logger)
	if err != nil {
		return nil, err
	}
	s.TLSConfig = secured.config()
	return s, nil
}

// http2Limits bound what a connection may hold beyond what its requests are counted for. An agent needs few streams.
func http2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: 100, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
	}
}

// Serve serves the connections of a listener: with TLS, and then with HTTP/2 as well, if there is a certificate. It
// returns http.ErrServerClosed after Shutdown and Close. Meanwhile it records the history.
func (s *Server) Serve(listener net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	var recorder sync.WaitGroup
	recorder.Go(func() { s.handler.history.record(ctx, s.handler.sample) })
	defer recorder.Wait()
	defer cancel()
	limited := s.handler.connections.listen(listener)
	if s.TLSConfig != nil {
		return s.ServeTLS(limited, "", "")
	}
	return s.Server.Serve(limited)
}
