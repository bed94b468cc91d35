package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"lineweir/shard"
)

// Appender takes the points of a body; *shard.Batch is the one of the write path. A point and all that it refers to
// are valid during the call only, and slices of it must not be appended to. A *shard.PointError refuses the one point.
type Appender interface {
	Append(p *shard.Point) error
}

// Parser turns bodies of line protocol into points. It is meant to be reused, by one goroutine at a time.
type Parser struct {
	limits      LineLimits
	lines       lineScanner
	decoder     *lineprotocol.Decoder
	stale       bool   // the Decoder does not stand at the next line
	shield      shield // of a line with control bytes in its names
	shielded    bool   // the Decoder reads the shield's text
	precision   Precision
	defaultTime int64
	point       shard.Point
	strings     []byte // unescaped strings of the line
	result      Result
	kept        keptText
}

// Result tells what became of a body.
type Result struct {
	Points  int             // accepted
	Refused int             // lines
	Faults  [faultKinds]int // refused lines by Fault
	Errors  []LineError     // of the first LineErrorsMax refused lines

	// Accepted covers the lines that were accepted, unless all were. It belongs to the Parser until its next Parse.
	Accepted []Range
}

// Range is a part of a body, from Start to before End.
type Range struct{ Start, End uint32 }

// AppendAccepted appends the accepted lines of the body that the result describes. They parse to the same points.
func (r *Result) AppendAccepted(dst, body []byte) []byte {
	if r.Refused == 0 {
		return append(dst, body...)
	}
	for _, kept := range r.Accepted {
		dst = append(dst, body[kept.Start:kept.End]...)
	}
	return dst
}

// keptText collects the ranges of accepted lines.
type keptText struct {
	from   int // end of the last refused line
	points int // accepted since then
}

// NewParser returns a Parser for lines within limits.
func NewParser(limits LineLimits) *Parser { return &Parser{limits: limits} }

// Parse hands every good line of the body to the Appender, in order, and reports the others. Lines without a timestamp
// get the default time, truncated to the precision. An error ends the parse: it is the Appender's, other than a
// *shard.PointError, or ErrTextTooLarge, ErrTooManyLines or ErrTooManyPoints.
func (p *Parser) Parse(body []byte, precision Precision, defaultTime time.Time, to Appender) (Result, error) {
	if len(body) > TextBytesMax {
		return Result{}, ErrTextTooLarge
	}
	p.start(body, precision, defaultTime)
	defer p.release()
	for p.lines.scan() {
		if p.lines.count > p.limits.LinesMax {
			break
		}
		switch err := p.parseLine(to); {
		case err == nil:
			p.result.Points++
			p.kept.points++
		case !errors.Is(err, errRefused):
			return Result{}, err
		}
		if p.result.Points > p.limits.PointsMax {
			return Result{}, ErrTooManyPoints
		}
	}
	if p.lines.count > p.limits.LinesMax {
		return Result{}, ErrTooManyLines
	}
	p.keep(len(body))
	return p.result, nil
}

// acceptedRangesKept bounds the memory for ranges that a Parser holds on to.
const acceptedRangesKept = 4096

func (p *Parser) start(body []byte, precision Precision, defaultTime time.Time) {
	ranges := p.result.Accepted[:0]
	if cap(ranges) > acceptedRangesKept {
		ranges = nil
	}
	p.result = Result{Accepted: ranges}
	p.kept = keptText{}
	p.precision, p.defaultTime = precision, precision.truncate(defaultTime.UnixNano())
	p.lines.reset(body)
	p.stale = true
}

// release drops what refers to the body, whose owner will reuse it.
func (p *Parser) release() {
	p.lines.text, p.decoder = nil, nil
	clear(p.point.Tags[:cap(p.point.Tags)])
	clear(p.point.Fields[:cap(p.point.Fields)])
	p.shield.release()
}

// parseLine hands the current line to the Appender.
func (p *Parser) parseLine(to Appender) error {
	line := &p.lines.line
	if line.end-line.begin > p.limits.LineBytesMax {
		p.stale = true
		return p.refuse(FaultLineBytes, "line is longer than %d bytes", p.limits.LineBytesMax)
	}
	if p.lines.text[line.end-1] == '\r' {
		p.stale = true
		return p.refuse(FaultSyntax, `the line ends in a carriage return, \r, which InfluxDB takes for a part of it`)
	}
	if p.stale || line.gap {
		p.decoder = lineprotocol.NewDecoderWithBytes(p.lines.text[line.start:])
	}
	p.decoder.Next()
	p.stale = false
	if err := p.readPoint(); err != nil {
		p.stale = !p.decoderRecovers()
		if errors.Is(err, errControlBytes) {
			err = p.readShielded()
		}
		if err != nil {
			return err
		}
	}
	err := to.Append(&p.point)
	if err == nil {
		return nil
	}
	if refusal, ok := errors.AsType[*shard.PointError](err); ok {
		return p.refuse(FaultPoint, "%s", refusal.Reason)
	}
	return fmt.Errorf("append line %d: %w", line.number, err)
}

// readShielded reads the current line from the copy that the shield has made of it.
func (p *Parser) readShielded() error {
	decoder := p.decoder
	p.decoder, p.shielded = lineprotocol.NewDecoderWithBytes(p.shield.text), true
	p.decoder.Next()
	err := p.readPoint()
	p.decoder, p.shielded = decoder, false
	return err
}

// decoderRecovers reports whether the Decoder, in whatever part of the current line it stopped, goes on at the end of
// the line by itself: nothing in the line hides a line break from it, or looks like one to it.
func (p *Parser) decoderRecovers() bool {
	line := &p.lines.line
	return line.plain && bytes.IndexByte(p.lines.text[line.start:line.end], '\r') < 0
}

// keep adds the accepted lines up to the offset to the ranges, once there is a refused line.
func (p *Parser) keep(end int) {
	if p.kept.points > 0 && p.result.Refused > 0 {
		p.result.Accepted = append(p.result.Accepted, Range{uint32(p.kept.from), uint32(end)})
	}
}
