package ingest

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestParseIntegers(t *testing.T) {
	texts := []string{
		"0", "-0", "007", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
		"18446744073709551615", "18446744073709551616", "18446744073709551625", "99999999999999999999",
		"-18446744073709551616",
		strings.Repeat("0", 40) + "5", strings.Repeat("9", 400), "", "-", "--1", "1-", "+1", "1_0", "0x1", "1.0", " 1",
		"1\x00", "١",
	}
	for _, text := range texts {
		wantInt, err := strconv.ParseInt(text, 10, 64)
		if gotInt, gotErr := parseInt([]byte(text)); !sameNumberError(gotErr, numberError(text, "+", err)) ||
			gotErr == nil && gotInt != wantInt {
			t.Errorf("parseInt(%q) = %d, %v, want %d, %v", text, gotInt, gotErr, wantInt, err)
		}
		wantUint, err := strconv.ParseUint(text, 10, 64)
		if gotUint, gotErr := parseUint([]byte(text)); !sameNumberError(gotErr, numberError(text, "+", err)) ||
			gotErr == nil && gotUint != wantUint {
			t.Errorf("parseUint(%q) = %d, %v, want %d, %v", text, gotUint, gotErr, wantUint, err)
		}
	}
}

// numberError is what strconv says, in our words; a text with one of the characters is never a number.
func numberError(text, chars string, err error) error {
	switch {
	case strings.ContainsAny(text, chars):
		return errNumberSyntax
	case errors.Is(err, strconv.ErrRange):
		return errNumberRange
	case err != nil:
		return errNumberSyntax
	default:
		return nil
	}
}

func sameNumberError(got, want error) bool { return errors.Is(got, want) }

func TestParseFloatsAsStrconvDoes(t *testing.T) {
	texts := []string{
		"0", "-0", "1", "1.5", "-1.5", ".5", "-.5", "5.", "1.e5", "00.5", "1e400", "-1e400", "1e-400", "0.1",
		"123456789012345",
		"1234567890123456", "999999999999999", "0.00000000000001", "0.000000000000001", "9007199254740993",
		"1.7976931348623157e308",
		"1.7976931348623159e308", "4.9e-324", "2.2250738585072011e-308", "100000000000000.5", strings.Repeat("9", 300),
		strings.Repeat("9", 400), "", ".", "-", "-.", "1..2", "1.2.3", "1-2", "1e", "1e+", "1e1.5", "e5", "--1", "+1",
		"0x1p4", "0x_1p4", "1_000", "Inf", "-inf", "nan", "infinity", "1f", "1 ", "1\x00",
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		value := math.Float64frombits(random.Uint64())
		texts = append(texts, strconv.FormatFloat(value, 'f', random.IntN(17), 64), strconv.FormatFloat(value, 'g', -1, 64),
			strconv.FormatFloat(random.Float64()*100, 'f', random.IntN(17), 64))
	}
	for _, text := range texts {
		want, err := strconv.ParseFloat(text, 64)
		wantErr := numberError(text, "xX_nNfF", err)
		got, gotErr := parseFloat([]byte(text))
		if strings.HasPrefix(text, "+") {
			continue // the Decoder takes no value for it
		}
		if !sameNumberError(gotErr, wantErr) || gotErr == nil && math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("parseFloat(%q) = %v, %v, want %v, %v", text, got, gotErr, want, wantErr)
		}
	}
}
