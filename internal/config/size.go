package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnit is one way to write a number of bytes.
type sizeUnit struct {
	suffix string
	bytes  int64
}

// sizeUnits are ordered from the largest, so that FormatBytes finds the shortest exact form.
var sizeUnits = []sizeUnit{
	{"GiB", 1 << 30},
	{"GB", 1_000_000_000},
	{"MiB", 1 << 20},
	{"MB", 1_000_000},
	{"KiB", 1 << 10},
	{"kB", 1_000},
	{"B", 1},
}

// ParseBytes reads a size: a whole number of bytes, or one followed by a unit, with or without a space between them.
func ParseBytes(text string) (int64, error) {
	digits := strings.TrimRight(text, "BGKMik ")
	unit := strings.TrimSpace(text[len(digits):])
	factor, known := unitBytes(unit)
	number, err := strconv.ParseUint(digits, 10, 63)
	if err != nil && !isRange(err) || !known {
		return 0, fmt.Errorf("%q: %w", text, errUnknownUnit)
	}
	if err != nil || number > uint64(math.MaxInt64/factor) {
		return 0, fmt.Errorf("%q: %w", text, errTooLarge)
	}
	return int64(number) * factor, nil
}

func unitBytes(suffix string) (int64, bool) {
	if suffix == "" {
		return 1, true
	}
	for _, unit := range sizeUnits {
		if unit.suffix == suffix {
			return unit.bytes, true
		}
	}
	return 0, false
}

// FormatBytes writes a size in the largest unit that states it exactly, as ParseBytes reads it.
func FormatBytes(sizeBytes int64) string {
	for _, unit := range sizeUnits {
		if sizeBytes != 0 && sizeBytes%unit.bytes == 0 {
			return strconv.FormatInt(sizeBytes/unit.bytes, 10) + unit.suffix
		}
	}
	return "0"
}
