package ingest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// Fault is the kind of reason for which a line was refused.
type Fault uint8

// The kinds of faults.
const (
	FaultSyntax    Fault = iota // not line protocol, or a value that can't be stored
	FaultReserved               // a tag or field that is called time
	FaultTime                   // a timestamp outside of the range of times
	FaultPoint                  // the batch refused the point: its tags, types or number of columns
	FaultLineBytes              // longer than LineLimits.LineBytesMax, and so on
	FaultTags
	FaultFields
	FaultKeyBytes
	FaultStringBytes
	faultKinds
)

// String names the kind as metrics show it.
func (f Fault) String() string {
	return [...]string{
		"syntax", "reserved", "time", "point", "line_bytes", "tags", "fields", "key_bytes", "string_bytes",
	}[f]
}

// Faults lists every kind of fault, for metrics that start at zero.
func Faults() []Fault {
	faults := make([]Fault, faultKinds)
	for i := range faults {
		faults[i] = Fault(i)
	}
	return faults
}

// LineError says why a line was refused. Both texts are bounded and hold printable characters only.
type LineError struct {
	Line   int // physical line in the body, from 1
	Fault  Fault
	Reason string
	Text   string // how the line begins
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Bounds of what is told of bad lines.
const (
	LineErrorsMax      = 10  // that a Result describes
	reasonBytesMax     = 256 // of one LineError
	lineExcerptBytes   = 128
	partExcerptBytes   = 48
	lineExcerptScanned = 4 * lineExcerptBytes // so that a huge line costs no more than a long one
)

// Errors of bodies as a whole.
var (
	// ErrTextTooLarge means that a body is longer than TextBytesMax.
	ErrTextTooLarge = errors.New("text is longer than offsets into it may be")
	// ErrTooManyLines means that a body has more lines than LineLimits.LinesMax.
	ErrTooManyLines = errors.New("the body has more lines than limits.lines_per_request allows")
	// ErrTooManyPoints means that a body has more points than LineLimits.PointsMax.
	ErrTooManyPoints = errors.New("the body has more points than limits.points_per_request allows")
)

// errRefused tells that the current line was refused and counted.
var errRefused = errors.New("line refused")

// errControlBytes tells that the Decoder refused the current line, whose names hold control bytes: they are shielded
// now.
var errControlBytes = errors.New("control bytes in names")

// decodeReason returns the Decoder's reason without its position, which counts from where the Decoder started.
func decodeReason(err error) string {
	if syntax, ok := errors.AsType[*lineprotocol.DecodeError](err); ok {
		err = syntax.Err
	}
	return err.Error()
}

// excerpt is a part of a line, of which an error quotes the beginning.
type excerpt []byte

func (e excerpt) String() string {
	if len(e) > partExcerptBytes {
		return strconv.Quote(string(e[:partExcerptBytes])) + "…"
	}
	return strconv.Quote(string(e))
}

// sanitize escapes whatever is not printable and cuts the text at a number of bytes.
func sanitize(text string, bytesMax int) string {
	const cut = "…"
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		shown := text[:size]
		if !strconv.IsPrint(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.Quote(shown)
			shown = quoted[1 : len(quoted)-1]
		}
		if b.Len()+len(shown) > bytesMax {
			return b.String() + cut
		}
		b.WriteString(shown)
		text = text[size:]
	}
	return b.String()
}
