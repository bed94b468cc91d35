package load

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func lineFile(t *testing.T, text string) Workload {
	t.Helper()
	w := workload("", 0, 2)
	w.File = filepath.Join(t.TempDir(), "lines.lp")
	w.Start = time.Unix(2_000_000_000, 0)
	if err := os.WriteFile(w.File, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAFileIsReplayedWithItsTimesShifted(t *testing.T) {
	for _, test := range []struct {
		name, text string
		unit       time.Duration
		want       string
	}{
		{
			"times keep their distance",
			"m f=1 30\n# a comment \"\n\n  m,t=a f=2i 10 \r\nm f=3 20",
			time.Nanosecond,
			"m f=1 2000000000000000020\nm,t=a f=2i 2000000000000000000\n|m f=3 2000000000000000010\n",
		},
		{
			"units", "m f=1 -5\nm f=1 5\n", time.Second,
			"m f=1 2000000000000000000\nm f=1 2000000010000000000\n",
		},
		{
			"without times", "m f=1\nm f=2\n", time.Nanosecond,
			"m f=1 2000000000000000000\nm f=2 2000000000001000000\n",
		},
		{
			"strings hide ends of lines, quotes and times",
			"m f=\"a\nb \\\" 5\",g=\"# c\" 1\nm\"q,t\\ \"u=v\" f=\"x 7\"\nm\\ n,t=a\\=\\\" f=t 3\n", time.Nanosecond,
			"m f=\"a\nb \\\" 5\",g=\"# c\" 2000000000000000000\nm\"q,t\\ \"u=v\" f=\"x 7\" 2000000000001000000\n" +
				"|m\\ n,t=a\\=\\\" f=t 2000000000000000002\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := lineFile(t, test.text)
			w.FilePrecision = test.unit
			c := mustCorpus(t, w, corpusOptions{bytesMax: 1 << 20})
			var bodies []string
			for _, body := range c.bodies {
				bodies = append(bodies, string(body.text))
			}
			if diff := cmp.Diff(test.want, strings.Join(bodies, "|")); diff != "" {
				t.Errorf("bodies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoundsOfAFileFollowEachOther(t *testing.T) {
	w := lineFile(t, "m f=1 1000\nm f=2 4000\n")
	w.Interval = time.Microsecond
	c := mustCorpus(t, w, corpusOptions{bytesMax: 1 << 20})
	p := newPlan(c, &Pace{Duration: time.Second})
	b, _ := p.batch(1)
	want := "m f=1 2000000000000004000\nm f=2 2000000000000007000\n"
	if diff := cmp.Diff(want, string(c.bodies[0].appendLines(nil, b.points, b.shift))); diff != "" {
		t.Errorf("the second round (-want +got):\n%s", diff)
	}
}

func TestFilesThatCannotBeReplayed(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"m f=1 1\n\nm,t f=1 2\n", "line 3: "},
		{"m f=\"a\nb\" 1\nm f= 2\n", "line 3: "},
		{"m 5\n", "line 1: "},
		{"# nothing\n", "has no line that could be sent"},
		{"m f=1 9223372036854775807\nm f=1 -9223372036854775807\n", "too far apart"},
		{"m f=\"" + strings.Repeat("x", lineBytesMax) + "\" 1\n", "more than 1048576 bytes"},
	} {
		_, err := buildCorpus(t.Context(), lineFile(t, test.text), corpusOptions{bytesMax: 1 << 22})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: got %v, want %q", test.text, err, test.want)
		}
	}
	w := DefaultOptions().Workload
	w.File = t.TempDir() // as little as a pipe, which nobody may ever write to
	if _, err := buildCorpus(t.Context(), w, corpusOptions{bytesMax: 1 << 22}); err == nil ||
		!strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("got %v", err)
	}
	_, err := buildCorpus(t.Context(), lineFile(t, strings.Repeat("m f=1\n", 1000)), corpusOptions{bytesMax: 10_000})
	if err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("got %v", err)
	}
}

func TestLongestLine(t *testing.T) {
	line := "m f=\"" + strings.Repeat("x", lineBytesMax-len("m f=\"\" 1")) + "\" 1"
	c := mustCorpus(t, lineFile(t, line+"\n"), corpusOptions{bytesMax: 1 << 22})
	if c.lines() != 1 {
		t.Errorf("got %d lines", c.lines())
	}
}

func FuzzLineReader(f *testing.F) {
	f.Add("m f=\"a\nb\" 1\nm f=1\n")
	f.Add("m\\\n,t=\"a f=1\n#x\"\nm f=\"\\\"\n\" 1")
	f.Fuzz(func(t *testing.T, text string) {
		timer := time.AfterFunc(20*time.Second, func() { panic(fmt.Sprintf("reading %q does not end", text)) })
		defer timer.Stop()
		reader := lineReader{source: bufio.NewReader(strings.NewReader(text))}
		read := 0
		for {
			line, err := reader.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			read += len(line)
		}
		if read > len(text) || reader.number != strings.Count(text, "\n") {
			t.Fatalf("read %d bytes of %d in %d lines of %d", read, len(text), reader.number, strings.Count(text, "\n"))
		}
	})
}
