package ingest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestScanLine marks where lines begin and end by brackets, and the quotes of strings by braces.
func TestScanLine(t *testing.T) {
	tests := []struct{ name, want string }{
		{"plain", "[a b=1]\n[c d=1]"},
		{"blank lines and comments", "\n \t\n[\r]\n# x \"\n#\x01\n[a b=1]\n[\r]"},
		{"leading space", "[  a b=1]\n[\t a b=1]\n"},
		{"carriage return", "[a b=1\r]\n[\r]\n[\r\r]\n"},
		{"line break in string", "[a b={x\ny}]\n[c d=1]\n"},
		{"second string", "[a b={x\ny},c={z\n}]\n"},
		{"escaped quote", "[a b={x\\\"\ny}]\n[c d=1]\n"},
		{"escaped backslash", "[a b={x\\\\}]\n[c d=1]\n"},
		{"quotes in names", "[a\",b=\"c d=1]\n[a \"=1,\"b=2]\n"},
		{"equals signs in names", "[a=b\"c d=1]\n[a,b\\=\"=c d=1]\n[a b\\=c\"=1]\n"},
		{"equals signs behind backslashes", "[a b\\\\=c\"=1]\n"},
		{"escaped space", "[a\\ b=\"c d=1]\n"},
		{"escaped line break in name", "[a\\\nb=\"c d=1]\n"},
		{"backslash in front of a line break", "[a\\\\]\n[b=\"c d=1]\n"},
		{"unterminated string", "[a b={x\nc d=1\n"},
		{"unterminated string that ends in a backslash", "[a b={x\nc d=1\\"},
		{"backslash at the end", "[a\\]"},
		{"quote in a bad line", "[a b=bad,c={x\nd e=1\n}]\n[f g=1]"},
		{"unescaped quote", "[a b={x }y{ z}]\n[c d=1]"},
		{"many strings", strings.Repeat("[a b={\n},c={\n}]\n", 20)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := strings.NewReplacer("[", "", "]", "", "{", "\"", "}", "\"").Replace(test.want)
			marks := make(map[int]string)
			var scanner lineScanner
			scanner.reset([]byte(text))
			for scanner.scan() {
				line := &scanner.line
				marks[line.begin] += "["
				if !line.plain {
					for i, quote := range line.quotes {
						marks[quote] = "{}"[i%2:][:1]
					}
				}
				if !isOpen(line) {
					marks[line.end] = "]" + marks[line.end]
				}
			}
			if diff := cmp.Diff(test.want, mark(text, marks)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// isOpen tells that a string of the line has no end.
func isOpen(line *lineSpan) bool { return !line.plain && len(line.quotes)%2 == 1 }

func mark(text string, marks map[int]string) string {
	var b strings.Builder
	for i := range len(text) + 1 {
		b.WriteString(marks[i])
		isQuote := strings.ContainsAny(marks[i], "{}")
		if i < len(text) && !isQuote {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}
