package ingest

import "bytes"

// lineSpan is one line that may hold a point: neither blank nor a comment. Where it ends does not depend on whether it
// is a valid point, so no text inside a string of a bad line can become a point.
type lineSpan struct {
	begin  int // its first byte
	start  int // its first byte that is no white space
	end    int // its line break, or the end of the text
	number int // physical line of its first byte, from 1

	// gap tells that the Decoder can't go from the end of the line before to start by itself.
	gap bool
	// plain tells that the line holds neither quote nor backslash, so that nothing in it can hide a line break.
	plain bool
	// quotes holds the offsets of the quotes that open and close strings, unless the line is plain.
	quotes []int
}

// lineScanner splits a text into lines. Its work is linear in the length of the text, whatever the text holds.
type lineScanner struct {
	line   lineSpan
	text   []byte
	next   int // where the following line begins
	number int // physical line at next
	count  int // lines that were passed, of any kind
}

// reset starts with another text.
func (s *lineScanner) reset(text []byte) {
	s.text, s.next, s.number, s.count = text, 0, 1, 0
}

// scan advances to the next line that may hold a point, and reports whether there is one.
func (s *lineScanner) scan() bool {
	s.line.gap = false
	for s.next < len(s.text) {
		start := s.skipSpace(s.next)
		if s.skipBlank(start) || s.skipComment(start) {
			continue
		}
		s.take(start)
		return true
	}
	return false
}

// skipSpace passes spaces, and tabs as InfluxDB does and the Decoder doesn't.
func (s *lineScanner) skipSpace(i int) int {
	for ; i < len(s.text); i++ {
		switch s.text[i] {
		case ' ':
		case '\t':
			s.line.gap = true
		default:
			return i
		}
	}
	return i
}

// skipBlank passes a line without content, and reports whether there was one.
func (s *lineScanner) skipBlank(start int) bool {
	if start < len(s.text) && s.text[start] != '\n' {
		return false
	}
	s.pass(start)
	return true
}

// skipComment passes a comment. It ends at the first line break: quotes mean nothing in it.
func (s *lineScanner) skipComment(start int) bool {
	if s.text[start] != '#' {
		return false
	}
	end := lineBreak(s.text, start)
	comment := bytes.TrimSuffix(s.text[start:end], []byte{'\r'})
	s.line.gap = s.line.gap || bytes.ContainsFunc(comment, isControl)
	s.pass(end)
	return true
}

// isControl reports whether the Decoder stumbles over a character of a comment.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// pass moves behind the line break at end, if there is one.
func (s *lineScanner) pass(end int) {
	s.next = end
	s.count++
	if end < len(s.text) {
		s.next++
		s.number++
	}
}

// lineBreak returns the offset of the first line break from i on, or the length of the text.
func lineBreak(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}

// isOneLine reports whether a text, or what is known of one, is a single line that may hold a point. Nothing is known
// of an empty one.
func isOneLine(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	var s lineScanner
	s.reset(text)
	return s.scan() && len(bytes.TrimSpace(text[:s.line.begin])) == 0 && len(bytes.TrimSpace(text[s.next:])) == 0
}

// take sets the line that starts at start.
func (s *lineScanner) take(start int) {
	s.line.begin, s.line.start, s.line.number = s.next, start, s.number
	end := lineBreak(s.text, start)
	text := s.text[start:end]
	s.line.plain = bytes.IndexByte(text, '"') < 0 && bytes.IndexByte(text, '\\') < 0
	if !s.line.plain {
		end = s.findEnd(start)
		s.number += bytes.Count(s.text[start:end], []byte{'\n'})
	}
	s.line.end = end
	s.pass(end)
}

// findEnd returns where a line with quotes or backslashes ends, and notes its strings. For a line that the Decoder
// accepts that is where the Decoder ends it: a quote opens a string where a value may start, that is behind the first
// space that is not escaped, when the equals signs outnumber the commas; names take any other quote as it is.
func (s *lineScanner) findEnd(start int) int {
	s.line.quotes = s.line.quotes[:0]
	fields, equals, commas := false, 0, 0
	i := start
	for i < len(s.text) {
		switch s.text[i] {
		case '\n':
			return i
		case '\\':
			i = skipEscape(s.text, i)
			continue
		case ' ':
			fields = true
		case '=':
			equals++
			if !fields {
				equals = 0
			}
		case ',':
			commas++
			if !fields {
				commas = 0
			}
		case '"':
			if fields && equals > commas {
				i = s.skipString(i)
				continue
			}
		}
		i++
	}
	return i
}

// skipEscape passes a run of backslashes outside of strings, and the character that it escapes. A comma, equals sign
// or space is escaped by any run, as names have it. A line break or quote is escaped by an odd run: as in InfluxDB, the
// next line is then a part of this one.
func skipEscape(text []byte, i int) int {
	start := i
	for i < len(text) && text[i] == '\\' {
		i++
	}
	if i == len(text) {
		return i
	}
	switch text[i] {
	case ',', '=', ' ':
		return i + 1
	case '\n', '"':
		return i + (i-start)%2
	default:
		return i
	}
}

// skipString passes a string that opens at i and notes its quotes. A backslash hides any byte behind it. Without a
// closing quote the string takes all the text that is left.
func (s *lineScanner) skipString(i int) int {
	s.line.quotes = append(s.line.quotes, i)
	quote := -1
	for i++; i < len(s.text); {
		if quote < i {
			quote = bytes.IndexByte(s.text[i:], '"')
			if quote < 0 {
				return len(s.text)
			}
			quote += i
		}
		backslash := bytes.IndexByte(s.text[i:quote], '\\')
		if backslash < 0 {
			s.line.quotes = append(s.line.quotes, quote)
			return quote + 1
		}
		i += backslash + 2
	}
	return len(s.text)
}
