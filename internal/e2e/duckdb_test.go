package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// duckDB installs what testdata/duckdb pins, once, and returns the path of the script that reads Parquet with it.
var duckDB = sync.OnceValues(func() (string, error) {
	dir, err := installNode("duckdb", filepath.Join(repository, "testdata", "duckdb"))
	return filepath.Join(dir, "read.mjs"), err
})

// duckTags are the columns that are tags; DuckDB itself sees no difference between a tag and a string field.
var duckTags = map[string]bool{"series": true, "path": true, "rack no": true, "région": true}

// TestDuckDBReadsL1 requires that what DuckDB sees in the compacted files is what was written.
func TestDuckDBReadsL1(t *testing.T) {
	outside(t)
	script, err := duckDB()
	require(t, "duckdb", err)

	s := start(t, t.TempDir(), "shards=1")
	s.drain(t, true) // until all is written, so that one compaction merges the old write with the new one
	old := `known,rack\ no=1 f=99,old=7i -1` + "\n"
	lines := []string{edgeLines()}
	for chunk := range 5 {
		lines = append(lines, knownLines(chunk*800, 800))
	}
	for _, body := range append([]string{old}, lines...) {
		s.write(t, "duck", body)
		s.seal(t)
	}
	s.drain(t, false)
	eventually(t, clientLimit, "every segment is compacted", func() bool { return s.status(t).Tier.Segments == 0 })
	s.stop(t)

	version, got := readDuckDB(t, script, s.files(t, "l1"))
	t.Logf("DuckDB %s", version)
	want, err := parsePoints(strings.Join(lines, ""))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "DuckDB", got, want)
}

// edgeLines holds the ends of every type's range, missing tags and fields, and names and strings that need escapes.
func edgeLines() string {
	var lines strings.Builder
	for i, at := range []int64{math.MinInt64 + 2, 0, 1, 999_999_999, 1_700_000_000_000_000_001, math.MaxInt64 - 1} {
		fmt.Fprintf(&lines, "known,series=edge f=%de-324,i=%di,u=%du %d\n",
			5*i, math.MinInt64+i, math.MaxUint64-uint64(i), at)
	}
	lines.WriteString(`known,rack\ no=1 f=-0,old=7i -1` + "\n") // overwrites a field
	lines.WriteString(`known f=1.7976931348623157e308,b=true,empty="" 5` + "\n")
	lines.WriteString(`known,région=Å\,\=\ ,rack\ no=2 größe\,\ 2="two` + "\n" + `lines, \" and \\",f=0.1 5` + "\n")
	fmt.Fprintf(&lines, "known long=%q 6\n", strings.Repeat("weir ", 40_000))
	return lines.String()
}

// readDuckDB runs the script over the files and returns their rows as points, without a merge of its own.
func readDuckDB(t *testing.T, script string, paths []string) (version string, rows points) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("node", append([]string{script}, paths...)...)
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 4<<20)
	var head duckHead
	if lines.Scan() {
		decode(t, lines.Text(), &head)
	}
	rows = points{}
	for lines.Scan() {
		identity, fields, err := head.point(lines.Bytes())
		if err != nil {
			t.Fatalf("%v in %s", err, tail(lines.Text(), 1000))
		}
		if _, known := rows[identity]; known {
			t.Errorf("DuckDB sees the point %s twice", identity)
		}
		rows[identity] = fields
	}
	return head.Version, rows
}

// duckHead is the first line of the script's output.
type duckHead struct {
	Version string `json:"version"`
	Columns []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"columns"`
}

// point reads one row of the script's output.
func (h duckHead) point(line []byte) (identity, fields string, err error) {
	var row []any
	if err := json.Unmarshal(line, &row); err != nil {
		return "", "", err
	}
	at := ""
	tags, values := map[string]string{}, map[string]string{}
	for i, column := range h.Columns {
		switch {
		case row[i] == nil:
		case column.Name == "time" && column.Type == "TIMESTAMP_NS":
			at = row[i].(string)
		case duckTags[column.Name] && column.Type == "VARCHAR":
			tags[column.Name] = row[i].(string)
		default:
			value, err := duckValue(column.Type, row[i])
			if err != nil {
				return "", "", fmt.Errorf("column %s: %w", column.Name, err)
			}
			values[column.Name] = value.String()
		}
	}
	return fmt.Sprintf("known %s %s", joined(tags), at), joined(values), nil
}

func duckValue(columnType string, value any) (lineprotocol.Value, error) {
	switch columnType {
	case "BOOLEAN":
		return lineprotocol.BoolValue(value.(bool)), nil
	case "VARCHAR":
		text, ok := lineprotocol.StringValue(value.(string))
		return text, valid(ok)
	case "BIGINT":
		number, err := strconv.ParseInt(value.(string), 10, 64)
		return lineprotocol.IntValue(number), err
	case "UBIGINT":
		number, err := strconv.ParseUint(value.(string), 10, 64)
		return lineprotocol.UintValue(number), err
	case "DOUBLE":
		number, err := strconv.ParseFloat(value.(string), 64)
		if err != nil {
			return lineprotocol.Value{}, err
		}
		float, ok := lineprotocol.FloatValue(number)
		return float, valid(ok)
	default:
		return lineprotocol.Value{}, fmt.Errorf("unexpected type %s", columnType)
	}
}

var errNoValue = errors.New("line protocol has no such value")

func valid(ok bool) error {
	if ok {
		return nil
	}
	return errNoValue
}
