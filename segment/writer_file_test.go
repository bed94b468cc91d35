package segment

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// The footer is what other readers depend on. parquet-go decodes it here.
func TestFooterIsAsDocumented(t *testing.T) {
	rows := smallRows()
	rows = append(rows, row{key("host", strings.Repeat("long", 20)), 5, map[string]cell{"always": integer(7)}})
	info := infoOf(rows)
	info.Level, info.Rank, info.MinSequence, info.MaxSequence, info.Mixed = 1, 12, 345, 6789, true
	file, _ := encodeBlocks(t, info, blocksOf(rows, 100))
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	metadata := f.Metadata()
	fmt.Fprintf(&got, "created by %s\n\n%s\n\n", metadata.CreatedBy, f.Schema())
	for _, pair := range metadata.KeyValueMetadata {
		if pair.Key != metaChecksums {
			fmt.Fprintf(&got, "%s = %q\n", pair.Key, pair.Value)
		}
	}
	for i := range metadata.RowGroups {
		describeGroup(&got, &metadata.RowGroups[i])
	}
	checkGolden(t, "footer.golden", got.String())
}

func TestBytesOfAFileStayTheSame(t *testing.T) {
	rows := []row{
		{key("host", "a"), 1, map[string]cell{"f": float(0.5), "i": integer(-1), "s": text("one")}},
		{key("host", "a"), 1_000_000_000, map[string]cell{"f": float(1.5), "u": unsigned(1)}},
		{key("host", "b", "zone", "z"), 1, map[string]cell{"b": boolean(true), "i": integer(7)}},
	}
	file, _, _ := encode(t, rows, 0)
	checkGolden(t, "level0.golden", hex.Dump(file))
}

// checkGolden compares with a file in testdata, or writes it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", name, diff)
	}
}

func describeGroup(w io.Writer, group *format.RowGroup) {
	sorting, err := json.Marshal(group.SortingColumns)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "\nrow group of %d rows, sorted by %s\n", group.NumRows, sorting)
	for i := range group.Columns {
		column := &group.Columns[i].MetaData
		statistics := &column.Statistics
		fmt.Fprintf(w, "%v: %v %v %v values %d nulls %d min %q max %q\n", column.PathInSchema, column.Type,
			column.Encoding, column.Codec, column.NumValues, statistics.NullCount, statistics.MinValue, statistics.MaxValue)
	}
}

// Rows without values take memory too, so they end pages.
func TestPagesEndForTheirRows(t *testing.T) {
	rows := sparseRows(rand.New(rand.NewPCG(1, 1)), 300)
	for level, want := range []int64{32 * 302, 8192} {
		file, _, _ := encode(t, rows, level)
		f := open(t, file)
		longest := int64(0)
		for column := range f.groups[0].chunks {
			var pages chunkPages
			if err := pages.open(f, &f.groups[0], column, false); err != nil {
				t.Fatal(err)
			}
			for _, at := range pages.pages {
				longest = max(longest, at.end-at.row)
			}
			pages.close()
		}
		if longest != want {
			t.Errorf("level %d: a page has %d rows, want %d", level, longest, want)
		}
	}
}

// Strings have no bounds, and no reader may take what the page index has instead for bounds that rule out a page.
func TestBoundsOfStringsRuleOutNothing(t *testing.T) {
	rows := mixedRows(20_000)
	rows = append(rows, row{key("host", "zzz"), 1, map[string]cell{"text": text("\U0010FFFF\U0010FFFF")}})
	file, _, _ := encode(t, rows, 0)
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	leaf, found := f.Schema().Lookup("text")
	if !found {
		t.Fatal("no text")
	}
	chunk := f.RowGroups()[0].ColumnChunks()[leaf.ColumnIndex].(*parquet.FileColumnChunk)
	if _, _, ok := chunk.Bounds(); ok {
		t.Error("the column has bounds")
	}
	index, err := chunk.ColumnIndex()
	if err != nil {
		t.Fatal(err)
	}
	for i := range index.NumPages() {
		lo, hi := index.MinValue(i).ByteArray(), index.MaxValue(i).ByteArray()
		if !index.NullPage(i) && (len(lo) > 0 || bytes.Compare(hi, []byte("\U0010FFFF\U0010FFFF")) <= 0) {
			t.Errorf("page %d has bounds %q and %q", i, lo, hi)
		}
	}
}

