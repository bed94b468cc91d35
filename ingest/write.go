package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"lineweir/internal/auth"
	"lineweir/shard"
)

const (
	// schemaAttemptsMax bounds how often a text is parsed because other writes changed the schema meanwhile. Each
	// such change adds a column, so that a second try is nearly always the last.
	schemaAttemptsMax = 8
	// batchBytesPerTextByte is what a batch is expected to take, until its parse tells.
	batchBytesPerTextByte = 2
)

// committer is the engine as a write drives it. Tests put one that refuses or panics in its place.
type committer interface {
	NewBatch(database string) *shard.Batch
	Admit(b *shard.Batch) error
	Write(ctx context.Context, b *shard.Batch, payload []byte) error
}

// gatekeeper is the engine as it is asked before a body is read.
type gatekeeper interface {
	Unavailable() error
	Blocked(client string, sizeBytes int64) error
	RecordRefusal(err *shard.BackpressureError)
}

// writeRequest is one write on its way. Its buffers and its claim are given back by release.
type writeRequest struct {
	handler  *Handler
	target   target
	encoding encoding
	client   string    // see clientOf
	received time.Time // the time of lines without one
	claim    claim
	wire     *buffer // the body as it came
	text     *buffer // decompressed; nil when the body was not compressed
}

// write returns the endpoint of a write API.
func (h *Handler) write(api *writeAPI) endpoint {
	return func(w http.ResponseWriter, r *http.Request) (reply, error) {
		q := &writeRequest{handler: h, received: time.Now(), claim: claim{budget: h.budget}}
		defer q.release()
		if err := q.receive(w, r, api); err != nil {
			h.recordRefusal(err)
			return reply{}, err
		}
		err := q.store(r.Context())
		if errors.Is(err, errBodyTooLarge) && isOneLine(q.lines()) {
			err = errLineTooLarge
		}
		if err != nil {
			return reply{}, err
		}
		return noContent(), nil
	}
}

// recordRefusal counts a refusal that the engine did not make in Write.
func (h *Handler) recordRefusal(err error) {
	var backpressure *shard.BackpressureError
	if errors.As(err, &backpressure) {
		h.gate.RecordRefusal(backpressure)
	}
}

// release gives the buffers and the claim back.
func (q *writeRequest) release() {
	q.handler.buffers.put(q.wire)
	q.handler.buffers.put(q.text)
	q.claim.release()
}

// receive takes the request in: parameters, then body. Nothing of the request is parsed or stored yet.
func (q *writeRequest) receive(w http.ResponseWriter, r *http.Request, api *writeAPI) error {
	var err error
	if q.target, err = parseTarget(api, r.URL.RawQuery); err != nil {
		return err
	}
	if err = allow(rightsOf(r.Context()), auth.Write, q.target.database); err != nil {
		return err
	}
	if q.encoding, err = parseEncoding(r.Header); err != nil {
		return err
	}
	q.client = clientOf(r)
	if err = q.handler.gate.Unavailable(); err != nil {
		return err
	}
	if err = q.readWire(w, r); err != nil {
		return err
	}
	if err = q.stillAllowed(r.Context()); err != nil {
		return err
	}
	if q.encoding != encodingIdentity {
		if q.text, err = q.handler.decoders.decode(q.wire.bytes, q.encoding, q.intake()); err != nil {
			return err
		}
	}
	m := q.handler.metrics
	m.observe(stageRead, q.received)
	m.wire.Add(int64(len(q.wire.bytes)))
	m.text.Add(int64(len(q.lines())))
	return nil
}

// stillAllowed refuses a body whose token was revoked while it came.
func (q *writeRequest) stillAllowed(ctx context.Context) error {
	rights, err := q.handler.rightsStill(ctx)
	if err != nil {
		return err
	}
	return allow(rights, auth.Write, q.target.database)
}

// lines is the text of the request.
func (q *writeRequest) lines() []byte {
	if q.text != nil {
		return q.text.bytes
	}
	return q.wire.bytes
}

// intake reads a stream of the request within its bounds.
func (q *writeRequest) intake() *intake {
	h := q.handler
	return &intake{
		pool: &h.buffers, claim: &q.claim, maxBytes: int(h.options.Limits.BodyBytesMax), oneLine: isOneLine,
	}
}

// isOneCompressedLine is isOneLine for what has come of a body that is too long even compressed.
func (q *writeRequest) isOneCompressedLine(wire []byte) bool {
	in := q.intake()
	in.tooLong, in.cut = true, true
	text, err := q.handler.decoders.decode(wire, q.encoding, in)
	if err != nil {
		return errors.Is(err, errLineTooLarge)
	}
	defer q.handler.buffers.put(text)
	defer q.claim.shrink(int64(cap(text.bytes)))
	return isOneLine(text.bytes)
}

// readWire reads the body as it is on the wire.
func (q *writeRequest) readWire(w http.ResponseWriter, r *http.Request) error {
	limits := &q.handler.options.Limits
	tooLong := r.ContentLength > limits.BodyBytesMax
	if tooLong && r.Header.Get("Expect") != "" {
		return errBodyTooLarge // the client asks before it sends anything
	}
	reads := bodyReads{
		controller: http.NewResponseController(w), start: q.received, timeout: limits.BodyTimeout,
		unreadBytes: limits.UnreadRefusalBytes, blocked: q.blocked,
		pressed: q.handler.budget.pressed,
	}
	if err := reads.worth(r.ContentLength); err != nil {
		return err
	}
	in := q.intake()
	in.before, in.tooLong = reads.allow, tooLong
	if q.encoding != encodingIdentity {
		in.oneLine = q.isOneCompressedLine
	}
	var err error
	if q.wire, err = in.read(r.Body, int(r.ContentLength)); err != nil {
		return bodyError(err)
	}
	// A deadline that stays would end the request while it waits for its commit.
	return setReadDeadline(reads.controller, time.Time{})
}

