package ingest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"
)

const (
	// queryBodyBytesMax bounds the form of a query.
	queryBodyBytesMax = 1 << 20
	// formCopies is about how many times the memory of a form its parsed values and what leads to them take.
	formCopies = 4
)

// readForm reads the parameters of a query into r.Form: those of the URL, and those of the body if it is a form. Its
// memory is claimed as that of a write is. A form that can't be read whole is refused: what is missing could be the end
// of a name.
func (h *Handler) readForm(w http.ResponseWriter, r *http.Request, c *claim) error {
	parse := r.ParseForm
	mediaType, _, unknown := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case unknown != nil && r.Header.Get("Content-Type") != "" && r.ContentLength != 0:
		return formError(unknown)
	case r.Method == http.MethodPost && mediaType == "application/x-www-form-urlencoded":
	case r.Method == http.MethodPost && mediaType == "multipart/form-data":
		parse = func() error { return r.ParseMultipartForm(queryBodyBytesMax) }
	default: // whatever the body is, nobody asks for it
		var err error
		r.Form, err = url.ParseQuery(r.URL.RawQuery)
		return formError(err)
	}
	body, err := h.readFormBody(w, r, c)
	if err != nil {
		return err
	}
	defer func() {
		c.shrink(int64(cap(body.bytes)))
		h.buffers.put(body)
	}()
	if err = c.grow(formCopies * int64(len(body.bytes))); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body.bytes))
	return formError(parse())
}

func formError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return bodyError(err)
	}
	return badRequest("the parameters can't be read: %s", sanitize(err.Error(), quoteBytesMax))
}

// readFormBody returns the body in a buffer that is the caller's to put, with its capacity claimed.
func (h *Handler) readFormBody(w http.ResponseWriter, r *http.Request, c *claim) (*buffer, error) {
	if r.ContentLength > queryBodyBytesMax {
		return nil, errFormTooLarge
	}
	reads := bodyReads{
		controller: http.NewResponseController(w), start: time.Now(), timeout: h.options.Limits.BodyTimeout,
		unreadBytes: queryBodyBytesMax, pressed: h.budget.pressed, // a query needs no room in the tier
	}
	in := &intake{pool: &h.buffers, claim: c, maxBytes: queryBodyBytesMax, before: reads.allow}
	body, err := in.read(r.Body, int(r.ContentLength))
	switch {
	case errors.Is(err, errBodyTooLarge):
		return nil, errFormTooLarge
	case err != nil:
		return nil, bodyError(err)
	}
	// A deadline that stays would end the request while its statements are executed.
	return body, setReadDeadline(reads.controller, time.Time{})
}
