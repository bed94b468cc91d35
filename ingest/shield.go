package ingest

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
)

// The Decoder takes no control byte in a name, and InfluxDB does: any of them, and after a backslash a line break too.
// So a line that the Decoder refuses, and whose names hold some that InfluxDB takes, is read a second time from a copy
// that has a shield in the place of each: shieldMark and two hexadecimal digits of the byte. The mark itself is
// shielded as well, by shieldedMark, so that no text can imitate a shield.
const (
	shieldMark       = "\ufdd0" // a noncharacter: no text is meant to hold it
	shieldMarkQuoted = `\ufdd0`
	shieldedMark     = 0xFF
	shieldBytes      = len(shieldMark) + 2

	// shieldsMax bounds the shields of a line, and so the length of its copy: measurement and tags can't hold more
	// bytes than this, whatever they are. A line that needs more stays refused.
	shieldsMax = seriesKeyBytesLimit
	// shieldTextKept bounds the memory for copies that a Parser holds on to.
	shieldTextKept = 64 << 10
)

// section is a part of a line, as the backslashes, commas, equals signs and spaces in it divide it.
type section uint8

const (
	sectionMeasurement section = iota
	sectionTags
	sectionFieldKey
	sectionFieldValue
	sectionTime
)

// shield makes the copy of a line.
type shield struct {
	text    []byte
	count   int // control bytes that were shielded
	section section
	fresh   bool // a field key may begin here
}

// cover copies a line into text and shields what InfluxDB takes in its names. It reports whether there was any.
func (s *shield) cover(text []byte, line *lineSpan) bool {
	if !holdsControl(text[line.start:line.end]) {
		return false
	}
	*s = shield{text: s.text[:0]}
	quotes := line.quotes
	if line.plain {
		quotes = nil
	}
	text = text[:line.end]
	for i := line.start; i < len(text) && s.count <= shieldsMax; {
		i = s.copyOrdinary(text, i)
		if i == len(text) {
			break
		}
		switch c := text[i]; {
		case len(quotes) > 0 && i == quotes[0]:
			i = s.copyString(text, &quotes)
		case c == '\\':
			i = s.copyEscape(text, i)
		case isControl(rune(c)) && s.takes(c):
			s.add(c)
			i++
		case c == shieldMark[0] && s.section <= sectionFieldKey && bytes.HasPrefix(text[i:], []byte(shieldMark)):
			s.add(shieldedMark)
			i += len(shieldMark)
		default:
			s.pass(c)
			i++
		}
	}
	return 0 < s.count && s.count <= shieldsMax
}

// holdsControl reports whether a text holds a control byte.
func holdsControl(text []byte) bool {
	for _, c := range text {
		if isControl(rune(c)) {
			return true
		}
	}
	return false
}

// ordinary are the bytes that mean nothing, wherever they stand.
var ordinary = func() (set [256]bool) {
	for c := range set {
		set[c] = !isControl(rune(c)) && strings.IndexByte("\\\",= "+shieldMark[:1], byte(c)) < 0
	}
	return set
}()

// copyOrdinary copies what means nothing, and returns where it ends.
func (s *shield) copyOrdinary(text []byte, i int) int {
	start := i
	for i < len(text) && ordinary[text[i]] {
		i++
	}
	if i > start {
		s.text = append(s.text, text[start:i]...)
		s.fresh = false
	}
	return i
}

// takes reports whether InfluxDB, of every version, takes a control byte that is not escaped in the current section. In
// tags that holds for a tab too, though version 3 refuses it: whoever means it as a separator leaves an equals sign in
// the tag, which is refused. Elsewhere a tab may be meant as white space; so may NUL at the beginning of a name, where
// versions 1 and 2 skip it.
func (s *shield) takes(c byte) bool {
	switch s.section {
	case sectionMeasurement:
		return c != '\t' && c != 0
	case sectionTags:
		return true
	case sectionFieldKey:
		return c != '\t' && (c != 0 || !s.fresh)
	default:
		return false
	}
}

// takesEscaped reports whether a control byte behind a backslash is taken. All versions of InfluxDB do so in names; but
// a measurement with NUL no statement could name, because the parser of InfluxQL ends there.
func (s *shield) takesEscaped(c byte) bool {
	return s.section <= sectionFieldKey && (c != 0 || s.section != sectionMeasurement)
}

