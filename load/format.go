package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// grouped writes a number with commas: 1,234,567.
func grouped(number int64) string {
	digits := strconv.FormatInt(number, 10)
	sign := ""
	if number < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// scaled writes a number with three digits and a unit: 1.23M.
func scaled(number float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(number) >= unit.size {
			return strconv.FormatFloat(number/unit.size, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(number, 'f', 0, 64)
}

// sized writes a number of bytes: 1.50 MiB.
func sized(bytes int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if bytes >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(bytes)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// percent writes a share with one decimal.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// briefly writes a duration with about three digits.
func briefly(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

// secondsBriefly writes seconds as briefly does.
func secondsBriefly(seconds float64) string {
	return briefly(time.Duration(seconds * float64(time.Second)))
}
