package config

import (
	"errors"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
		err  error
	}{
		{"0", 0, nil},
		{"1", 1, nil},
		{"512B", 512, nil},
		{"64kB", 64_000, nil},
		{"64 KiB", 65_536, nil},
		{"25MB", 25_000_000, nil},
		{"25MiB", 26_214_400, nil},
		{"2GB", 2_000_000_000, nil},
		{"4GiB", 4_294_967_296, nil},
		{"8589934591GiB", 9223372035781033984, nil},
		{"8589934592GiB", 0, errTooLarge},
		{"9223372036854775807", 9223372036854775807, nil},
		{"9223372036854775808", 0, errTooLarge},
		{"", 0, errUnknownUnit},
		{"MiB", 0, errUnknownUnit},
		{"-1", 0, errUnknownUnit},
		{"1.5GiB", 0, errUnknownUnit},
		{"64KB", 0, errUnknownUnit},
		{"64 Ki B", 0, errUnknownUnit},
		{"64mib", 0, errUnknownUnit},
		{"64 apples", 0, errUnknownUnit},
	} {
		got, err := ParseBytes(test.text)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("ParseBytes(%q): got %d, %v, want %d, %v", test.text, got, err, test.want, test.err)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for sizeBytes, want := range map[int64]string{
		0: "0", 1: "1B", 1000: "1kB", 1024: "1KiB", 1025: "1025B", 25_000_000: "25MB", 64 << 20: "64MiB", 4 << 30: "4GiB",
	} {
		if got := FormatBytes(sizeBytes); got != want {
			t.Errorf("FormatBytes(%d): got %s, want %s", sizeBytes, got, want)
		}
	}
}

// FuzzParseBytes: whatever is written back reads as the same number.
func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"0", "64MiB", "25 MB", "9223372036854775807", "1.5GiB", "B", " 1 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sizeBytes, err := ParseBytes(text)
		if err != nil {
			return
		}
		again, err := ParseBytes(FormatBytes(sizeBytes))
		if err != nil || again != sizeBytes {
			t.Errorf("%q is %d, written as %s, read as %d, %v", text, sizeBytes, FormatBytes(sizeBytes), again, err)
		}
	})
}
