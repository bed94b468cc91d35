package ingest

import (
	"math/bits"
	"sync"
)

// The classes of buffers hold powers of two, so that a freed one serves any body of about its size.
const (
	bufferBitsMin = 12 // 4 KiB
	bufferBitsMax = 28 // 256 MiB: the payload of a text of TextBytesMax
)

// bufferPool keeps buffers for other requests. Growing a fresh slice instead costs twenty times the reading.
type bufferPool [bufferBitsMax - bufferBitsMin + 1]sync.Pool

// buffer is memory from the pool. It belongs to one request until put.
type buffer struct {
	bytes []byte
	class int
}

// get returns an empty buffer with room for at least sizeBytes.
func (p *bufferPool) get(sizeBytes int) *buffer {
	class := max(bits.Len(uint(max(sizeBytes, 1)-1)), bufferBitsMin) - bufferBitsMin
	if b, ok := p[class].Get().(*buffer); ok {
		b.bytes = b.bytes[:0]
		return b
	}
	return &buffer{bytes: make([]byte, 0, 1<<(class+bufferBitsMin)), class: class}
}

// put takes a buffer back; nil is none.
func (p *bufferPool) put(b *buffer) {
	if b != nil {
		p[b.class].Put(b)
	}
}
