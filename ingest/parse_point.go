package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"lineweir/segment"
	"lineweir/shard"
)

// reservedKey names the column of timestamps, so no tag and no field may have it.
const reservedKey = "time"

// seriesKeyFieldBytes stand between the key of a series and that of a field in InfluxDB 1 and 2. We count as they do,
// but for escapes: the measurement, two bytes and key and value for each tag, then four bytes and the longest field
// key.
const seriesKeyFieldBytes = 4

// readPoint reads the line that the Decoder stands at.
func (p *Parser) readPoint() error {
	name, err := p.decoder.Measurement()
	if err != nil {
		return p.refuseSyntax(err)
	}
	if p.shielded {
		name = unshield(name)
	}
	p.point.Measurement, p.point.Control = name, p.shielded
	keyBytes, err := p.readTags()
	if err != nil {
		return err
	}
	if err := p.readFields(len(name) + keyBytes); err != nil {
		return err
	}
	return p.readTime()
}

// readTags returns how many bytes the tags add to the series key.
func (p *Parser) readTags() (keyBytes int, err error) {
	tags := p.point.Tags[:0]
	for {
		key, value, err := p.decoder.NextTag()
		if err != nil {
			return 0, p.refuseSyntax(err)
		}
		if key == nil {
			break
		}
		if p.shielded {
			key, value = unshield(key), unshield(value)
		}
		if string(key) == reservedKey {
			return 0, p.refuse(FaultReserved, "a tag can't be called %s", reservedKey)
		}
		if len(tags) == p.limits.TagsMax {
			return 0, p.refuse(FaultTags, "line has more than %d tags", p.limits.TagsMax)
		}
		tags = append(tags, shard.Tag{Key: key, Value: value})
		keyBytes += len(key) + len(value) + 2
	}
	p.point.Tags = tags
	return keyBytes, nil
}

// readFields reads one or more fields; keyBytes is the length of the series key.
func (p *Parser) readFields(keyBytes int) error {
	p.strings = p.strings[:0]
	fields := p.point.Fields[:0]
	strings, keyBytesMax := 0, p.limits.SeriesKeyBytesMax-keyBytes-seriesKeyFieldBytes
	for {
		key, kind, raw, err := p.decoder.NextFieldBytes()
		if err != nil {
			return p.refuseSyntax(err)
		}
		if key == nil {
			break
		}
		if p.shielded {
			key = unshield(key)
		}
		if err := p.checkFieldKey(key, len(fields), keyBytesMax); err != nil {
			return err
		}
		fields = append(fields, shard.Field{Key: key})
		field := &fields[len(fields)-1]
		if kind == lineprotocol.String {
			err = p.readString(field, raw, strings)
			strings++
		} else {
			err = p.readNumber(field, kind, raw)
		}
		if err != nil {
			return err
		}
	}
	p.point.Fields = fields
	return nil
}

func (p *Parser) checkFieldKey(key []byte, fields, keyBytesMax int) error {
	switch {
	case string(key) == reservedKey:
		return p.refuse(FaultReserved, "a field can't be called %s", reservedKey)
	case fields == p.limits.FieldsMax:
		return p.refuse(FaultFields, "line has more than %d fields", p.limits.FieldsMax)
	case len(key) > keyBytesMax:
		return p.refuse(FaultKeyBytes, "max key length exceeded: measurement, tags and field key take more than %d bytes",
			p.limits.SeriesKeyBytesMax)
	default:
		return nil
	}
}

// readString sets the value of the line's string number index. The Decoder turns \n, \r and \t into control
// characters; InfluxDB, of every version, keeps them as they are. So a string with a backslash is read from the text.
func (p *Parser) readString(field *shard.Field, raw []byte, index int) error {
	line := &p.lines.line
	if 2*index+1 >= len(line.quotes) {
		panic("BUG: the Decoder found a string where the line scanner found none")
	}
	field.Kind, field.String = segment.KindString, raw
	written := p.lines.text[line.quotes[2*index]+1 : line.quotes[2*index+1]]
	if bytes.IndexByte(written, '\\') >= 0 {
		start := len(p.strings)
		p.strings = appendUnescaped(p.strings, written)
		field.String = p.strings[start:]
	}
	if len(field.String) > p.limits.StringBytesMax {
		return p.refuse(FaultStringBytes, "field %s: string is longer than %d bytes",
			excerpt(field.Key), p.limits.StringBytesMax)
	}
	return nil
}

