package ingest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"lineweir/shard"
)

const (
	// bodyFirstBytes is what a body gets at first: room that a client has announced, but not filled, is not held. It is
	// little, because very many slow clients may hold it.
	bodyFirstBytes = 4 << 10
	// bodySecondBytes is what it gets when it has filled that, so that common bodies are copied twice at most.
	bodySecondBytes = 64 << 10
	// bodyGrowthMax is how many times its received bytes a body's room becomes at most when its length is announced.
	bodyGrowthMax = 16
	// bodyBytesPerSecondMin is how fast a body must come beside Limits.BodyTimeout. Slower clients hold memory for
	// nothing: their own timeouts are near.
	bodyBytesPerSecondMin = 4 << 10
	// drainTimeout is how long an answer to a body that was not read may wait for the rest of it: net/http reads up
	// to 256 KiB, so that the connection lives.
	drainTimeout = time.Second
)

// intake reads one stream whole into a buffer that grows with what has come, never with what was announced.
type intake struct {
	pool     *bufferPool
	claim    *claim
	maxBytes int
	// before, if set, runs before each read with the bytes received so far; an error ends the intake.
	before func(receivedBytes int64) error
	// oneLine, if set, tells whether what has come of a stream that is too long can be a part of one single line.
	oneLine func(received []byte) bool
	// tooLong tells that the stream is known to be longer than maxBytes: it is read only as far as it takes to tell
	// which refusal it gets.
	tooLong bool
	// cut tells that the stream may break off: what has come by then counts.
	cut bool
}

// read returns the whole stream. hintBytes is the expected length, negative if there is none. The buffer is the
// caller's to put, and its capacity is claimed. On an error nothing is claimed and there is no buffer.
func (in *intake) read(source io.Reader, hintBytes int) (*buffer, error) {
	size := bodyFirstBytes
	if hintBytes >= 0 {
		size = min(hintBytes+1, bodyFirstBytes)
	}
	b, err := in.grow(nil, size)
	if err != nil {
		return nil, err
	}
	for err == nil {
		if len(b.bytes) == cap(b.bytes) {
			if in.tooLong && !in.isOneLine(b.bytes) {
				err = errBodyTooLarge
				break
			}
			var grown *buffer
			if grown, err = in.grow(b, in.nextSize(len(b.bytes), hintBytes)); err != nil {
				break
			}
			b = grown
		}
		err = in.readOnce(source, b)
	}
	if errors.Is(err, io.EOF) || in.cut && errors.Is(err, io.ErrUnexpectedEOF) {
		return b, nil
	}
	if errors.Is(err, errBodyTooLarge) && in.isOneLine(b.bytes) {
		err = errLineTooLarge
	}
	in.claim.shrink(int64(cap(b.bytes)))
	in.pool.put(b)
	return nil, err
}

func (in *intake) isOneLine(received []byte) bool { return in.oneLine != nil && in.oneLine(received) }

// readOnce reads into the free room of a buffer, to one byte above the limit at most.
func (in *intake) readOnce(source io.Reader, b *buffer) error {
	if in.before != nil {
		if err := in.before(int64(len(b.bytes))); err != nil {
			return err
		}
	}
	n, err := source.Read(b.bytes[len(b.bytes):min(cap(b.bytes), in.maxBytes+1)])
	b.bytes = b.bytes[:len(b.bytes)+n]
	if len(b.bytes) > in.maxBytes {
		return errBodyTooLarge
	}
	return err
}

// nextSize returns how large the next buffer should be. One byte more than announced lets a read find the end.
func (in *intake) nextSize(receivedBytes, hintBytes int) int {
	size := max(2*receivedBytes, bodySecondBytes)
	if hintBytes >= receivedBytes {
		size = min(hintBytes+1, bodyGrowthMax*receivedBytes)
	}
	return min(size, in.maxBytes+1)
}

// grow moves the content of b, if there is one, to a larger buffer.
func (in *intake) grow(b *buffer, sizeBytes int) (*buffer, error) {
	larger := in.pool.get(sizeBytes)
	if err := in.claim.grow(int64(cap(larger.bytes))); err != nil {
		in.pool.put(larger)
		return nil, err
	}
	if b != nil {
		larger.bytes = append(larger.bytes, b.bytes...)
		in.claim.shrink(int64(cap(b.bytes)))
		in.pool.put(b)
	}
	return larger, nil
}

// bodyReads watches the reads of one body: how fast it comes, and whether it is worth reading on.
//
// A body has timeout to come. Each byte adds a little to that, as fast as bodyBytesPerSecondMin, but never to more than
// timeout from now: so a body may take as long as its length justifies, and one that came fast at first may not linger.
type bodyReads struct {
	controller  *http.ResponseController
	start       time.Time
	timeout     time.Duration
	unreadBytes int64                       // above so many bytes blocked is asked, once
	blocked     func(sizeBytes int64) error // why the rest is not worth reading
	pressed     func() error                // why a body may not take longer than timeout now
	asked       bool
	deadline    time.Time // zero before the first read
	paidBytes   int64     // of which the deadline knows
}

// worth asks, once, whether a body of so many bytes is worth reading.
func (b *bodyReads) worth(sizeBytes int64) error {
	if b.asked || sizeBytes <= b.unreadBytes {
		return nil
	}
	b.asked = true
	return b.blocked(sizeBytes)
}

// allow runs before each read with the bytes that have come.
func (b *bodyReads) allow(receivedBytes int64) error {
	if err := b.worth(receivedBytes); err != nil {
		return err
	}
	now := time.Now()
	if now.Sub(b.start) > b.timeout {
		if err := b.pressed(); err != nil {
			return err
		}
	}
	b.extend(now, receivedBytes)
	return setReadDeadline(b.controller, b.deadline)
}

// extend moves the deadline by what has come since the last read.
func (b *bodyReads) extend(now time.Time, receivedBytes int64) {
	if b.deadline.IsZero() {
		b.deadline = b.start.Add(b.timeout)
	}
	b.deadline = b.deadline.Add(time.Duration(receivedBytes-b.paidBytes) * (time.Second / bodyBytesPerSecondMin))
	if latest := now.Add(b.timeout); b.deadline.After(latest) {
		b.deadline = latest
	}
	b.paidBytes = receivedBytes
}

// setReadDeadline says until when a client must have sent more; the zero time takes the deadline away.
func setReadDeadline(controller *http.ResponseController, at time.Time) error {
	if err := controller.SetReadDeadline(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set the deadline of a body: %w", err)
	}
	return nil
}

// hurryBody gives what is left of a body that long to come. net/http closes a connection whose body stays away; if the
// deadline can't be set, it just waits longer.
func hurryBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if r.ContentLength != 0 {
		_ = setReadDeadline(http.NewResponseController(w), time.Now().Add(timeout))
	}
}

// bodyError says what ended the reading of a body.
func bodyError(err error) error {
	var refused *requestError
	var backpressure *shard.BackpressureError
	switch {
	case errors.As(err, &refused), errors.As(err, &backpressure):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errBodyStalled
	default:
		return fmt.Errorf("%w: %w", errBodyTruncated, err)
	}
}
