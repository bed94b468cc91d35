package query

import (
	"context"
	"io"
	"net/http"
)

// Print answers a scan without HTTP: it writes to w what GET /api/scan with this query would answer. Rows that were
// written before an error stay written.
func (h *Handler) Print(ctx context.Context, rawQuery string, w io.Writer) error {
	scan, err := parseRequest(rawQuery)
	if err != nil {
		return err
	}
	out := newStream(&printer{Writer: w, header: make(http.Header)}, h.options.WriteTimeout)
	defer out.release()
	return h.run(ctx, scan, out)
}

// printer is an answer that goes to a Writer.
type printer struct {
	io.Writer
	header http.Header
}

func (p *printer) Header() http.Header { return p.header }
func (p *printer) WriteHeader(int)     {}
