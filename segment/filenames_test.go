package segment

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEncodeName(t *testing.T) {
	tests := []struct{ name, want string }{
		{"cpu", "cpu"},
		{"cpu-total_0", "cpu-total_0"},
		{"CPU", "%43%50%55"},
		{"servers.cpu", "servers.cpu"},
		{"", "%"},
		{".", "%2e"},
		{"..", "%2e%2e"},
		{".hidden", "%2ehidden"},
		{"trailing.", "trailing%2e"},
		{"trailing ", "trailing%20"},
		{"db/autogen", "db%2fautogen"},
		{`a\b:c*d?e"f<g>h|i`, "a%5cb%3ac%2ad%3fe%22f%3cg%3eh%7ci"},
		{"100%", "100%25"},
		{"a~b", "a%7eb"},
		{"con", "%63on"},
		{"nul.x", "%6eul.x"},
		{"lpt7", "%6cpt7"},
		{"console", "console"},
		{"é", "%c3%a9"},
		{strings.Repeat("a", 80), strings.Repeat("a", 80)},
		{strings.Repeat("a", 81), strings.Repeat("a", 63) + "~19d12dc806b48cf1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := encodeName(tt.name); got != tt.want {
				t.Errorf("encodeName(%q) = %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

func TestEncodeNameIsInjectiveAndSafe(t *testing.T) {
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[aA.~%2e ]{0,6}`),
			rapid.StringMatching(`(a|é){78,90}`)).Draw(t, "name")
		encoded := encodeName(name)
		if len(encoded) == 0 || len(encoded) > nameBytesMax {
			t.Fatalf("encodeName(%q) = %q: %d bytes, want 1 to %d", name, encoded, len(encoded), nameBytesMax)
		}
		if !filepath.IsLocal(encoded) || filepath.Base(encoded) != encoded || strings.HasSuffix(encoded, ".") {
			t.Fatalf("encodeName(%q) = %q is no plain file name", name, encoded)
		}
		folded := strings.ToLower(encoded)
		if other, ok := seen[folded]; ok && other != name {
			t.Fatalf("%q and %q both become %q", name, other, folded)
		}
		seen[folded] = name
	})
}

func TestSegmentPath(t *testing.T) {
	tests := []struct {
		name string
		meta Meta
		want string
	}{
		{"l0", Meta{ID: 7, Database: "db", Measurement: "cpu"}, "l0/0000000007.parquet"},
		{"l1", Meta{ID: 12345678901, Level: 1, Database: "db/rp", Measurement: "cpu", Partition: 19675},
			"l1/db%2frp/cpu/2023-11-14/12345678901.parquet"},
		{"before 1970", Meta{ID: 8, Level: 1, Database: "db", Measurement: "cpu", Partition: -1},
			"l1/db/cpu/1969-12-31/0000000008.parquet"},
		{"mixed", Meta{ID: 9, Level: 1, Database: "db", Measurement: "cpu", Partition: 1, Mixed: true},
			"l1/db/cpu/mixed/0000000009.parquet"},
		{"promoted", Meta{ID: 10, Level: 1, Database: "db", Measurement: "cpu", Mixed: true, Promoted: true},
			"l0/0000000010.parquet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := filepath.ToSlash(segmentPath(tt.meta)); got != tt.want {
				t.Errorf("segmentPath = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseNumberedName(t *testing.T) {
	tests := []struct {
		name string
		want uint64
		ok   bool
	}{
		{"0000000001.parquet", 1, true},
		{"12345678901.parquet", 12345678901, true},
		{"1.parquet", 0, false},
		{"+000000001.parquet", 0, false},
		{"0000000001.parquet.tmp", 0, false},
		{"0000000001", 0, false},
		{"99999999999999999999.parquet", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseNumberedName(tt.name, segmentSuffix)
			if got != tt.want || ok != tt.ok {
				t.Errorf("got %d, %t; want %d, %t", got, ok, tt.want, tt.ok)
			}
		})
	}
}