// A writer that has written other files before writes the same bytes as a new one.
func TestWritersAreReused(t *testing.T) {
	type file struct {
		info   FileInfo
		blocks []*Block
	}
	var files []file
	for name, rows := range roundTripCases() {
		info := infoOf(rows)
		info.Measurement = name
		files = append(files, file{info, blocksOf(rows, 700)})
	}
	fresh := map[string][]byte{}
	for _, f := range files {
		for level := range 2 {
			f.info.Level = level
			fresh[fmt.Sprint(f.info.Measurement, level)], _ = encodeBlocks(t, f.info, f.blocks)
		}
	}
	var pool WriterPool
	var group sync.WaitGroup
	for worker := range 2 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 20 {
				f := files[rng.IntN(len(files))]
				f.info.Level = rng.IntN(2)
				var got bytes.Buffer
				if _, err := pool.Write(&got, f.info, sourceOf(f.blocks...)); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got.Bytes(), fresh[fmt.Sprint(f.info.Measurement, f.info.Level)]) {
					t.Errorf("%s, level %d: other bytes than from a new writer", f.info.Measurement, f.info.Level)
				}
			}
		})
	}
	group.Wait()
	if len(pool.idle) > writersKeptMax {
		t.Errorf("%d idle writers, want at most %d", len(pool.idle), writersKeptMax)
	}
}

// failingWriter takes some bytes and then none.
type failingWriter struct{ left int }

var errFull = errors.New("disk is full")

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestAFailedWriteLeavesAGoodWriter(t *testing.T) {
	rows := mixedRows(20000)
	info := infoOf(rows)
	info.Level = 1
	want, _ := encodeBlocks(t, info, blocksOf(rows, 500))
	var pool WriterPool
	for limit := 0; limit < len(want); limit += 20 << 10 {
		_, err := pool.Write(&failingWriter{limit}, info, sourceOf(blocksOf(rows, 500)...))
		if !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: got %v", limit, err)
		}
	}
	broken := errors.New("broken")
	source := &failingSource{blockSource{blocks: blocksOf(rows[:5000], 500)}, broken}
	if _, err := pool.Write(io.Discard, info, source); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	var got bytes.Buffer
	if _, err := pool.Write(&got, info, sourceOf(blocksOf(rows, 500)...)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("other bytes than from a new writer")
	}
}

func TestWriteRefusesWhatIsOutOfOrder(t *testing.T) {
	info := FileInfo{Measurement: "m", Tags: []string{"a", "b"}, Fields: []ColumnDef{{"f", KindInt}, {"g", KindString}}}
	one := func(k string, times ...int64) *Block {
		return &Block{Runs: []Run{{[]byte(k), len(times)}}, Times: times,
			Columns: []Column{{Name: "f", Kind: KindInt, Numbers: make([]uint64, len(times))}}}
	}
	withColumns := func(columns ...Column) *Block {
		b := one(key("a", "1"), 1)
		b.Columns = columns
		return b
	}
	for name, blocks := range map[string][]*Block{
		"series":        {one(key("a", "2"), 1), one(key("a", "1"), 1)},
		"time":          {one(key("a", "1"), 2, 1)},
		"time twice":    {one(key("a", "1"), 1, 1)},
		"next block":    {one(key("a", "1"), 1), one(key("a", "1"), 1)},
		"unknown tag":   {one(key("c", "1"), 1)},
		"unknown tag 2": {one(key("a", "1", "aa", "1", "b", "2"), 1)},
		"unknown field": {withColumns(Column{Name: "h", Kind: KindInt, Numbers: []uint64{1}})},
		"kind":          {withColumns(Column{Name: "f", Kind: KindUint, Numbers: []uint64{1}})},
		"columns": {withColumns(Column{Name: "g", Kind: KindString, Strings: [][]byte{nil}},
			Column{Name: "f", Kind: KindInt, Numbers: []uint64{1}})},
		"too few runs":  {{Runs: nil, Times: []int64{1}}},
		"too many runs": {{Runs: []Run{{[]byte(key()), 2}}, Times: []int64{1}}},
	} {
		var pool WriterPool
		if _, err := pool.Write(io.Discard, info, sourceOf(blocks...)); !errors.Is(err, ErrSourceOrder) {
			t.Errorf("%s: got %v, want %v", name, err, ErrSourceOrder)
		}
	}
}

