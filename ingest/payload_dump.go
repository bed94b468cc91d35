package ingest

import (
	"io"
	"math"
	"strconv"

	"lineweir/segment"
	"lineweir/shard"
)

// DumpPayload writes the points of a payload as line protocol with timestamps in nanoseconds, behind a comment that
// names the database. Written back with precision ns, it makes the same points.
func DumpPayload(payload []byte, w io.Writer) error {
	opened, err := openPayload(payload)
	if err != nil {
		return err
	}
	reader := payloadReaders.Get().(*payloadReader)
	defer payloadReaders.Put(reader)
	dump := dumpWriter{w: w}
	dump.buf = append(strconv.AppendQuote(append(dump.buf, "# database "...), opened.database), '\n')
	if err := reader.read(&opened, &dump); err != nil {
		return err
	}
	return dump.flush()
}

// DumpDrop writes a comment that tells of a drop: of a measurement of the databases, or, without one, of the databases
// whole.
func DumpDrop(databases []string, measurement string, w io.Writer) error {
	var text []byte
	for _, database := range databases {
		text = append(text, "# drop "...)
		if measurement != "" {
			text = append(strconv.AppendQuote(append(text, "measurement "...), measurement), " of "...)
		}
		text = append(strconv.AppendQuote(append(text, "database "...), database), '\n')
	}
	_, err := w.Write(text)
	return err
}

// dumpWriter is an Appender that writes points as text.
type dumpWriter struct {
	w   io.Writer
	buf []byte
}

const dumpBufferBytes = 64 << 10

// Append writes one line.
func (d *dumpWriter) Append(p *shard.Point) error {
	d.buf = appendPoint(d.buf, p)
	if len(d.buf) < dumpBufferBytes {
		return nil
	}
	return d.flush()
}

func (d *dumpWriter) flush() error {
	_, err := d.w.Write(d.buf)
	d.buf = d.buf[:0]
	return err
}

// appendPoint appends the line that parses to the point.
func appendPoint(dst []byte, p *shard.Point) []byte {
	dst = appendEscaped(dst, p.Measurement, false)
	for i := range p.Tags {
		dst = appendEscaped(append(dst, ','), p.Tags[i].Key, true)
		dst = appendEscaped(append(dst, '='), p.Tags[i].Value, true)
	}
	separator := byte(' ')
	for i := range p.Fields {
		dst = appendEscaped(append(dst, separator), p.Fields[i].Key, true)
		dst = appendValue(append(dst, '='), &p.Fields[i])
		separator = ','
	}
	dst = strconv.AppendInt(append(dst, ' '), p.Time, 10)
	return append(dst, '\n')
}

// appendEscaped appends a name. Only a measurement takes an equals sign as it is: escaped, it would keep the
// backslash.
func appendEscaped(dst, name []byte, equals bool) []byte {
	for _, c := range name {
		if c == ',' || c == ' ' || c == '=' && equals {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

func appendValue(dst []byte, f *shard.Field) []byte {
	switch f.Kind {
	case segment.KindFloat:
		return strconv.AppendFloat(dst, math.Float64frombits(f.Number), 'g', -1, 64)
	case segment.KindInt:
		return append(strconv.AppendInt(dst, int64(f.Number), 10), 'i')
	case segment.KindUint:
		return append(strconv.AppendUint(dst, f.Number, 10), 'u')
	case segment.KindBool:
		return strconv.AppendBool(dst, f.Number != 0)
	default:
		return appendQuoted(dst, f.String)
	}
}

func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}