// blocked tells why a body of so many bytes on the wire is not worth reading.
func (q *writeRequest) blocked(wireBytes int64) error {
	return q.handler.gate.Blocked(q.client, q.handler.needs.of(wireBytes))
}

// store parses the text and writes what is good of it, again if the schema changed in between.
func (q *writeRequest) store(ctx context.Context) error {
	for range schemaAttemptsMax {
		if err := q.try(ctx); !errors.Is(err, shard.ErrSchemaChanged) {
			return err
		}
	}
	return errSchemaUnsettled
}

// try parses the text and writes its good lines once. A *linesError tells that some were not good.
func (q *writeRequest) try(ctx context.Context) error {
	h := q.handler
	defer q.claim.restore(q.claim.heldBytes)
	batch := h.committer.NewBatch(q.target.database)
	defer batch.Release()
	batch.Client = q.client
	parser := h.parsers.Get().(*Parser)
	defer h.parsers.Put(parser)

	start := time.Now()
	result, err := q.parse(parser, batch)
	if err != nil {
		h.recordRefusal(err)
		return err
	}
	start = h.metrics.observe(stageParse, start)
	if result.Points == 0 || result.Refused > 0 && !q.target.acceptPartial {
		h.metrics.countRefused(&result)
		return refusedLines(&result, false)
	}
	payload, err := q.prepare(batch, &result)
	if err != nil {
		h.recordRefusal(err)
		return err
	}
	defer h.buffers.put(payload)
	if err = h.commit(ctx, batch, payload.bytes); err != nil {
		return fmt.Errorf("write to database %s: %w", quote(q.target.database), err)
	}
	h.metrics.observe(stageWrite, start)
	h.metrics.countRefused(&result)
	h.metrics.points.Add(int64(result.Points))
	return refusedLines(&result, true)
}

// parse fills the batch, and counts its memory: as expected at first, then as it grows, at last as it is.
func (q *writeRequest) parse(parser *Parser, batch *shard.Batch) (Result, error) {
	expected := batchBytesPerTextByte * int64(len(q.lines()))
	if err := q.claim.grow(expected); err != nil {
		return Result{}, err
	}
	m := meter{batch: batch, claim: &q.claim, claimedBytes: expected}
	result, err := parser.Parse(q.lines(), q.target.precision, q.received, &m)
	if err != nil {
		return Result{}, fmt.Errorf("parse: %w", err)
	}
	return result, m.settle()
}

// prepare asks whether the batch has a chance, and encodes its payload into a buffer that is the caller's to put.
func (q *writeRequest) prepare(batch *shard.Batch, result *Result) (*buffer, error) {
	h := q.handler
	h.needs.note(batch.NeedBytes(), len(q.wire.bytes))
	if err := h.committer.Admit(batch); err != nil {
		return nil, err
	}
	p := Payload{Database: q.target.database, Precision: q.target.precision, DefaultTime: q.received, Text: q.lines()}
	switch {
	case result.Refused > 0:
		accepted, err := q.accepted(result)
		if err != nil {
			return nil, err
		}
		defer h.buffers.put(accepted)
		p.Text = accepted.bytes
	case q.encoding != encodingIdentity:
		p.Sent, p.Codec = q.wire.bytes, codecs[q.encoding]
	}
	payload, err := q.room(PayloadBytesMax(len(p.Database), len(p.Text)))
	if err != nil {
		return nil, err
	}
	if payload.bytes, err = AppendPayload(payload.bytes, &p); err != nil {
		h.buffers.put(payload)
		return nil, fmt.Errorf("encode payload: %w", err)
	}
	return payload, nil
}

// codecs names the codec of a payload that keeps a body as the client compressed it.
var codecs = map[encoding]Codec{encodingGzip: CodecGzip, encodingZstd: CodecZstd}

// accepted returns a buffer with the good lines of the text, which is the caller's to put.
func (q *writeRequest) accepted(result *Result) (*buffer, error) {
	b, err := q.room(len(q.lines()))
	if err != nil {
		return nil, err
	}
	b.bytes = result.AppendAccepted(b.bytes, q.lines())
	return b, nil
}

// room returns a buffer that the claim covers.
func (q *writeRequest) room(sizeBytes int) (*buffer, error) {
	b := q.handler.buffers.get(sizeBytes)
	if err := q.claim.grow(int64(cap(b.bytes))); err != nil {
		q.handler.buffers.put(b)
		return nil, err
	}
	return b, nil
}

// refusedLines returns the *linesError of a result, nil if all lines were good.
func refusedLines(result *Result, stored bool) error {
	if result.Refused == 0 {
		return nil
	}
	return &linesError{refused: result.Refused, errors: result.Errors, good: result.Points, stored: stored}
}

// commit hands the batch to the engine. From its commit to the end of its apply nothing may recover a panic, because
// the log has what memory lacks: the process ends, and the next start replays the log.
func (h *Handler) commit(ctx context.Context, batch *shard.Batch, payload []byte) error {
	defer endProcessOnPanic()
	return h.committer.Write(ctx, batch, payload)
}

// endProcessOnPanic raises a panic again where no one recovers it: net/http does so in the goroutine of a connection.
func endProcessOnPanic() {
	if value := recover(); value != nil {
		go panic(fmt.Sprintf("%v, while a write was made durable\n%s", value, debug.Stack()))
		select {}
	}
}