func TestWriteRefusesUnsortedColumns(t *testing.T) {
	for name, info := range map[string]FileInfo{
		"tags":        {Tags: []string{"b", "a"}},
		"tag twice":   {Tags: []string{"a", "a"}},
		"fields":      {Fields: []ColumnDef{{"b", KindInt}, {"a", KindInt}}},
		"field twice": {Fields: []ColumnDef{{"a", KindInt}, {"a", KindFloat}}},
	} {
		if _, err := new(WriterPool).Write(io.Discard, info, sourceOf()); !errors.Is(err, ErrSourceOrder) {
			t.Errorf("%s: got %v, want %v", name, err, ErrSourceOrder)
		}
	}
}

// Files of level 1 are cut into row groups; a series and its tags continue in the next one.
func TestRowGroupsAreCut(t *testing.T) {
	info, blocks := cpuData(3, 500_000, 0)
	info.Level = 1
	file, written := encodeBlocks(t, info, blocks)
	f := open(t, file)
	if got := len(f.groups); got != 2 {
		t.Errorf("got %d row groups, want 2", got)
	}
	for i := range f.groups {
		if f.groups[i].rows > groupRowsMax {
			t.Errorf("row group %d has %d rows", i, f.groups[i].rows)
		}
	}
	if got := scanAll(t, f, AllTime()); int64(got) != written.Rows {
		t.Errorf("got %d rows, want %d", got, written.Rows)
	}
	sel := AllTime()
	sel.Tags = []TagEqual{{"hostname", "host_1"}}
	if got := scanAll(t, f, sel); got != 500_000 {
		t.Errorf("got %d rows of one host, want 500,000", got)
	}
}

func TestDictionariesAreCut(t *testing.T) {
	var blocks []*Block
	value := strings.Repeat("v", 1000)
	for i := range 20_000 {
		series := key("id", fmt.Sprintf("%s%06d", value, i))
		blocks = append(blocks, &Block{Runs: []Run{{[]byte(series), 1}}, Times: []int64{1},
			Columns: []Column{{Name: "f", Kind: KindInt, Numbers: []uint64{uint64(i)}}}})
	}
	info := FileInfo{Measurement: "m", Level: 1, Tags: []string{"id"}, Fields: []ColumnDef{{"f", KindInt}}}
	file, written := encodeBlocks(t, info, blocks)
	f := open(t, file)
	if len(f.groups) < 2 {
		t.Errorf("%d row groups for 20 MB of tag values", len(f.groups))
	}
	if verified, err := f.Verify(1); err != nil || !verified.Equal(written) {
		t.Errorf("verified %+v, %v; written %+v", verified, err, written)
	}
	if got := scanAll(t, f, AllTime()); got != len(blocks) {
		t.Errorf("got %d rows, want %d", got, len(blocks))
	}
}

func TestAnEmptyFile(t *testing.T) {
	for level := range 2 {
		info := FileInfo{Measurement: "m", Level: level, Fields: []ColumnDef{{"f", KindInt}}}
		file, written := encodeBlocks(t, info, nil)
		f := open(t, file)
		if diff := cmp.Diff(written, f.Written()); diff != "" || written.Rows != 0 {
			t.Errorf("(-written +read)\n%s", diff)
		}
		if rows := collect(t, f.Scan(AllTime())); len(rows) > 0 {
			t.Errorf("got %v", rows)
		}
		if _, err := f.Verify(1); err != nil {
			t.Error(err)
		}
	}
}
