package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lineweir/segment"
	"lineweir/shard"
)

// corpusText is a string, or bytes that are none.
type corpusText []byte

func (c *corpusText) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*c = corpusText(text)
		return nil
	}
	var binary struct{ Binary []byte }
	err := json.Unmarshal(data, &binary)
	*c = binary.Binary
	return err
}

type corpusPoint struct {
	Time   int64
	Name   corpusText
	Tags   []struct{ Key, Value corpusText }
	Fields []struct {
		Key   corpusText
		Value struct {
			Float  *float64
			Int    *int64
			Uint   *uint64
			Bool   *bool
			String *corpusText
		}
	}
}

type corpusCase struct {
	Input struct {
		Text        corpusText
		DefaultTime int64
		Precision   string
	}
	Output struct {
		Result []corpusPoint
		Error  string
	}
}

// readCorpus reads the corpus of decode cases that comes with the line-protocol module.
func readCorpus(t *testing.T) map[string]corpusCase {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/influxdata/line-protocol/v2").Output()
	if err != nil {
		t.Fatalf("ask go where the line-protocol module is: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "lineprotocol", "testdata", "corpus.json"))
	if err != nil {
		t.Fatal(err)
	}
	var corpus struct{ Decode map[string]corpusCase }
	if err := json.Unmarshal(data, &corpus); err != nil {
		t.Fatal(err)
	}
	return corpus.Decode
}

// line returns the point as a dump shows it.
func (c *corpusPoint) line() string {
	p := shard.Point{Measurement: c.Name, Time: c.Time}
	for _, tag := range c.Tags {
		p.Tags = append(p.Tags, shard.Tag{Key: tag.Key, Value: tag.Value})
	}
	for _, field := range c.Fields {
		f := shard.Field{Key: field.Key}
		switch v := field.Value; {
		case v.Float != nil:
			f.Kind, f.Number = segment.KindFloat, math.Float64bits(*v.Float)
		case v.Int != nil:
			f.Kind, f.Number = segment.KindInt, uint64(*v.Int)
		case v.Uint != nil:
			f.Kind, f.Number = segment.KindUint, *v.Uint
		case v.Bool != nil:
			f.Kind = segment.KindBool
			if *v.Bool {
				f.Number = 1
			}
		default:
			f.Kind, f.String = segment.KindString, *v.String
		}
		p.Fields = append(p.Fields, f)
	}
	return strings.TrimSuffix(string(appendPoint(nil, &p)), "\n")
}

// corpusDifferences lists the cases in which we differ from the corpus, and why.
var corpusDifferences = map[string]string{
	"u e=-0e-4": "the corpus has lost the sign of the zero",
	"u e=-0.":   "the corpus has lost the sign of the zero",

	"\tm v=1":                "a tab at the start of a line is white space, as in InfluxDB",
	"\t\n\n\t":               "a tab at the start of a line is white space, as in InfluxDB",
	"\t\n\t\n\n\t\n\t":       "a tab at the start of a line is white space, as in InfluxDB",
	corpusControlsInComments: "a comment may hold control characters, as in InfluxDB",

	"\r\n\r\n\r\n":                 corpusReturns,
	"\r\n\r\n\r\n\r\n\r\n\r\n":     corpusReturns,
	"d \"=f\r\nf \"=f\r":           corpusReturns,
	"d \"=f\r\nd \"=f\r\nf \"=f\r": corpusReturns,

	`m v="\n"`: "a string keeps backslash and n, as in InfluxDB",
	`m v="\r"`: "a string keeps backslash and r, as in InfluxDB",
	`m v="\t"`: "a string keeps backslash and t, as in InfluxDB",

	"cpu,tag0=v0,time=v0 value=1": "no tag can be called time, as in InfluxDB 2 and 3",
}

const corpusReturns = "a carriage return ends no line, as in InfluxDB"

const corpusControlsInComments = "#\n#\x15\"\vf=#\n#\x15\"\vf\"\vf=0 -\"=\"\"\vf=\"#\n#\x15\"\vf=#\n#"

// TestCorpus runs the corpus against the parser and its batch. Where it has an error for control bytes in names, we take
// them, as InfluxDB does.
func TestCorpus(t *testing.T) {
	const casesMin, controlCases = 6000, 29
	corpus := readCorpus(t)
	if len(corpus) < casesMin {
		t.Fatalf("got %d cases, want at least %d", len(corpus), casesMin)
	}
	met := make(map[string]bool)
	controls := 0
	for key, c := range corpus {
		difference := c.difference(t)
		_, known := corpusDifferences[string(c.Input.Text)]
		if difference != "" && !known && c.isOfControls(t) {
			controls++
			continue
		}
		if (difference != "") != known {
			t.Errorf("%s: %q: difference is %q, listed is %v", key, c.Input.Text, difference, known)
		}
		met[string(c.Input.Text)] = true
	}
	for text := range corpusDifferences {
		if !met[text] {
			t.Errorf("the corpus has no case %q", text)
		}
	}
	if controls != controlCases {
		t.Errorf("got %d cases of control bytes in names, want %d", controls, controlCases)
	}
}

// isOfControls reports whether the corpus has an error for a text that is good with letters in the place of control
// bytes, and that we take for the same points but for those.
func (c *corpusCase) isOfControls(t *testing.T) bool {
	t.Helper()
	letters := func(text string) string {
		return strings.Map(func(r rune) rune {
			if r != '\n' && isControl(r) {
				return 'x'
			}
			return r
		}, text)
	}
	with, without := parseBody(t, string(c.Input.Text)), parseBody(t, letters(string(c.Input.Text)))
	for i := range with.Lines {
		with.Lines[i] = letters(with.Lines[i])
	}
	return c.Output.Error != "" && len(with.Errors)+len(without.Errors) == 0 && cmp.Equal(with.Lines, without.Lines)
}

// difference says in what the outcome of the case differs from what the corpus has.
func (c *corpusCase) difference(t *testing.T) string {
	t.Helper()
	precisions := map[string]Precision{
		"1ns": PrecisionNanosecond, "1µs": PrecisionMicrosecond, "1ms": PrecisionMillisecond, "1s": PrecisionSecond,
	}
	r := pointRecorder{batch: newUncheckedBatch()}
	at := time.Unix(0, c.Input.DefaultTime)
	result, err := NewParser(DefaultLineLimits()).Parse(c.Input.Text, precisions[c.Input.Precision], at, &r)
	if err != nil {
		t.Fatal(err)
	}
	if (c.Output.Error != "") != (result.Refused > 0) {
		return fmt.Sprintf("corpus has error %q, got %v", c.Output.Error, result.Errors)
	}
	if c.Output.Error != "" {
		return ""
	}
	var want []string
	for i := range c.Output.Result {
		want = append(want, c.Output.Result[i].line())
	}
	return cmp.Diff(want, r.lines)
}
