package ingest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// net/http answers some requests itself, because they never become one: a header that is too long or broken, an
// expectation or an encoding that it does not know, HTTP on a port of TLS. It writes such an answer to the connection
// in one piece, as plain text, and closes the connection. Agents keep for ever what is refused in plain text, so the
// text is put into the JSON of every other refusal.
//
// Over TLS the connection sees no text, and what is answered there stays as net/http has it.

// Write sends what the server writes. While no request is being answered, only net/http's own answers are.
func (c *connection) Write(p []byte) (int, error) {
	if c.answering.Load() {
		return c.Conn.Write(p)
	}
	status, text, ok := parseServerAnswer(p)
	if !ok {
		return c.Conn.Write(p)
	}
	answer := failure{status: status, message: sanitize(text, quoteBytesMax), closes: true}
	if c.late() { // what was cut off by its deadline is not wrong
		answer = describe(errHeaderStalled)
	}
	if _, err := c.Conn.Write(appendServerAnswer(nil, answer)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// parseServerAnswer reads an answer that net/http makes itself. It has a text, in its body or its status line; one
// without is told by its status.
func parseServerAnswer(p []byte) (status int, text string, ok bool) {
	head, body, _ := bytes.Cut(p, []byte("\r\n\r\n"))
	protocol, reason, _ := bytes.Cut(head, []byte(" "))
	if !bytes.HasPrefix(protocol, []byte("HTTP/1.")) || len(reason) < len("400") {
		return 0, "", false
	}
	status, err := strconv.Atoi(string(reason[:len("400")]))
	if err != nil || status < http.StatusBadRequest || status > http.StatusNetworkAuthenticationRequired {
		return 0, "", false
	}
	text = strings.TrimPrefix(strings.TrimSpace(string(body)), fmt.Sprintf("%d ", status))
	if text == "" {
		text = http.StatusText(status)
	}
	return status, text, true
}

// errHeaderStalled refuses a request whose header stayed away half-way.
var errHeaderStalled = &requestError{
	status: http.StatusServiceUnavailable, reason: reasonStalled, closes: true,
	message: "the header came too slowly; nothing is stored",
}

// late tells whether the deadline for a request has passed.
func (c *connection) late() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := c.boundLocked(c.reads)
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// appendServerAnswer forms the whole answer, after which net/http closes the connection.
func appendServerAnswer(dst []byte, f failure) []byte {
	answer := shapeV1.answer(f)
	answer.header.Set("Content-Type", "application/json")
	answer.header.Set("Content-Length", strconv.Itoa(len(answer.body)))
	out := bytes.NewBuffer(dst)
	fmt.Fprintf(out, "HTTP/1.1 %d %s\r\n", answer.status, http.StatusText(answer.status))
	_ = answer.header.Write(out) // a buffer takes everything
	out.WriteString("\r\n")
	out.Write(answer.body)
	return out.Bytes()
}

// noteState is told of the states of connections: an idle one has been answered.
func noteState(c net.Conn, state http.ConnState) {
	if own, ok := c.(*connection); ok && state == http.StateIdle {
		own.answering.Store(false)
	}
}
