package ingest

import (
	"fmt"
	"math"
	"time"
)

// Precision is the unit of the timestamps in a body. The values are written to disk, so they never change.
type Precision uint8

// The units that the write APIs know. PrecisionAuto takes the unit of each timestamp from its magnitude.
const (
	PrecisionNanosecond  Precision = 1
	PrecisionMicrosecond Precision = 2
	PrecisionMillisecond Precision = 3
	PrecisionSecond      Precision = 4
	PrecisionMinute      Precision = 5
	PrecisionHour        Precision = 6
	PrecisionAuto        Precision = 7
)

// precisionUnits holds the length of each unit in nanoseconds. Zero marks a value that is no precision.
var precisionUnits = [...]int64{
	PrecisionNanosecond:  1,
	PrecisionMicrosecond: int64(time.Microsecond),
	PrecisionMillisecond: int64(time.Millisecond),
	PrecisionSecond:      int64(time.Second),
	PrecisionMinute:      int64(time.Minute),
	PrecisionHour:        int64(time.Hour),
	PrecisionAuto:        1, // of a default time
}

// The range of InfluxDB 1 and 2: the ends of int64, and one more at each side, have a meaning inside those.
const (
	timeMin = math.MinInt64 + 2
	timeMax = math.MaxInt64 - 1
)

// String names the unit as an error shows it.
func (p Precision) String() string {
	names := [...]string{"?", "ns", "us", "ms", "s", "m", "h", "auto"}
	if int(p) >= len(names) {
		return names[0]
	}
	return names[p]
}

// unit returns the length of the unit in nanoseconds, 0 for a value that is no precision.
func (p Precision) unit() int64 {
	if int(p) >= len(precisionUnits) {
		return 0
	}
	return precisionUnits[p]
}

// truncate drops from a time, in nanoseconds, what the precision can't express.
func (p Precision) truncate(nanoseconds int64) int64 {
	remainder := nanoseconds % p.unit()
	if remainder < 0 {
		remainder += p.unit()
	}
	return nanoseconds - remainder
}

// nanoseconds scales a timestamp of the body. It reports whether the result lies in the range of times.
func (p Precision) nanoseconds(timestamp int64) (int64, bool) {
	unit := p.unit()
	if p == PrecisionAuto {
		unit = guessUnit(timestamp)
	}
	if timestamp < timeMin/unit || timestamp > timeMax/unit {
		return 0, false
	}
	return timestamp * unit, true
}

// guessUnit takes the bounds of InfluxDB 3: as seconds, the largest timestamp of each unit is a time in the year 2128.
func guessUnit(timestamp int64) int64 {
	const seconds = 5_000_000_000
	magnitude := uint64(timestamp)
	if timestamp < 0 {
		magnitude = -magnitude
	}
	switch {
	case magnitude < seconds:
		return int64(time.Second)
	case magnitude < seconds*1e3:
		return int64(time.Millisecond)
	case magnitude < seconds*1e6:
		return int64(time.Microsecond)
	default:
		return 1
	}
}

// PrecisionError says that a precision is none that the API knows.
type PrecisionError struct {
	Name  string // as the client sent it
	Known string // what it may send
}

func (e *PrecisionError) Error() string {
	return fmt.Sprintf("invalid precision \"%s\" (use %s)", defuse(sanitize(e.Name, precisionTextBytesMax)), e.Known)
}

const precisionTextBytesMax = 32

// ParsePrecisionV1 reads the precision parameter of /write.
func ParsePrecisionV1(name string) (Precision, error) {
	switch name {
	case "", "n", "ns":
		return PrecisionNanosecond, nil
	case "u", "us":
		return PrecisionMicrosecond, nil
	case "ms":
		return PrecisionMillisecond, nil
	case "s":
		return PrecisionSecond, nil
	case "m":
		return PrecisionMinute, nil
	case "h":
		return PrecisionHour, nil
	default:
		return 0, &PrecisionError{name, "n, ns, u, us, ms, s, m or h"}
	}
}

// ParsePrecisionV2 reads the precision parameter of /api/v2/write. influxdb3-go calls microseconds µs there (U+00B5).
func ParsePrecisionV2(name string) (Precision, error) {
	switch name {
	case "", "ns":
		return PrecisionNanosecond, nil
	case "us", "µs":
		return PrecisionMicrosecond, nil
	case "ms":
		return PrecisionMillisecond, nil
	case "s":
		return PrecisionSecond, nil
	default:
		return 0, &PrecisionError{name, "ns, us, ms or s"}
	}
}

// ParsePrecisionV3 reads the precision parameter of /api/v3/write_lp.
func ParsePrecisionV3(name string) (Precision, error) {
	switch name {
	case "", "auto":
		return PrecisionAuto, nil
	case "n", "ns", "nanosecond":
		return PrecisionNanosecond, nil
	case "u", "us", "microsecond":
		return PrecisionMicrosecond, nil
	case "ms", "millisecond":
		return PrecisionMillisecond, nil
	case "s", "second":
		return PrecisionSecond, nil
	default:
		return 0, &PrecisionError{name, "auto, ns, us, ms or s"}
	}
}
