package e2e

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// points holds points by identity (measurement, tags, time); a value is the fields with their types, by name.
type points map[string]string

// parsePoints reads line protocol in which no point occurs twice.
func parsePoints(text string) (points, error) {
	parsed := points{}
	decoder := lineprotocol.NewDecoderWithBytes([]byte(text))
	for decoder.Next() {
		identity, fields, err := parsePoint(decoder)
		if err != nil {
			return nil, err
		}
		if _, known := parsed[identity]; known {
			return nil, fmt.Errorf("the point %s occurs twice", identity)
		}
		parsed[identity] = fields
	}
	return parsed, nil
}

func parsePoint(decoder *lineprotocol.Decoder) (identity, fields string, err error) {
	measurement, err := decoder.Measurement()
	if err != nil {
		return "", "", err
	}
	tags := map[string]string{}
	for {
		key, value, err := decoder.NextTag()
		if err != nil {
			return "", "", err
		}
		if key == nil {
			break
		}
		tags[string(key)] = string(value)
	}
	values := map[string]string{}
	for {
		key, value, err := decoder.NextField()
		if err != nil {
			return "", "", err
		}
		if key == nil {
			break
		}
		values[string(key)] = value.String()
	}
	at, err := decoder.Time(lineprotocol.Nanosecond, time.Time{})
	if err != nil {
		return "", "", err
	}
	return fmt.Sprintf("%s %s %d", measurement, joined(tags), at.UnixNano()), joined(values), nil
}

func joined(pairs map[string]string) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		fmt.Fprintf(&text, "%q=%q,", key, pairs[key])
	}
	return text.String()
}

// same fails the test with a few of the points in which got differs.
func same(t *testing.T, what string, got, want points) {
	t.Helper()
	const shown = 8
	differences := 0
	report := func(format string, arguments ...any) {
		if differences++; differences <= shown {
			t.Errorf(format, arguments...)
		}
	}
	for identity, fields := range want {
		if stored, ok := got[identity]; !ok {
			report("%s: the point %s is missing", what, identity)
		} else if stored != fields {
			report("%s: the point %s differs (-want +got):\n%s", what, identity, cmp.Diff(fields, stored))
		}
	}
	for identity := range got {
		if _, ok := want[identity]; !ok {
			report("%s: nobody wrote the point %s", what, identity)
		}
	}
	if differences > shown {
		t.Errorf("%s: %d points differ in all, of %d wanted and %d got", what, differences, len(want), len(got))
	}
}

// knownLines makes n points of every type with nanoseconds, in many series, with strings that don't compress. Points
// of different numbers differ in time.
func knownLines(from, n int) string {
	random := rand.New(rand.NewPCG(1, uint64(from)))
	var text strings.Builder
	for i := from; i < from+n; i++ {
		float := random.NormFloat64() * math.Pow(10, float64(i%30-15))
		fmt.Fprintf(&text, `known,series=s%d,path=C:\ drive f=%s,i=%di,u=%du,b=%t,s="%016x%016x \" \\ ☂" %d`+"\n",
			i%50, strconv.FormatFloat(float, 'f', -1, 64), int64(random.Uint64()), random.Uint64(), i%3 == 0,
			random.Uint64(), random.Uint64(), 1_700_000_000_123_456_789+int64(i)*7_919_000_003)
	}
	return text.String()
}
