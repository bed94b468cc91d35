package segment

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestKeyRoundTrip(t *testing.T) {
	for _, tags := range [][]Tag{
		nil,
		{{[]byte("host"), []byte("a")}},
		{{[]byte("a,b"), []byte("c=d")}, {[]byte("a=b"), []byte(" ")}, {[]byte("région"), []byte("日本 \\ \"")}},
		{{[]byte("\x00"), []byte("\x00\x01\x02\x03\x04\x05")}, {[]byte("\x01b\x00"), []byte("\x02")}, {[]byte("\x02\x03"), []byte("\x01")}},
		{{[]byte("a"), []byte("b\x00c\x01d")}},
		{{[]byte("a"), []byte("b")}, {[]byte("c"), []byte("d")}},
	} {
		encoded := AppendKey([]byte("before"), tags)[len("before"):]
		got, err := ParseKey(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(tags, got); diff != "" {
			t.Errorf("parsed (-want +got)\n%s", diff)
		}
		var each []Tag
		EachTag(encoded, func(name, value []byte) { each = append(each, Tag{name, value}) })
		if diff := gocmp.Diff(tags, each); diff != "" {
			t.Errorf("each (-want +got)\n%s", diff)
		}
	}
}

func TestParseKeyRejects(t *testing.T) {
	for name, text := range map[string]string{
		"empty":        "",
		"no end":       "a\x01b\x00",
		"more":         "a\x01b\x00\xFF\xFF",
		"no value":     "a\x01\x00\xFF",
		"no name":      "\x01b\x00\xFF",
		"no separator": "ab\x00\xFF",
		"no tag end":   "a\x01b\xFF",
		"order":        "b\x01b\x00a\x01b\x00\xFF",
		"twice":        "a\x01b\x00a\x01c\x00\xFF",
		"not UTF-8":    "a\x01\xC3\x00\xFF",
	} {
		if tags, err := ParseKey([]byte(text)); err == nil {
			t.Errorf("%s: got %v", name, tags)
		}
	}
}

// compareTags orders series as the sorting columns of a segment do: tag by tag in the order of all names, nulls last.
func compareTags(a, b map[string]string, names []string) int {
	for _, name := range names {
		switch {
		case a[name] == b[name]:
		case a[name] == "":
			return 1
		case b[name] == "":
			return -1
		default:
			return cmp.Compare(a[name], b[name])
		}
	}
	return 0
}

func TestKeysSortAsTagColumnsDo(t *testing.T) {
	names := []string{
		"a", "a ", "ab", "b", "ä", "\u007f", "日", "\x00", "\x01", "\x02", "\x03", "a\x00", "a\x01", "a\x02", "a\x03",
	}
	slices.Sort(names)
	values := []string{
		"", "x", "x ", "xy", "y", "ÿ", "\U0010FFFF", "\x00", "\x01", "\x02", "\x03", "x\x00", "x\x00\x00", "x\x01", "x\x02", "x\x03",
	}
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() (map[string]string, []byte) {
		series := map[string]string{}
		var tags []Tag
		for _, name := range names {
			if value := values[rng.IntN(len(values))]; value != "" && rng.IntN(2) == 0 {
				series[name] = value
				tags = append(tags, Tag{[]byte(name), []byte(value)})
			}
		}
		return series, AppendKey(nil, tags)
	}
	for range 20000 {
		a, keyA := random()
		b, keyB := random()
		if got, want := bytes.Compare(keyA, keyB), compareTags(a, b, names); got != want {
			t.Fatalf("%v and %v: got %d, want %d", a, b, got, want)
		}
	}
}
