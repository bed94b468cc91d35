package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lineweir/internal/vfs"
	"lineweir/shard"
)

// hostileLines makes lines at and beyond the limits of what may be written.
type hostileLines struct {
	rng  *rand.Rand
	line int64
}

// next returns a line of some kind. All kinds have a time, so that nobody's clock has a say.
func (h *hostileLines) next() string {
	h.line++
	kinds := []func() string{
		h.plain, h.plain, h.wide, h.tags, h.names, h.text, h.text, h.numbers, h.numbers, h.times, h.conflict,
	}
	return kinds[h.rng.IntN(len(kinds))]()
}

func (h *hostileLines) pick(of ...string) string { return of[h.rng.IntN(len(of))] }

// plain comes again and again for the same points.
func (h *hostileLines) plain() string {
	return fmt.Sprintf("plain,host=h%d n=%di,f=%d.5,%s=%s %d",
		h.rng.IntN(5), h.line, h.line, h.pick("b", "c"), h.pick("t", "F", "true"), h.rng.IntN(50))
}

// wide has up to one field more than a line may have. Which fields is left to chance, their types are not.
func (h *hostileLines) wide() string {
	fields := make([]string, h.pickLength(1, 2, 700, 1024, 1025))
	for i := range fields {
		fields[i] = fmt.Sprintf("f%d=%d%s", i, h.rng.Int64(), h.pick("i", "i")[:i%2])
	}
	return fmt.Sprintf("wide %s %d", strings.Join(fields, ","), h.line)
}

func (h *hostileLines) pickLength(of ...int) int { return of[h.rng.IntN(len(of))] }