// add appends the shield of a byte.
func (s *shield) add(c byte) {
	s.text = append(s.text, shieldMark...)
	s.text = hex.AppendEncode(s.text, []byte{c})
	s.fresh = false
	if c != shieldedMark {
		s.count++
	}
}

// pass copies a byte that may end a section.
func (s *shield) pass(c byte) {
	s.text = append(s.text, c)
	switch {
	case s.section == sectionMeasurement && c == ',':
		s.section = sectionTags
	case s.section <= sectionTags && c == ' ', s.section == sectionFieldValue && c == ',':
		s.section, s.fresh = sectionFieldKey, true
	case s.section == sectionFieldKey && c == '=':
		s.section = sectionFieldValue
	case s.section == sectionFieldValue && c == ' ':
		s.section = sectionTime
	default:
		s.fresh = s.fresh && c == ' '
	}
}

// copyEscape copies a run of backslashes and what it escapes, which may be any control byte if the run is odd; compare
// skipEscape.
func (s *shield) copyEscape(text []byte, i int) int {
	start := i
	for i < len(text) && text[i] == '\\' {
		i++
	}
	s.text = append(s.text, text[start:i]...)
	s.fresh = false
	if i == len(text) {
		return i
	}
	c := text[i]
	switch {
	case c == ',' || c == '=' || c == ' ':
		s.text = append(s.text, c)
	case (i-start)%2 == 1 && isControl(rune(c)) && s.takesEscaped(c):
		s.add(c)
	default:
		return i
	}
	return i + 1
}

// copyString copies a string, to the end of the text if nothing closes it.
func (s *shield) copyString(text []byte, quotes *[]int) int {
	start, end := (*quotes)[0], len(text)
	if len(*quotes) > 1 {
		end = (*quotes)[1] + 1
	}
	*quotes = (*quotes)[min(2, len(*quotes)):]
	s.text = append(s.text, text[start:end]...)
	return end
}

// release lets go of a copy that was long.
func (s *shield) release() {
	if cap(s.text) > shieldTextKept {
		s.text = nil
	}
}

// unshield puts the bytes of a name back, in its place.
func unshield(name []byte) []byte {
	mark := bytes.IndexByte(name, shieldMark[0])
	if mark < 0 {
		return name
	}
	whole := name[:mark]
	for i := mark; i < len(name); {
		if name[i] == shieldMark[0] {
			if c, ok := shielded(name[i:], shieldMark); ok {
				whole = append(whole, c...)
				i += shieldBytes
				continue
			}
		}
		whole = append(whole, name[i])
		i++
	}
	return whole
}

// shielded returns what the shield that a text begins with stands for, if it begins with one. The mark may be quoted.
func shielded[T []byte | string](text T, mark string) (whole string, ok bool) {
	end := len(mark) + 2
	if len(text) < end || string(text[:len(mark)]) != mark {
		return "", false
	}
	var c [1]byte
	if _, err := hex.Decode(c[:], []byte(text[len(mark):end])); err != nil {
		return "", false
	}
	if c[0] == shieldedMark {
		return shieldMark, true
	}
	return string(c[:]), true
}

// shieldedReason is a reason of the Decoder that may quote a name with shields. Its String quotes the bytes instead.
type shieldedReason string

func (r shieldedReason) String() string {
	var b strings.Builder
	rest := string(r[:min(len(r), reasonShieldedMax)])
	for {
		i := strings.IndexByte(rest, '\\')
		if i < 0 || i+1 == len(rest) {
			return b.String() + rest
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		shown, size := rest[:2], 2 // an escape, or the beginning of one
		if whole, ok := shielded(rest, shieldMarkQuoted); ok {
			quoted := strconv.Quote(whole)
			shown, size = quoted[1:len(quoted)-1], len(shieldMarkQuoted)+2
		}
		b.WriteString(shown)
		rest = rest[size:]
	}
}

// reasonShieldedMax is more than a reason can be told of, with every byte of it quoted.
const reasonShieldedMax = 16 * reasonBytesMax
