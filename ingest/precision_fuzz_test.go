package ingest

import (
	"math"
	"math/big"
	"testing"
	"time"
)

// FuzzPrecision scales any timestamp in any unit, and compares with arithmetic that can't overflow.
func FuzzPrecision(f *testing.F) {
	for _, timestamp := range []int64{
		0, 1, -1, 4_999_999_999, 5_000_000_000, -5_000_000_001, 9_223_372_036, 9_223_372_037, 153_722_867, 2_562_048,
		math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, math.MinInt64 + 2, 1_566_086_400_000_000_000,
	} {
		for unit := byte(0); unit < byte(PrecisionAuto); unit++ {
			f.Add(timestamp, unit, "s")
		}
	}
	f.Add(int64(0), byte(0), "millisecond\x00")
	f.Fuzz(func(t *testing.T, timestamp int64, unit byte, name string) {
		defer endsInTime(name)()
		p := PrecisionNanosecond + Precision(unit)%PrecisionAuto
		got, ok := p.nanoseconds(timestamp)
		length := big.NewInt(p.unit())
		if p == PrecisionAuto {
			length = big.NewInt(int64(unitByMagnitude(timestamp)))
		}
		want := new(big.Int).Mul(big.NewInt(timestamp), length)
		inside := want.Cmp(big.NewInt(math.MinInt64+2)) >= 0 && want.Cmp(big.NewInt(math.MaxInt64-1)) <= 0
		if ok != inside || ok && want.Cmp(big.NewInt(got)) != 0 {
			t.Fatalf("%d %s: got %d, %v, want %d, %v", timestamp, p, got, ok, want, inside)
		}
		if timestamp > math.MinInt64+p.unit() { // times of requests are not at the end of int64
			whole := p.truncate(timestamp)
			if whole%p.unit() != 0 || whole > timestamp || timestamp-whole >= p.unit() {
				t.Fatalf("%d truncated to %s is %d", timestamp, p, whole)
			}
		}
		checkPrecisionName(t, name)
	})
}

// unitByMagnitude is what InfluxDB 3 takes a timestamp for.
func unitByMagnitude(timestamp int64) time.Duration {
	switch magnitude := new(big.Int).Abs(big.NewInt(timestamp)); {
	case magnitude.Cmp(big.NewInt(5e9)) < 0:
		return time.Second
	case magnitude.Cmp(big.NewInt(5e12)) < 0:
		return time.Millisecond
	case magnitude.Cmp(big.NewInt(5e15)) < 0:
		return time.Microsecond
	default:
		return time.Nanosecond
	}
}

// checkPrecisionName reads any name: it is a unit, or refused with a text that can be shown.
func checkPrecisionName(t *testing.T, name string) {
	for _, parse := range []func(string) (Precision, error){ParsePrecisionV1, ParsePrecisionV2, ParsePrecisionV3} {
		p, err := parse(name)
		if (p.unit() == 0) != (err != nil) {
			t.Fatalf("%q: got %s, %v", name, p, err)
		}
		if err == nil {
			continue
		}
		if text := err.Error(); text != sanitize(text, len(text)) || len(text) > answerBytesMax {
			t.Fatalf("%q: %q can't be shown", name, text)
		}
	}
}
