package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
)

// timeDigits is the length of a time in a body: nanoseconds from timeMin on.
const timeDigits = 19

// corpus is the bodies that a run sends over and over, each round with later times.
type corpus struct {
	bodies    []draft
	first     []int64 // lines before each body; the last entry is the number of all lines
	start     int64   // earliest time
	span      int64   // nanoseconds from a round to the next
	sizeBytes int64
}

// draft is a body whose times are those of the first round.
type draft struct {
	text  []byte
	times []uint32 // where the digits of each line's time begin
}

// lines is how many lines the corpus has.
func (c *corpus) lines() int64 { return c.first[len(c.first)-1] }

// bodyBytesMax is the length of the longest body.
func (c *corpus) bodyBytesMax() int {
	longest := 0
	for i := range c.bodies {
		longest = max(longest, len(c.bodies[i].text))
	}
	return longest
}

// corpusOptions bound a corpus.
type corpusOptions struct {
	bytesMax  int64
	lineBytes int64 // what each line costs beside its text and its entry in draft.times
	linesMax  int64 // as many as can be sent; 0: unknown
}

// timeEntryBytes is what draft.times takes for a line.
const timeEntryBytes = 4

// buildCorpus makes the bodies of a workload, until ctx ends.
func buildCorpus(ctx context.Context, w Workload, o corpusOptions) (*corpus, error) {
	if w.File == "" {
		if need := w.shapeBytes(); need > o.bytesMax {
			return nil, fmt.Errorf("%w: %d series need %d bytes, more than %d", ErrMemory, w.Series, need, o.bytesMax)
		}
		g := newGenerated(w)
		return buildGenerated(ctx, w, g, int64(g.shape.series()), o)
	}
	file, err := openFile(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer file.Close()
	c := &corpus{start: w.Start.UnixNano(), span: file.span + int64(w.Interval)}
	whole, err := c.fill(ctx, file, w.Batch, o)
	if err != nil {
		return nil, err
	}
	if !whole {
		return nil, fmt.Errorf("%w: %d lines of %s need more than %d bytes", ErrMemory, c.lines(), w.File, o.bytesMax)
	}
	return c, nil
}

// buildGenerated makes as many whole steps as fit, so that a series has no two points at one time when the bodies are
// sent again; all bodies full, if that can be had.
func buildGenerated(
	ctx context.Context, w Workload, g *generated, series int64, o corpusOptions,
) (*corpus, error) {
	c := &corpus{start: w.Start.UnixNano()}
	whole, err := c.fill(ctx, g, w.Batch, o)
	if err != nil {
		return nil, err
	}
	steps := c.lines() / series
	if steps == 0 && !whole {
		return nil, fmt.Errorf("%w: %d of %d series need %d bytes", ErrMemory, c.lines(), series, o.bytesMax)
	}
	if !whole {
		full := int64(w.Batch) / commonDivisor(int64(w.Batch), series) // after so many steps the last body is full
		if steps > full {
			steps -= steps % full
		}
		c.cut(steps * series)
	}
	c.span = max(1, (c.lines()+series-1)/series) * int64(w.Interval)
	return c, nil
}

// fill adds bodies until the source ends, all lines that can be sent are there, or the next body would take the corpus
// beyond its bound. It reports whether that was not the case.
func (c *corpus) fill(ctx context.Context, from source, batch int, o corpusOptions) (whole bool, err error) {
	c.first = append(c.first, 0)
	var body draft
	for o.linesMax == 0 || c.lines() < o.linesMax {
		if ctx.Err() != nil {
			return false, errUnbegun
		}
		body = draft{text: body.text[:0], times: body.times[:0]}
		ended, err := body.fill(from, batch)
		if err != nil {
			return false, err
		}
		if len(body.times) == 0 {
			return true, nil
		}
		size := int64(len(body.text)) + int64(len(body.times))*(timeEntryBytes+o.lineBytes)
		if c.sizeBytes+size > o.bytesMax {
			return false, nil
		}
		c.sizeBytes += size
		c.bodies = append(c.bodies, body.clone())
		c.first = append(c.first, c.lines()+int64(len(body.times)))
		if ended {
			return true, nil
		}
	}
	return true, nil
}

// cut drops all lines but the first ones.
func (c *corpus) cut(lines int64) {
	last := sort.Search(len(c.bodies), func(i int) bool { return c.first[i+1] >= lines })
	c.bodies, c.first = c.bodies[:last+1], c.first[:last+2]
	body := &c.bodies[last]
	body.times = body.times[:lines-c.first[last]]
	body.text = body.text[:body.length(len(body.times))]
	c.first[last+1] = lines
}

// fill adds at most so many lines and reports whether the source has ended.
func (d *draft) fill(from source, lines int) (ended bool, err error) {
	for range lines {
		var at int64
		d.text, at, err = from.next(d.text)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if at < timeMin {
			return false, fmt.Errorf("a line has the time %d, must be at least %d", at, int64(timeMin))
		}
		if len(d.text) > math.MaxUint32-timeDigits {
			return false, fmt.Errorf("%w: a body has %d bytes", ErrMemory, len(d.text))
		}
		d.times = append(d.times, uint32(len(d.text)))
		d.text = append(strconv.AppendInt(d.text, at, 10), '\n')
	}
	return false, nil
}

func (d *draft) clone() draft {
	copied := draft{text: make([]byte, len(d.text)), times: make([]uint32, len(d.times))}
	copy(copied.text, d.text)
	copy(copied.times, d.times)
	return copied
}

// length is how many bytes the first lines have.
func (d *draft) length(lines int) int {
	if lines == 0 {
		return 0
	}
	return int(d.times[lines-1]) + timeDigits + 1
}

// appendLines appends the first lines of the body, their times moved forward.
func (d *draft) appendLines(dst []byte, lines int, by int64) []byte {
	begin := len(dst)
	dst = append(dst, d.text[:d.length(lines)]...)
	if by == 0 {
		return dst
	}
	var plain, moved [timeDigits]byte // lines of a step have the same time
	for _, offset := range d.times[:lines] {
		digits := (*[timeDigits]byte)(dst[begin+int(offset):])
		if *digits != plain {
			plain, moved = *digits, *digits
			moveTime(&moved, by)
		}
		*digits = moved
	}
	return dst
}

func moveTime(digits *[timeDigits]byte, by int64) {
	at := by
	power := int64(1)
	for i := timeDigits - 1; i >= 0; i-- {
		at += int64(digits[i]-'0') * power
		power *= 10
	}
	for i := timeDigits - 1; i >= 0; i-- {
		digits[i] = '0' + byte(at%10)
		at /= 10
	}
}

func commonDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
