package ingest

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParsePrecision(t *testing.T) {
	const none = Precision(0)
	names := map[string][3]Precision{ // by API
		"":            {PrecisionNanosecond, PrecisionNanosecond, PrecisionAuto},
		"auto":        {none, none, PrecisionAuto},
		"n":           {PrecisionNanosecond, none, PrecisionNanosecond},
		"ns":          {PrecisionNanosecond, PrecisionNanosecond, PrecisionNanosecond},
		"nanosecond":  {none, none, PrecisionNanosecond},
		"u":           {PrecisionMicrosecond, none, PrecisionMicrosecond},
		"us":          {PrecisionMicrosecond, PrecisionMicrosecond, PrecisionMicrosecond},
		"microsecond": {none, none, PrecisionMicrosecond},
		"µs":          {none, PrecisionMicrosecond, none},
		"ms":          {PrecisionMillisecond, PrecisionMillisecond, PrecisionMillisecond},
		"millisecond": {none, none, PrecisionMillisecond},
		"s":           {PrecisionSecond, PrecisionSecond, PrecisionSecond},
		"second":      {none, none, PrecisionSecond},
		"m":           {PrecisionMinute, none, none},
		"h":           {PrecisionHour, none, none},
		"S":           {}, "aa": {}, " s": {}, "1s": {}, "\x00\n": {}, "x": {}, "minute": {}, "hour": {},
	}
	parsers := [3]func(string) (Precision, error){ParsePrecisionV1, ParsePrecisionV2, ParsePrecisionV3}
	for name, wants := range names {
		for i, parse := range parsers {
			got, err := parse(name)
			if got != wants[i] || (err != nil) != (wants[i] == none) {
				t.Errorf("v%d: %q is %v, %v, want %v", i+1, name, got, err, wants[i])
			}
		}
	}
}

func TestPrecisionErrorIsBoundedAndPrintable(t *testing.T) {
	_, err := ParsePrecisionV1("\n" + strings.Repeat("x", 1<<16))
	var precision *PrecisionError
	if !errors.As(err, &precision) {
		t.Fatalf("got %v", err)
	}
	want := `invalid precision "\n` + strings.Repeat("x", 30) + `…" (use n, ns, u, us, ms, s, m or h)`
	if err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestPrecisionScalesWithinTheRangeOfTimes(t *testing.T) {
	const outside = math.MinInt64
	tests := []struct {
		precision  Precision
		timestamp  int64
		wantResult int64
	}{
		{PrecisionNanosecond, math.MaxInt64 - 1, math.MaxInt64 - 1},
		{PrecisionNanosecond, math.MaxInt64, outside},
		{PrecisionNanosecond, math.MinInt64 + 2, math.MinInt64 + 2},
		{PrecisionNanosecond, math.MinInt64 + 1, outside},
		{PrecisionNanosecond, math.MinInt64, outside},
		{PrecisionMicrosecond, 9_223_372_036_854_775, 9_223_372_036_854_775_000},
		{PrecisionMicrosecond, 9_223_372_036_854_776, outside},
		{PrecisionMicrosecond, -9_223_372_036_854_775, -9_223_372_036_854_775_000},
		{PrecisionMicrosecond, -9_223_372_036_854_776, outside},
		{PrecisionMillisecond, 1_700_000_000_123, 1_700_000_000_123_000_000},
		{PrecisionMillisecond, 9_223_372_036_855, outside},
		{PrecisionSecond, 9_223_372_036, 9_223_372_036_000_000_000},
		{PrecisionSecond, 9_223_372_037, outside},
		{PrecisionSecond, -9_223_372_037, outside},
		{PrecisionSecond, 1_566_086_400_000_000_000, outside},
		{PrecisionSecond, math.MaxInt64, outside},
		{PrecisionSecond, math.MinInt64, outside},
		{PrecisionMinute, 28_333_333, 28_333_333 * 60_000_000_000},
		{PrecisionMinute, 153_722_867, 153_722_867 * 60_000_000_000},
		{PrecisionMinute, 153_722_868, outside},
		{PrecisionHour, -2_562_047, -2_562_047 * 3_600_000_000_000},
		{PrecisionHour, -2_562_048, outside},
		{PrecisionAuto, 0, 0},
		{PrecisionAuto, 4_999_999_999, 4_999_999_999_000_000_000},
		{PrecisionAuto, 5_000_000_000, 5_000_000_000_000_000},
		{PrecisionAuto, -4_999_999_999, -4_999_999_999_000_000_000},
		{PrecisionAuto, -5_000_000_000, -5_000_000_000_000_000},
		{PrecisionAuto, 4_999_999_999_999, 4_999_999_999_999_000_000},
		{PrecisionAuto, 5_000_000_000_000, 5_000_000_000_000_000},
		{PrecisionAuto, 4_999_999_999_999_999, 4_999_999_999_999_999_000},
		{PrecisionAuto, 5_000_000_000_000_000, 5_000_000_000_000_000},
		{PrecisionAuto, math.MaxInt64 - 1, math.MaxInt64 - 1},
		{PrecisionAuto, math.MinInt64, outside},
	}
	for _, test := range tests {
		got, ok := test.precision.nanoseconds(test.timestamp)
		if ok != (test.wantResult != outside) || ok && got != test.wantResult {
			t.Errorf("%d in %s is %d, %v, want %d", test.timestamp, test.precision, got, ok, test.wantResult)
		}
	}
}

func TestPrecisionTruncates(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	tests := []struct {
		precision Precision
		at, want  time.Time
	}{
		{PrecisionNanosecond, at, at},
		{PrecisionAuto, at, at},
		{PrecisionMicrosecond, at, at.Truncate(time.Microsecond)},
		{PrecisionMillisecond, at, at.Truncate(time.Millisecond)},
		{PrecisionSecond, at, at.Truncate(time.Second)},
		{PrecisionMinute, at, at.Truncate(time.Minute)},
		{PrecisionHour, at, at.Truncate(time.Hour)},
		{PrecisionSecond, time.Unix(-1, 1), time.Unix(-1, 0)},
		{PrecisionSecond, time.Unix(-1, 0), time.Unix(-1, 0)},
	}
	for _, test := range tests {
		if got := test.precision.truncate(test.at.UnixNano()); got != test.want.UnixNano() {
			t.Errorf("%s: got %v, want %v", test.precision, time.Unix(0, got), test.want)
		}
	}
}
