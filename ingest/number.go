package ingest

import (
	"errors"
	"math"
	"strconv"
)

// Errors of numbers. They say nothing of the number, so that they cost nothing: the caller knows it.
var (
	errNumberSyntax = errors.New("invalid")
	errNumberRange  = errors.New("out of range")
)

// parseInt reads an optional minus and digits.
func parseInt(text []byte) (int64, error) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	magnitude, err := parseUint(text)
	switch {
	case err != nil:
		return 0, err
	case negative && magnitude <= 1<<63:
		return -int64(magnitude), nil
	case !negative && magnitude < 1<<63:
		return int64(magnitude), nil
	default:
		return 0, errNumberRange
	}
}

// parseUint reads digits.
func parseUint(text []byte) (uint64, error) {
	const safeDigits = 19 // no number of so many digits overflows
	if len(text) == 0 {
		return 0, errNumberSyntax
	}
	var n uint64
	for i, c := range text {
		digit := uint64(c - '0')
		if digit > 9 {
			return 0, errNumberSyntax
		}
		if i >= safeDigits && n > (math.MaxUint64-digit)/10 {
			return 0, errNumberRange
		}
		n = n*10 + digit
	}
	return n, nil
}

// parseFloat reads a decimal number. Unlike strconv it knows neither hexadecimal numbers nor underscores nor names
// such as Inf, which InfluxDB refuses.
func parseFloat(text []byte) (float64, error) {
	if value, ok := parseShortFloat(text); ok {
		return value, nil
	}
	for _, c := range text {
		if c-'0' > 9 && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, errNumberSyntax
		}
	}
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil && errors.Is(err, strconv.ErrRange) {
		return 0, errNumberRange
	}
	if err != nil {
		return 0, errNumberSyntax
	}
	return value, nil
}

// exactPowers holds the powers of ten by which parseShortFloat divides: all are exact as float64.
var exactPowers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
}

// parseShortFloat reads up to 15 digits with at most one point among them. Digits and power of ten are then exact, so
// that one division rounds correctly (Clinger 1990, the fast path). It reports whether the text is such a number.
func parseShortFloat(text []byte) (float64, bool) {
	const digitsMax = 15
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) > digitsMax+1 {
		return 0, false
	}
	var mantissa uint64
	digits, decimals, point := 0, 0, 0
	for _, c := range text {
		if c == '.' {
			point++
			continue
		}
		if c-'0' > 9 {
			return 0, false
		}
		mantissa = mantissa*10 + uint64(c-'0')
		digits++
		decimals += point
	}
	if digits == 0 || digits > digitsMax || point > 1 {
		return 0, false
	}
	value := float64(mantissa) / exactPowers[decimals]
	if negative {
		value = -value
	}
	return value, true
}

// parseBool knows the ten spellings of InfluxDB.
func parseBool(text []byte) (uint64, error) {
	switch string(text) {
	case "t", "T", "true", "True", "TRUE":
		return 1, nil
	case "f", "F", "false", "False", "FALSE":
		return 0, nil
	default:
		return 0, errNumberSyntax
	}
}
