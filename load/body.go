package load

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/klauspost/compress/gzip"
)

// bodyMaker makes the bytes of batches, for all clients. It bounds how many encoders there are.
type bodyMaker struct {
	corpus   *corpus
	encoders chan *gzip.Writer // free ones; nil: bodies are sent as they are
}

// body is the bytes of one batch, in buffers that are used again.
type body struct {
	text []byte
	wire []byte // what is sent: text, or text compressed
	zip  bytes.Buffer
}

func newBodyMaker(c *corpus, compress bool) (*bodyMaker, error) {
	m := &bodyMaker{corpus: c}
	if !compress {
		return m, nil
	}
	count := runtime.GOMAXPROCS(0)
	m.encoders = make(chan *gzip.Writer, count)
	for range count {
		encoder, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			return nil, fmt.Errorf("make an encoder: %w", err)
		}
		m.encoders <- encoder
	}
	return m, nil
}

// fill puts the bytes of a batch into a body.
func (m *bodyMaker) fill(to *body, b batch) {
	to.text = m.corpus.bodies[b.body].appendLines(to.text[:0], b.points, b.shift)
	to.wire = to.text
	if m.encoders == nil {
		return
	}
	encoder := <-m.encoders
	defer func() { m.encoders <- encoder }()
	to.zip.Reset()
	encoder.Reset(&to.zip)
	if _, err := encoder.Write(to.text); err != nil {
		panic("BUG: writing to memory failed: " + err.Error())
	}
	if err := encoder.Close(); err != nil {
		panic("BUG: writing to memory failed: " + err.Error())
	}
	to.wire = to.zip.Bytes()
}

// bufferBytes is what the buffers of a client take, at most.
func bufferBytes(c *corpus, compress bool) int64 {
	size := int64(c.bodyBytesMax())
	if compress {
		size += size/2 + 1<<10 // bytes.Buffer may grow past what it needs
	}
	return 2 * size
}

// ahead makes the next body of a client while its last one is on the way.
type ahead struct {
	maker   *bodyMaker
	bodies  [2]body
	next    int // the body that is made, or will be
	pending chan struct{}
}

func newAhead(m *bodyMaker) *ahead { return &ahead{maker: m, pending: make(chan struct{}, 1)} }

// start begins to make a body. Each start is followed by one take before the next start.
func (a *ahead) start(b batch) {
	to := &a.bodies[a.next]
	go func() {
		a.maker.fill(to, b)
		a.pending <- struct{}{}
	}()
}

// take waits for the body that was begun. It stays valid until the next but one is begun.
func (a *ahead) take() *body {
	<-a.pending
	made := &a.bodies[a.next]
	a.next = 1 - a.next
	return made
}

// wait returns when the body that was begun is made.
func (a *ahead) wait() {
	<-a.pending
	a.pending <- struct{}{}
}
