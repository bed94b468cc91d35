package query

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// streamBufferBytes is what an answer gathers before it goes to the client. A whole answer that fits is sent in
	// one piece, so that an error up to its very end can still be answered.
	streamBufferBytes = 64 << 10
	// streamBufferKeptBytes bounds the buffers that are kept for other scans: long strings make them grow.
	streamBufferKeptBytes = 4 * streamBufferBytes
	// streamFlushInterval is how long a client waits at most for rows that are ready, while more are looked for.
	streamFlushInterval = time.Second
)

// errClientGone means that the client does not take the answer any more.
var errClientGone = errors.New("the client does not take the answer")

var streamBuffers = sync.Pool{New: func() any { return new([]byte) }}

// stream gathers an answer and passes it on in pieces.
type stream struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	timeout    time.Duration
	pooled     *[]byte
	buf        []byte // what is not written yet
	started    bool   // the client has the header
	flushed    time.Time
}

func newStream(w http.ResponseWriter, timeout time.Duration) *stream {
	pooled := streamBuffers.Get().(*[]byte)
	return &stream{
		w: w, controller: http.NewResponseController(w), timeout: timeout, pooled: pooled, buf: (*pooled)[:0],
		flushed: time.Now(),
	}
}

func (s *stream) setType(contentType string) { s.w.Header().Set("Content-Type", contentType) }

// writeFull writes the buffer when it is full.
func (s *stream) writeFull() error {
	if len(s.buf) < streamBufferBytes {
		return nil
	}
	return s.write()
}

func (s *stream) write() error {
	s.started = true
	if err := s.setDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(s.buf); err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	s.buf = s.buf[:0]
	return nil
}

// flushAtTimes sends what there is when the client has waited long enough.
func (s *stream) flushAtTimes() error {
	if time.Since(s.flushed) < streamFlushInterval {
		return nil
	}
	if err := s.write(); err != nil {
		return err
	}
	s.flushed = time.Now()
	if err := s.controller.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// close writes the rest. An empty answer still gets its header.
func (s *stream) close() error {
	if err := s.write(); err != nil {
		return err
	}
	return s.setDeadline(time.Time{}) // the connection may carry other answers
}

// setDeadline says until when the client must have taken what is written.
func (s *stream) setDeadline(at time.Time) error {
	if err := s.controller.SetWriteDeadline(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// release keeps the buffer for another scan.
func (s *stream) release() {
	if cap(s.buf) <= streamBufferKeptBytes {
		*s.pooled = s.buf
		streamBuffers.Put(s.pooled)
	}
}
