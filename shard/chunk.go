package shard

const (
	chunkBits = 12
	chunkRows = 1 << chunkBits // values of a chunk; growth never copies more than one chunk
	chunkMask = chunkRows - 1
)

// chunked is an append-only sequence. A copy of it is a snapshot: appending to the original never changes what the
// copy covers.
type chunked[T any] struct {
	chunks [][]T // all but the last hold chunkRows values
	length int
}

// at returns value i.
func (c *chunked[T]) at(i uint32) T { return c.chunks[i>>chunkBits][i&chunkMask] }

// append adds copies of the values.
func (c *chunked[T]) append(values ...T) {
	for len(values) > 0 {
		tail := c.tail()
		n := min(len(values), chunkRows-len(*tail))
		*tail = append(*tail, values[:n]...)
		values = values[n:]
		c.length += n
	}
}

// tail returns the chunk that has room for one more value.
func (c *chunked[T]) tail() *[]T {
	if last := len(c.chunks) - 1; last >= 0 && len(c.chunks[last]) < chunkRows {
		return &c.chunks[last]
	}
	c.chunks = append(c.chunks, nil)
	return &c.chunks[len(c.chunks)-1]
}

// snapshot returns a copy that later appends to c leave as it is.
func (c *chunked[T]) snapshot() chunked[T] {
	chunks := make([][]T, len(c.chunks))
	copy(chunks, c.chunks)
	return chunked[T]{chunks: chunks, length: c.length}
}