// tags has up to one tag more than a line may have, with an escape in each.
func (h *hostileLines) tags() string {
	var line strings.Builder
	line.WriteString("tags")
	for i := range h.pickLength(0, 1, 50, 256, 257) {
		fmt.Fprintf(&line, `,t\ %d=%d\,ü\=%s`, i, h.rng.IntN(3), h.pick("x", "日本", `\`+"x"))
	}
	fmt.Fprintf(&line, " v=1 %d", h.line)
	return line.String()
}

// names are about as long as a series key may be, of bytes that no file's name can hold.
func (h *hostileLines) names() string {
	const longest = 65_535
	measurement := strings.Repeat(h.pick("ü", "/.", `\ `), 5_000)
	key, field := strings.Repeat("k", 20_000), strings.Repeat("f", h.pickLength(1, 5_000))
	value := strings.Repeat("v", longest-len(measurement)-len(key)-len(field)-h.rng.IntN(40)+10)
	return fmt.Sprintf("%s,%s=%s %s=1i %d", measurement, key, value, field, h.line)
}

// text has a string of up to one byte more than it may have. What it holds can't be compressed well.
func (h *hostileLines) text() string {
	const longest = 1 << 20
	length := h.pickLength(0, 1, h.rng.IntN(1<<10), h.rng.IntN(64<<10), h.rng.IntN(64<<10), longest, longest+1)
	content := make([]byte, length)
	for i := range content {
		content[i] = byte(h.rng.IntN(256))
		if content[i] == '"' || content[i] == '\\' {
			content[i] = '\n'
		}
	}
	if h.rng.IntN(5) > 0 { // else it is refused, unless it is very short
		content = bytes.ToValidUTF8(content, []byte("é"))
		content = bytes.ToValidUTF8(content[:min(len(content), length)], nil)
		content = append(content, make([]byte, length-len(content))...)
	}
	return fmt.Sprintf("text,kind=%d s=\"%s%s\" %d", h.rng.IntN(2), content, h.pick("", `\"`, `\\`), h.line)
}

func (h *hostileLines) numbers() string {
	return fmt.Sprintf("numbers,s=%d i=%si,u=%su,f=%s %d", h.rng.IntN(3),
		h.pick("9223372036854775807", "-9223372036854775808", "0", "-0", "1", "9223372036854775808"),
		h.pick("18446744073709551615", "18446744073709551615", "0", "1", "2", "18446744073709551616", "-1"),
		h.pick("1.7976931348623157e308", "5e-324", "-0", "-0.0", "1e-400", "1e400", "0.1", "NaN", "+Inf", "1e+15"), h.line)
}

func (h *hostileLines) times() string {
	return fmt.Sprintf("times n=%di %s", h.line, h.pick("-9223372036854775808", "-9223372036854775806",
		"9223372036854775806", "9223372036854775807", "9223372036854775808", "-1", "0", "1",
		fmt.Sprint(int64(h.rng.Uint64()))))
}

// conflict gives a field another type, sometimes.
func (h *hostileLines) conflict() string {
	return fmt.Sprintf("conflict v=%s %d", h.pick("1", "1", "1", "1i", "t", `"1"`), h.line)
}

// garbage is what no client sends on purpose. It is the last line of its body, because a quote may swallow the rest.
func (h *hostileLines) garbage() string {
	alphabet := []string{"a", "=", ",", " ", `"`, `\`, "1", "i", "é", "\xff", "\t", "#"}
	line := "g"
	for range h.rng.IntN(20) {
		line += alphabet[h.rng.IntN(len(alphabet))]
	}
	return fmt.Sprintf("%s%s %d", line, h.pick("", " v=1"), h.line)
}

func (h *hostileLines) body() string {
	var lines []string
	for range 1 + h.rng.IntN(8) {
		lines = append(lines, h.next())
	}
	return strings.Join(append(lines, h.garbage()), "\n")
}

// writeHostile writes a body and adds what of it is accepted to what must be there. It is sent again while the tier has
// no room for it. It returns how many lines were refused.
func writeHostile(t *testing.T, s *served, engine *shard.Engine, body string, all map[string]map[string]string) int {
	t.Helper()
	batch := engine.NewBatch("db")
	result, err := NewParser(DefaultLineLimits()).Parse(
		[]byte(body), PrecisionNanosecond, testDefaultTime, &pointRecorder{batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	accepted := result.AppendAccepted(nil, []byte(body))
	batch.Release()
	want := http.StatusNoContent
	if result.Refused > 0 {
		want = http.StatusBadRequest // the other points are stored
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		answer := s.post("/write?db=db", body)
		if answer.StatusCode == want {
			break
		}
		if answer.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Fatalf("a body with %d points was answered %d, want %d: %.300s", result.Points, answer.StatusCode, want, answer.body)
		}
	}
	gather(t, all, accepted)
	return result.Refused
}

// sameLines requires that what is read back is what was accepted.
func sameLines(t *testing.T, phase string, s *served, all map[string]map[string]string) {
	t.Helper()
	want, got := canonical(all), s.lines("db")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s: %d lines are read, want %d; the first that differs is\n%.300q, want\n%.300q", phase, len(got),
				len(want), strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""),
				strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""))
		}
	}
}

// smallTier makes room for a few lines of full length.
func smallTier(dir string) func(*shard.Options) {
	return func(o *shard.Options) {
		o.DataDir = dir
		o.Memtable.MaxBytes, o.Tier.CapacityBytes = 3<<20, 8<<20
		o.Admission.MaxWait = 100 * time.Millisecond
	}
}

// TestWhatIsAcceptedIsStored sends random and hostile lines through the real parser, admission, flush, compaction, a
// restart and a repair: whatever the parser accepts is read back bit for bit, nothing else is, and the tier never holds
// more than its bound, nor a file more than was reserved for it.
func TestWhatIsAcceptedIsStored(t *testing.T) {
	dir, all := t.TempDir(), map[string]map[string]string{}
	lines := &hostileLines{rng: rand.New(rand.NewPCG(1, 11))}
	engine := openTestEngine(t, smallTier(dir))
	s := startServerOf(t, engine)
	refused := 0
	for range 60 {
		refused += writeHostile(t, s, engine, lines.body(), all)
	}
	tier := engine.Status().Tier
	if tier.HighestBytes > tier.CapacityBytes || tier.ForcedBytes > 0 || tier.OverReservations > 0 {
		t.Errorf("the tier: %+v", tier)
	}
	requireLimits(t, all)
	sameLines(t, "while it moves", s, all)
	fence, err := engine.ForceSeal(t.Context())
	if err == nil {
		err = fence.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	status := engine.Status()
	deadline := time.Now().Add(2 * time.Minute)
	for status.Drain.L1Segments == 0 { // it is due after 30 s at the latest
		if status = engine.Status(); time.Now().After(deadline) {
			t.Fatalf("nothing was compacted: %+v, %+v", status.Tier, status.Drain)
		}
		time.Sleep(time.Millisecond)
	}
	sameLines(t, "compacted", s, all)
	if status.Tier.OverReservations > 0 || status.Drain.Failures > 0 || refused == 0 {
		t.Errorf("after the flush: %+v, %+v; %d lines refused", status.Tier, status.Drain, refused)
	}
	t.Logf("%d points and %d refused lines, at most %d bytes in level 0, %d segments in level 1",
		len(all), refused, tier.HighestBytes, status.Drain.L1Segments)
	stopEngine(t, engine)

	engine = openTestEngine(t, smallTier(dir))
	sameLines(t, "after a restart", startServerOf(t, engine), all)
	stopEngine(t, engine)

	spoilManifest(t, dir)
	repair := shard.RepairOptions{FS: vfs.OS, DataDir: dir, AcceptLoss: true, Decode: DecodePayload}
	if err := shard.Repair(t.Context(), repair, io.Discard); err != nil {
		t.Fatal(err)
	}
	engine = openTestEngine(t, smallTier(dir))
	sameLines(t, "after a repair", startServerOf(t, engine), all)
	stopEngine(t, engine)
}

// requireLimits requires that lines were accepted whose strings, fields and series keys are as large as they may be.
func requireLimits(t *testing.T, all map[string]map[string]string) {
	t.Helper()
	longest, widest, longestKey := 0, 0, 0
	for key, fields := range all {
		widest, longestKey = max(widest, len(fields)), max(longestKey, len(key))
		for _, value := range fields {
			longest = max(longest, len(value))
		}
	}
	limits := DefaultLineLimits()
	if longest < int(limits.StringBytesMax) || widest != limits.FieldsMax || longestKey < limits.SeriesKeyBytesMax-6_000 {
		t.Errorf("the longest string has %d bytes, the widest line %d fields, the longest key %d bytes: %+v",
			longest, widest, longestKey, limits)
	}
}

func stopEngine(t *testing.T, engine *shard.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := engine.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}

// spoilManifest damages the newest manifest in its middle, so that no engine starts before a repair.
func spoilManifest(t *testing.T, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "manifest", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("manifests: %v, %v", paths, err)
	}
	path := slices.Max(paths)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x40
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
