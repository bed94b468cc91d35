package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// lineBytesMax bounds a line of a file that is replayed.
const lineBytesMax = 1 << 20

// fileSource yields the lines of a file as they are, their times moved so that the earliest is that of the workload.
// A line without a time gets the one of the line before it and a millisecond more.
type fileSource struct {
	file  *os.File
	lines *lineReader
	last  int64 // time of the last line, in nanoseconds
	unit  int64 // of the file's times
	shift int64 // from the file's times to those of the run
	span  int64 // from the earliest time to the latest
}

// openFile reads the file once, to learn its times and to reject what is no line protocol before anything is sent.
func openFile(ctx context.Context, w Workload) (*fileSource, error) {
	info, err := os.Stat(w.File)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe may take for ever
		return nil, fmt.Errorf("%s is no regular file, and it is read more than once", w.File)
	}
	file, err := os.Open(w.File)
	if err != nil {
		return nil, err
	}
	f := &fileSource{file: file, unit: int64(w.FilePrecision)}
	earliest, latest, err := f.survey(ctx)
	if err == nil {
		err = f.rewind()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.shift, f.span = w.Start.UnixNano()-earliest, latest-earliest
	return f, nil
}

func (f *fileSource) survey(ctx context.Context) (earliest, latest int64, err error) {
	if err = f.rewind(); err != nil {
		return 0, 0, err
	}
	earliest, latest = math.MaxInt64, math.MinInt64
	var line []byte
	for {
		if ctx.Err() != nil {
			return 0, 0, errUnbegun
		}
		var at int64
		line, at, err = f.next(line[:0])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
		earliest, latest = min(earliest, at), max(latest, at)
	}
	if earliest > latest {
		return 0, 0, fmt.Errorf("%s has no line that could be sent", f.file.Name())
	}
	if latest-earliest < 0 || latest-earliest > math.MaxInt64/4 {
		return 0, 0, fmt.Errorf("%s: its times lie too far apart", f.file.Name())
	}
	return earliest, latest, nil
}

func (f *fileSource) rewind() error {
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s again: %w", f.file.Name(), err)
	}
	f.lines, f.last = &lineReader{source: bufio.NewReaderSize(f.file, 64<<10)}, -int64(time.Millisecond)
	return nil
}

func (f *fileSource) Close() error { return f.file.Close() }

func (f *fileSource) next(dst []byte) ([]byte, int64, error) {
	for {
		line, err := f.lines.next()
		if errors.Is(err, io.EOF) {
			return dst, 0, io.EOF
		}
		if err == nil && (len(line) == 0 || line[0] == '#') {
			continue
		}
		var at int64
		if err == nil {
			line, at, err = f.split(line)
		}
		if err != nil {
			return dst, 0, fmt.Errorf("%s: line %d: %w", f.file.Name(), f.lines.first, err)
		}
		f.last = at
		return append(append(dst, line...), ' '), at + f.shift, nil
	}
}

// split checks a line and cuts off its time.
func (f *fileSource) split(line []byte) (head []byte, at int64, err error) {
	decoder := lineprotocol.NewDecoderWithBytes(line)
	if !decoder.Next() {
		return nil, 0, errors.New("this is no line protocol")
	}
	p, err := pointOf(decoder)
	if err != nil {
		return nil, 0, err
	}
	if !p.timed {
		return line, f.last + int64(time.Millisecond), nil
	}
	if p.at > math.MaxInt64/f.unit || p.at < math.MinInt64/f.unit {
		return nil, 0, errors.New("the time is out of range")
	}
	head = line[:bytes.LastIndexByte(line, ' ')] // behind the last space stands the time
	return bytes.TrimRight(head, " "), p.at * f.unit, nil
}

// lineReader splits line protocol into lines. A line feed inside a string field ends no line.
type lineReader struct {
	source *bufio.Reader
	line   []byte
	number int // physical lines read
	first  int // physical line at which the last line began
}

// next returns a line without its end and without blanks around it, valid until the next call.
func (r *lineReader) next() ([]byte, error) {
	r.line, r.first = r.line[:0], r.number+1
	var scan lineScan
	for {
		c, err := r.source.ReadByte()
		if errors.Is(err, io.EOF) && len(r.line) > 0 {
			return bytes.TrimSpace(r.line), nil
		}
		if err != nil {
			return nil, err
		}
		if c == '\n' {
			r.number++
		}
		if c == '\n' && !scan.quoted {
			return bytes.TrimSpace(r.line), nil
		}
		if len(r.line) == lineBytesMax {
			return nil, fmt.Errorf("the line has more than %d bytes", lineBytesMax)
		}
		scan.step(c, len(r.line) == 0)
		r.line = append(r.line, c)
	}
}

// lineScan follows a line as far as it takes to know whether it is inside a string.
type lineScan struct {
	fields  bool // behind measurement and tags
	quoted  bool
	escaped bool // the last byte was a backslash that counts
	value   bool // the last byte was the = before a value
	comment bool
}

func (s *lineScan) step(c byte, first bool) {
	value := s.value
	s.value = false
	switch {
	case s.comment:
	case first && c == '#':
		s.comment = true
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case s.quoted:
		s.quoted = c != '"'
	case c == ' ' && !first:
		s.fields = true
	case c == '=':
		s.value = s.fields
	case c == '"' && value:
		s.quoted = true
	}
}
