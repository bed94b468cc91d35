package auth

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sampleTokens are tokens with every kind of right.
func sampleTokens(t testing.TB) []Token {
	t.Helper()
	tokens := []Token{
		{Name: "admin", Rights: Rights{Admin: true}},
		{Name: "agent", Rights: Rights{Write: databases(t, "metrics", "logs/week")}},
		{Name: "board", Rights: Rights{Read: databases(t, "*"), Write: databases(t, "notes")}},
		{Name: strings.Repeat("n", labelBytesMax), Rights: Rights{Write: databases(t, "*")}},
	}
	for i := range tokens {
		tokens[i].Created = time.Unix(1_700_000_000+int64(i), 5).UTC()
		tokens[i].digest, _ = digestOf(fmt.Sprintf("secret %d", i))
	}
	return tokens
}

// exported lets cmp compare what is not exported.
var exported = cmp.AllowUnexported(Token{})

func TestTokensSurviveTheFile(t *testing.T) {
	for _, want := range [][]Token{{}, sampleTokens(t)[:1], sampleTokens(t)} {
		got, err := decodeTokens("tokens", encodeTokens(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, exported); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
	}
}

// TestLayout holds the bytes to those that FORMAT.md describes: go test ./internal/auth -update writes them anew, which
// only a new version may need.
func TestLayout(t *testing.T) {
	const golden = "testdata/format.golden"
	got := hex.Dump(encodeTokens(sampleTokens(t)))
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
}

// reseal gives a changed file the checksum and the length that its content needs.
func reseal(data []byte) []byte {
	if len(data) < headerBytes+checksumBytes {
		return data
	}
	end := len(data) - checksumBytes
	binary.LittleEndian.PutUint32(data[16:], uint32(end-headerBytes))
	binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], castagnoli))
	return data
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	good := encodeTokens(sampleTokens(t))
	for at := range good {
		bad := []byte(string(good))
		bad[at] ^= 0x10
		if _, err := decodeTokens("tokens", bad); err == nil {
			t.Errorf("a change of byte %d is not noticed", at)
		}
		if _, err := decodeTokens("tokens", good[:at]); err == nil {
			t.Errorf("a cut at byte %d is not noticed", at)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	good := encodeTokens(sampleTokens(t))
	change := func(at int, value byte) []byte {
		data := []byte(string(good))
		data[at] = value
		return data
	}
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "ends within its header"},
		{"magic", change(0, 'x'), "doesn't start with"},
		{"checksum", change(len(good)-1, good[len(good)-1]^1), "checksum is wrong"},
		{"longer", append([]byte(string(good)), 0), "instead of"},
		{"zero", reseal(change(20, 1)), "must be zero"},
		{"fewer tokens", reseal(change(12, 3)), "goes on behind its last token"},
		{"more tokens", reseal(change(12, 5)), "ends early"},
		{"very many tokens", reseal(change(14, 1)), "can't hold"},
		{"rights", reseal(change(headerBytes+40, 0x80)), "unknown rights"},
		{"databases", reseal(change(headerBytes+40+1+6+1, 0xff)), "more databases than there are bytes"},
	} {
		_, err := decodeTokens("some/tokens", tc.data)
		var damage *CorruptionError
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), tc.want) || damage.Path != "some/tokens" {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := decodeTokens("tokens", reseal(change(8, 2))); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: got %v, want ErrVersion", err)
	}
}

// FuzzTokenFile reads any file. Whatever is accepted must be what the encoder makes of the same tokens.
func FuzzTokenFile(f *testing.F) {
	good := encodeTokens(sampleTokens(f))
	f.Add(good, false)
	f.Add(encodeTokens(nil), false)
	f.Add(good[:len(good)/2], true)
	f.Add([]byte(strings.Repeat("\xff", 200)), true)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		timer := time.AfterFunc(fuzzTimeMax, func() { panic(fmt.Sprintf("reading %q does not end", data)) })
		defer timer.Stop()
		if sealed && len(data) >= headerBytes+checksumBytes {
			copy(data, fileMagic)
			binary.LittleEndian.PutUint32(data[8:], formatVersion)
			binary.LittleEndian.PutUint32(data[20:], 0)
			data = reseal(data)
		}
		tokens, err := decodeTokens("fuzzed", data)
		if err != nil {
			return
		}
		if diff := cmp.Diff(data, encodeTokens(tokens)); diff != "" {
			t.Fatalf("encoded again (-read +written):\n%s", diff)
		}
	})
}

func TestTimesOutsideOfTheCalendarSurvive(t *testing.T) {
	for _, nanoseconds := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		want := []Token{{Name: "a", Rights: Rights{Admin: true}, Created: time.Unix(0, nanoseconds).UTC()}}
		got, err := decodeTokens("tokens", encodeTokens(want))
		if err != nil || cmp.Diff(want, got, exported) != "" {
			t.Errorf("%d: got %v, %v", nanoseconds, got, err)
		}
	}
}