// appendUnescaped appends a string without the backslashes that escape a quote or another backslash.
func appendUnescaped(dst, written []byte) []byte {
	for {
		i := bytes.IndexByte(written, '\\')
		if i < 0 || i+1 == len(written) {
			return append(dst, written...)
		}
		dst = append(dst, written[:i]...)
		if next := written[i+1]; next != '"' && next != '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, written[i+1])
		written = written[i+2:]
	}
}

// readNumber sets the value of a field of any kind but string.
func (p *Parser) readNumber(field *shard.Field, kind lineprotocol.ValueKind, raw []byte) error {
	var err error
	switch kind {
	case lineprotocol.Float:
		var value float64
		value, err = parseFloat(raw)
		field.Kind, field.Number = segment.KindFloat, math.Float64bits(value)
	case lineprotocol.Int:
		var value int64
		value, err = parseInt(raw)
		field.Kind, field.Number = segment.KindInt, uint64(value)
	case lineprotocol.Uint:
		field.Kind = segment.KindUint
		field.Number, err = parseUint(raw)
	default:
		field.Kind = segment.KindBool
		field.Number, err = parseBool(raw)
	}
	if err != nil {
		return p.refuse(FaultSyntax, "field %s: %s %s is %w", excerpt(field.Key), field.Kind, excerpt(raw), err)
	}
	return nil
}

func (p *Parser) readTime() error {
	raw, err := p.decoder.TimeBytes()
	if err != nil {
		return p.refuseSyntax(err)
	}
	if raw == nil {
		p.point.Time = p.defaultTime
		return nil
	}
	timestamp, err := parseInt(raw)
	if errors.Is(err, errNumberSyntax) {
		return p.refuse(FaultSyntax, "timestamp %s is %w", excerpt(raw), err)
	}
	nanoseconds, ok := p.precision.nanoseconds(timestamp)
	if err != nil || !ok {
		return p.refuse(FaultTime, "time outside range: timestamp %s in precision %s", excerpt(raw), p.precision)
	}
	p.point.Time = nanoseconds
	return nil
}

// refuseSyntax refuses the current line for an error of the Decoder. It returns errControlBytes instead if the line may
// be read from a copy.
func (p *Parser) refuseSyntax(err error) error {
	line := &p.lines.line
	if !p.shielded && p.shield.cover(p.lines.text, line) {
		return errControlBytes
	}
	if bytes.IndexByte(p.lines.text[line.start:line.end], ' ') < 0 {
		return p.refuse(FaultSyntax, "missing fields")
	}
	if p.shielded {
		return p.refuse(FaultSyntax, "%s", shieldedReason(decodeReason(err)))
	}
	return p.refuse(FaultSyntax, "%s", decodeReason(err))
}

// refuse counts the current line as bad and, if it is one of the first, describes it.
func (p *Parser) refuse(fault Fault, format string, args ...any) error {
	line := &p.lines.line
	p.result.Refused++
	p.keep(line.begin)
	p.result.Faults[fault]++
	p.kept = keptText{from: p.lines.next}
	if len(p.result.Errors) < LineErrorsMax {
		begin := p.lines.text[line.start:min(line.end, line.start+lineExcerptScanned)]
		p.result.Errors = append(p.result.Errors, LineError{
			Line: line.number, Fault: fault,
			Reason: sanitize(fmt.Errorf(format, args...).Error(), reasonBytesMax),
			Text:   sanitize(string(begin), lineExcerptBytes),
		})
	}
	return errRefused
}
