package segment

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// The bytes that structure a series key. Names and values of tags are valid UTF-8, in which 0xFF does not occur, and
// the other ones are escaped in them. So no text can imitate them.
const (
	keyTagEnd     = 0x00 // after a tag's value
	keyValueStart = 0x01 // between a tag's key and its value
	keyEscape     = 0x02 // before a byte of a text that is one of these three
	keyEnd        = 0xFF // after the last tag

	keyEscapeShift = 3 // what is added to a byte that is escaped
)

// A series key is, for each tag in ascending order of its key, the key, 0x01, the value, 0x00, and at the end 0xFF:
//
//	h o s t 01 a 00 r e g i o n 01 e u 00 FF
//
// The bytes 0x00, 0x01 and 0x02 of a text stand as 02 03, 02 04 and 02 05: above the separators, below every other
// byte, and in their order.
//
// bytes.Compare of two keys is then the order of their tags over the union of tag keys, one after the other, where a
// series that lacks a tag comes after all that have it: the lacking key continues with a greater tag key or with 0xFF.
// That is the order that a segment declares as its sorting columns: tags ascending by name, nulls last.

// Tag is one key and value of a series. Its value is never empty: a missing tag and an empty value are the same series.
type Tag struct {
	Key, Value []byte
}

// AppendKey appends the key of the series with the given tags, which must ascend by key without duplicates.
func AppendKey(dst []byte, tags []Tag) []byte {
	for i := range tags {
		dst = AppendKeyTag(dst, tags[i].Key, tags[i].Value)
	}
	return AppendKeyEnd(dst)
}

// AppendKeyTag appends one tag to a key that AppendKeyEnd completes.
func AppendKeyTag(dst, key, value []byte) []byte {
	dst = appendKeyText(dst, key)
	dst = append(dst, keyValueStart)
	dst = appendKeyText(dst, value)
	return append(dst, keyTagEnd)
}

// appendKeyText appends the name or value of a tag, escaped.
func appendKeyText(dst, text []byte) []byte {
	for _, c := range text {
		if c <= keyEscape {
			dst = append(dst, keyEscape)
			c += keyEscapeShift
		}
		dst = append(dst, c)
	}
	return dst
}

// needsKeyEscape reports whether a name or value of a tag, or all of several, hold a byte that a key escapes.
func needsKeyEscape(text []byte) bool {
	for c := byte(0); c <= keyEscape; c++ {
		if bytes.IndexByte(text, c) >= 0 {
			return true
		}
	}
	return false
}

// keyText returns what a part of a key stands for: the part itself, unless something is escaped in it.
func keyText(part []byte) []byte {
	if bytes.IndexByte(part, keyEscape) < 0 {
		return part
	}
	text := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c == keyEscape && i+1 < len(part) {
			i++
			c = part[i] - keyEscapeShift
		}
		text = append(text, c)
	}
	return text
}

// AppendKeyEnd completes a key.
func AppendKeyEnd(dst []byte) []byte {
	return append(dst, keyEnd)
}

// EachTag calls fn with the name and value of every tag of a key, in ascending order of names. Both may alias the key.
func EachTag(key []byte, fn func(name, value []byte)) {
	escaped := bytes.IndexByte(key, keyEscape) >= 0
	for len(key) > 1 {
		var name, value []byte
		name, value, key = nextTag(key)
		if escaped {
			name, value = keyText(name), keyText(value)
		}
		fn(name, value)
	}
}

// nextTag splits the first tag off a well-formed key that has one. Both parts are as they stand in the key.
func nextTag(key []byte) (name, value, rest []byte) {
	start := bytes.IndexByte(key, keyValueStart)
	end := start + bytes.IndexByte(key[start:], keyTagEnd)
	return key[:start], key[start+1 : end], key[end+1:]
}

// ParseKey returns the tags of a key, which may alias it, or says what is wrong with it.
func ParseKey(key []byte) ([]Tag, error) {
	var tags []Tag
	rest := key
	for {
		if len(rest) == 0 {
			return nil, fmt.Errorf("series key %q: no end", key)
		}
		if rest[0] == keyEnd {
			break
		}
		start := bytes.IndexByte(rest, keyValueStart)
		end := bytes.IndexByte(rest, keyTagEnd)
		if start <= 0 || end <= start+1 {
			return nil, fmt.Errorf("series key %q: no tag at byte %d", key, len(key)-len(rest))
		}
		tag := Tag{Key: keyText(rest[:start]), Value: keyText(rest[start+1 : end])}
		if !utf8.Valid(tag.Key) || !utf8.Valid(tag.Value) {
			return nil, fmt.Errorf("series key %q: tag %d is not UTF-8", key, len(tags))
		}
		if len(tags) > 0 && bytes.Compare(tags[len(tags)-1].Key, tag.Key) >= 0 {
			return nil, fmt.Errorf("series key %q: tag %q is out of order", key, tag.Key)
		}
		tags = append(tags, tag)
		rest = rest[end+1:]
	}
	if len(rest) > 1 {
		return nil, fmt.Errorf("series key %q: %d bytes after its end", key, len(rest)-1)
	}
	return tags, nil
}
