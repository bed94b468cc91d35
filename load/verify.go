package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// Bounds of what a Verification lists.
const (
	gapsMax     = 1000
	examplesMax = 100
	// exampleBytesMax bounds the text of a point that is shown.
	exampleBytesMax = 200
)

// scanIdleTimeout ends a scan that sends nothing.
const scanIdleTimeout = time.Minute

// Verification is what the server holds of a run, compared with what it said to hold.
type Verification struct {
	Acknowledged  int64    `json:"acknowledged_points"`
	Found         int64    `json:"found_points"` // of those
	Missing       int64    `json:"missing_points"`
	Double        int64    `json:"double_points"`         // read again after they were read once
	Altered       int64    `json:"altered_points"`        // with other fields than were sent
	RefusedStored int64    `json:"refused_stored_points"` // of batches whose every attempt was refused
	Unknown       int64    `json:"unknown_points"`        // of batches whose answers don't tell
	UnknownStored int64    `json:"unknown_stored_points"`
	Foreign       int64    `json:"foreign_points"` // that this run did not send
	Rows          int64    `json:"rows"`           // that were read
	Seconds       float64  `json:"seconds"`
	Gaps          []Gap    `json:"gaps,omitempty"` // all that is missing, up to a bound
	GapsLeftOut   int64    `json:"gaps_left_out,omitempty"`
	Examples      []string `json:"examples,omitempty"` // of points that are double, altered, or stored though refused
}

// Gap is a stretch of lines of an acknowledged batch that are missing.
type Gap struct {
	Batch int64  `json:"batch"`
	First int    `json:"first_line"` // counts from 1
	Last  int    `json:"last_line"`
	Point string `json:"point"` // the first of them
}

// Sound tells whether exactly what was acknowledged is there.
func (v *Verification) Sound() bool {
	return v.Missing == 0 && v.Double == 0 && v.Altered == 0 && v.RefusedStored == 0
}

// verifier reads back what a server acknowledged, from lineweir's scan.
type verifier struct {
	target    *Target
	corpus    *corpus
	index     *index
	transport *http.Transport
}

func newVerifier(t *Target, c *corpus) (*verifier, error) {
	x, err := newIndex(c)
	if err != nil {
		return nil, err
	}
	return &verifier{target: t, corpus: c, index: x, transport: t.transport(netip.Addr{})}, nil
}

// holdsPoints tells whether there are points already that could be taken for those of the run.
func (v *verifier) holdsPoints(ctx context.Context) (bool, error) {
	for _, name := range v.index.measurements {
		found := false
		err := v.scan(ctx, name, v.corpus.start, math.MaxInt64, "count", func(body io.Reader) error {
			var counted struct{ Points int64 }
			err := json.NewDecoder(body).Decode(&counted)
			found = counted.Points > 0
			return err
		})
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// verify reads all rounds of a run, as many at a time as their marks have room in memory.
func (v *verifier) verify(ctx context.Context, p *plan, f *fates, bytesMax int64) (*Verification, error) {
	defer v.transport.CloseIdleConnections()
	begun := time.Now()
	result := &Verification{}
	bodies := int64(len(v.corpus.bodies))
	rounds := (f.count + bodies - 1) / bodies
	step := max(1, bytesMax*8/v.corpus.lines())
	for first := int64(0); first < rounds; first += step {
		w := newWindow(p, f, v.index, first, min(first+step, rounds), result)
		start := v.corpus.start + first*v.corpus.span
		stop := start + (w.end-first)*v.corpus.span
		for _, name := range v.index.measurements {
			if err := v.scan(ctx, name, start, stop, "lp", w.readAll); err != nil {
				return nil, err
			}
		}
		w.judge()
	}
	result.Seconds = time.Since(begun).Seconds()
	return result, nil
}

// scanWaitMax is how long a server is asked again that has no room for a scan.
const scanWaitMax = 10 * time.Minute

// scan asks for the points of a measurement in [start, stop). What the server does not know has none. A server that is
// busy with other scans, or has a full tier to merge first, is asked again when it says so.
func (v *verifier) scan(
	ctx context.Context, measurement string, start, stop int64, format string, read func(io.Reader) error,
) error {
	waited := time.Duration(0)
	for {
		wait, err := v.tryScan(ctx, measurement, start, stop, format, read)
		if wait == 0 || waited >= scanWaitMax {
			return err
		}
		waited += wait
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// tryScan scans once. Beside an error it returns how long to wait before the next time; 0: there is none.
func (v *verifier) tryScan(
	ctx context.Context, measurement string, start, stop int64, format string, read func(io.Reader) error,
) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := v.target.request(ctx, http.MethodGet, "/api/scan", url.Values{
		"db": {v.target.database()}, "measurement": {measurement}, "format": {format},
		"start": {strconv.FormatInt(start, 10)}, "stop": {strconv.FormatInt(stop, 10)},
	})
	if err != nil {
		return 0, err
	}
	idle := time.AfterFunc(scanIdleTimeout, func() {
		cancel(fmt.Errorf("the server sent nothing for %v", scanIdleTimeout))
	})
	defer idle.Stop()
	response, err := v.transport.RoundTrip(request)
	if err != nil {
		return 0, fmt.Errorf("scan %s: %w", measurement, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound && isLineweirs(response.Header) {
		return 0, nil
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, answerBytesMax)) // the status says enough
		return scanWait(response), fmt.Errorf("scan %s: the server answered %s %s", measurement, response.Status,
			causeOf(text))
	}
	if err := read(&watchedReader{response.Body, idle}); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return 0, fmt.Errorf("scan %s: %w", measurement, err)
	}
	return 0, nil
}

// scanWait is how long a server that is busy asks for; 0: it is not, or does not.
func scanWait(response *http.Response) time.Duration {
	wait, told := retryAfter(response.Header.Get("Retry-After"), time.Now())
	if response.StatusCode != http.StatusServiceUnavailable || !told {
		return 0
	}
	return min(max(wait, time.Second), time.Minute)
}

// isLineweirs tells a 404 that means no such points from one that means no such endpoint.
func isLineweirs(header http.Header) bool {
	return strings.Contains(header.Get("X-Influxdb-Version"), "lineweir")
}

// watchedReader puts off a timer with each read.
type watchedReader struct {
	source io.Reader
	idle   *time.Timer
}

func (r *watchedReader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	if n > 0 {
		r.idle.Reset(scanIdleTimeout)
	}
	return n, err
}

// readAll marks every point of a scan.
func (w *window) readAll(body io.Reader) error {
	decoder := lineprotocol.NewDecoder(body)
	for decoder.Next() {
		name, err := decoder.Measurement()
		if err != nil {
			return err
		}
		p, err := pointBehind(decoder, name)
		if err != nil {
			return err
		}
		w.result.Rows++
		w.mark(p)
	}
	return decoder.Err()
}
