package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"lineweir/segment"
	"lineweir/shard"
)

// Store is what a scan needs of the engine.
type Store interface {
	// Scan yields the selected rows as of now, and says which columns they may have.
	Scan(ctx context.Context, q shard.Query) (*shard.Rows, error)
}

// Options configure a Handler.
type Options struct {
	Store  Store
	Logger *zap.Logger
	// WriteTimeout is how long a client may take no bytes of an answer before its connection is cut: a scan holds the
	// files that it reads.
	WriteTimeout time.Duration
}

// Validate returns every problem at once.
func (o *Options) Validate() error {
	var problems []error
	if o.Store == nil {
		problems = append(problems, errors.New("query: Store is needed"))
	}
	if o.Logger == nil {
		problems = append(problems, errors.New("query: Logger is needed"))
	}
	if o.WriteTimeout <= 0 {
		problems = append(problems, fmt.Errorf("query: WriteTimeout is %s, must be above 0", o.WriteTimeout))
	}
	return errors.Join(problems...)
}

// Handler answers scans.
type Handler struct{ options Options }

// NewHandler returns a Handler.
func NewHandler(o Options) (*Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Handler{options: o}, nil
}

// Scan answers GET /api/scan. An error means that nothing was written yet: the caller answers it. After the first byte
// a failure is logged and the connection is cut, by a panic with http.ErrAbortHandler that the caller must let pass.
func (h *Handler) Scan(w http.ResponseWriter, r *http.Request) error {
	scan, err := parseRequest(r.URL.RawQuery)
	if err != nil {
		return err
	}
	out := newStream(w, h.options.WriteTimeout)
	defer out.release()
	err = h.run(r.Context(), scan, out)
	if err == nil || !out.started {
		return err
	}
	if !errors.Is(err, errClientGone) && r.Context().Err() == nil {
		h.options.Logger.Error("a scan failed half-way; its connection is cut", zap.String("database", scan.database),
			zap.String("measurement", scan.measurement), zap.Error(err))
	}
	panic(http.ErrAbortHandler)
}

// run writes the whole answer.
func (h *Handler) run(ctx context.Context, scan request, out *stream) (err error) {
	rows, err := h.options.Store.Scan(ctx, shard.Query{
		Database: scan.database, Measurement: scan.measurement, Selection: scan.selection,
	})
	if scan.format == formatCount && isNotFound(err) {
		return writeCount(out, tally{})
	}
	if err != nil {
		return fmt.Errorf("scan measurement %q of database %q: %w", scan.measurement, scan.database, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if scan.format == formatCount {
		return count(ctx, rows, scan.limit, out)
	}
	return writeRows(ctx, rows, scan, out)
}

func isNotFound(err error) bool {
	return errors.Is(err, shard.ErrDatabaseNotFound) || errors.Is(err, shard.ErrMeasurementNotFound)
}

// count answers how many rows and values the source has.
func count(ctx context.Context, source segment.Source, limit int64, out *stream) error {
	var total tally
	for total.points < limit {
		b, err := next(ctx, source)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		total.add(b, limit-total.points)
	}
	return writeCount(out, total)
}

func writeCount(out *stream, total tally) error {
	out.setType("application/json")
	out.buf = total.append(out.buf)
	return out.close()
}

// writeRows streams the rows.
func writeRows(ctx context.Context, rows *shard.Rows, scan request, out *stream) error {
	encoder, header := newEncoder(scan.format, scan.measurement, selectColumns(rows.Columns, scan.selection.Fields))
	out.setType(contentTypes[scan.format])
	out.buf = append(out.buf, header...)
	for limit := scan.limit; limit > 0; {
		b, err := next(ctx, rows)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if limit, err = writeBlock(out, encoder, b, limit); err != nil {
			return err
		}
	}
	return out.close()
}

// contentTypes of the formats that show rows.
var contentTypes = map[string]string{
	formatLines: "text/plain; charset=utf-8",
	formatCSV:   "text/csv; charset=utf-8; header=present",
	formatJSON:  "application/x-ndjson",
}

// next returns the source's next Block, unless the client has left.
func next(ctx context.Context, source segment.Source) (*segment.Block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return source.Next()
}

// selectColumns drops the fields that the scan does not show.
func selectColumns(columns []segment.ColumnDef, fields []string) []segment.ColumnDef {
	if fields == nil {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c segment.ColumnDef) bool {
		return c.Kind != segment.KindTag && !slices.Contains(fields, c.Name)
	})
}

// writeBlock writes at most limit rows of a Block and returns how many may still follow.
func writeBlock(out *stream, e encoder, b *segment.Block, limit int64) (int64, error) {
	if err := e.block(b); err != nil {
		return 0, err
	}
	row := 0
	for _, run := range b.Runs {
		e.series(run.Key)
		for end := row + run.Rows; row < end; row++ {
			if limit == 0 {
				return 0, nil
			}
			before := len(out.buf)
			if out.buf = e.row(out.buf, row); len(out.buf) > before {
				limit--
			}
			if err := out.writeFull(); err != nil {
				return 0, err
			}
		}
	}
	return limit, out.flushAtTimes()
}
