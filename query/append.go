package query

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"lineweir/segment"
)

// appendFloat appends the shortest text that reads back as the same float: without an exponent where that is short, as
// ECMAScript does.
func appendFloat(dst []byte, value float64) []byte {
	format := byte('f')
	if size := math.Abs(value); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, value, format, -1, 64)
}

// appendNumber appends a value that is not a string, without a mark of its type.
func appendNumber(dst []byte, kind segment.Kind, bits uint64) []byte {
	switch kind {
	case segment.KindFloat:
		return appendFloat(dst, math.Float64frombits(bits))
	case segment.KindInt:
		return strconv.AppendInt(dst, int64(bits), 10)
	case segment.KindUint:
		return strconv.AppendUint(dst, bits, 10)
	case segment.KindBool:
		return strconv.AppendBool(dst, bits != 0)
	default:
		panic("BUG: a field of kind " + kind.String() + " has no number")
	}
}

// appendEscaped appends text with a backslash before each byte that is one of special. Backslashes are left alone: line
// protocol reads one literally unless a special byte follows, and then the last of a run is the escape.
func appendEscaped(dst, text []byte, special string) []byte {
	for _, c := range text {
		if strings.IndexByte(special, c) >= 0 {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

// appendJSONString appends text as a JSON string. Bytes that are not UTF-8 become U+FFFD; ingest accepts none.
func appendJSONString(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for len(text) > 0 {
		c := text[0]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c < ' ' || c == 0x7f:
			dst = append(dst, `\u00`...)
			dst = append(dst, digits[c>>4], digits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRune(text)
			dst = utf8.AppendRune(dst, r)
			text = text[size:]
			continue
		}
		text = text[1:]
	}
	return append(dst, '"')
}

// appendCSVText appends text as a CSV cell. The empty string is quoted, because nothing at all means a missing value.
func appendCSVText(dst, text []byte) []byte {
	if !needsCSVQuotes(text) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func needsCSVQuotes(text []byte) bool {
	if len(text) == 0 || text[0] == ' ' || text[len(text)-1] == ' ' {
		return true
	}
	for _, c := range text {
		if c == '"' || c == ',' || c == '\n' || c == '\r' {
			return true
		}
	}
	return false
}
