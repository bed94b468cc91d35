package segment

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"lineweir/internal/vfs"
	"lineweir/internal/vfs/memory"
)

var faultsLong = flag.Bool("faults.long", false, "change every byte of a compacted file, instead of some")

// tamperingFS changes the first file of level 1 that was written: before it is read back, or when it gets its name,
// which is after that.
type tamperingFS struct {
	vfs.FS
	change   func([]byte) []byte
	atRename bool

	mu   sync.Mutex
	done bool
}

func (f *tamperingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&(os.O_CREATE|os.O_WRONLY|os.O_RDWR) == 0 && !f.atRename {
		if err := f.tamper(name); err != nil {
			return nil, err
		}
	}
	return f.FS.OpenFile(name, flag, perm)
}

func (f *tamperingFS) Rename(oldName, newName string) error {
	if f.atRename {
		if err := f.tamper(oldName); err != nil {
			return err
		}
	}
	return f.FS.Rename(oldName, newName)
}

func (f *tamperingFS) tamper(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done || !strings.Contains(name, l1DirName) || !strings.HasSuffix(name, temporarySuffix) {
		return nil
	}
	f.done = true
	data, err := vfs.ReadFile(f.FS, name)
	if err != nil {
		return err
	}
	file, err := f.FS.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	changed := f.change(data)
	err = file.Truncate(int64(len(changed)))
	if err == nil {
		_, err = file.WriteAt(changed, 0)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// tampering compacts a store whose compacted file is changed on the way.
type tampering struct {
	left *memory.FS // a closed store with segments of level 0
	want []row
}

func newTampering(t *testing.T) *tampering {
	t.Helper()
	disk := memory.New()
	s := openTestStore(t, StoreOptions{FS: disk, Dir: "/data"})
	for i := range 3 {
		rows := append(series("a", noon, 20, float64(i)), series(fmt.Sprint("b", i), noon, 5, 1)...)
		for j := range rows {
			rows[j].Fields["count"] = integer(int64(j))
			if j%3 == 0 {
				rows[j].Fields["state"] = text(fmt.Sprint("state ", j%2))
			}
		}
		addL0(t, s, map[string][]row{"m": rows})
	}
	v := &tampering{left: disk, want: readRows(t, s, "m")}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return v
}

// verdict is what became of a change.
type verdict int

const (
	caught   verdict = iota // the inputs are live, and a later job does the work
	harmless                // the file is live, and reads as it should, with nothing to complain about
	missed
)

// compact runs one job with the change, and then one without.
func (v *tampering) compact(t *testing.T, change func([]byte) []byte, atRename bool) (verdict, error) {
	disk := v.left.CrashClone(rand.New(rand.NewPCG(1, 1))) // it is closed and synced: a copy
	s, err := OpenStore(StoreOptions{FS: &tamperingFS{FS: disk, change: change, atRename: atRename}, Dir: "/data"})
	if err != nil {
		return missed, err
	}
	defer s.Close()
	c := newTestCompactor(t, CompactorOptions{Store: s})
	inputs := s.Level(0).Segments
	did, failure := c.CompactOnce(t.Context())
	if failure != nil && s.Level(0).Segments != inputs {
		return missed, fmt.Errorf("a job failed and %d of %d inputs are live: %w", s.Level(0).Segments, inputs, failure)
	}
	if err := v.check(t, disk, s); err != nil {
		return missed, fmt.Errorf("after a job (done: %t, error: %v): %w", did, failure, err)
	}
	if failure == nil {
		return harmless, nil
	}
	c.attempts = newAttempts() // as after the pause that follows a failure
	if did, err := c.CompactOnce(t.Context()); !did || err != nil {
		return missed, fmt.Errorf("the next job: done %t: %w", did, err)
	}
	return caught, v.check(t, disk, s)
}

func (v *tampering) check(t *testing.T, disk *memory.FS, s *Store) error {
	view := s.Acquire(nil)
	defer view.Release()
	got, err := scanView(t, view, "m")
	if err != nil {
		return err
	}
	if diff := gocmp.Diff(v.want, got); diff != "" {
		return fmt.Errorf("rows (-want +got):\n%s", diff)
	}
	report, err := Check(disk, "/data")
	return errors.Join(append(report.Problems, err)...)
}

// outputBytes is the size of the file that the job writes.
func (v *tampering) outputBytes(t *testing.T) (size int) {
	t.Helper()
	got, err := v.compact(t, func(data []byte) []byte { size = len(data); return data }, false)
	if got != harmless || err != nil || size == 0 {
		t.Fatalf("a file that nobody changes: verdict %d, %d bytes, %v", got, size, err)
	}
	return size
}

// A bit that is not as it was written is found before the inputs are dropped, or makes no difference to anybody.
func TestAFlippedBitIsCaughtBeforeTheInputsGo(t *testing.T) {
	skipUnderRace(t)
	v := newTampering(t)
	size := v.outputBytes(t)
	step := 5
	if *faultsLong {
		step = 1
	}
	found := map[verdict]int{}
	for at := 0; at < size; at += step {
		got, err := v.compact(t, func(data []byte) []byte { data[at] ^= 1 << (at % 8); return data }, false)
		if err != nil {
			t.Errorf("a flipped bit in byte %d of %d: %v", at, size, err)
		}
		found[got]++
	}
	t.Logf("%d bytes, one bit flipped in %d of them: %d caught, %d without any difference, %d missed",
		size, (size+step-1)/step, found[caught], found[harmless], found[missed])
	if found[caught] == 0 {
		t.Error("nothing was caught")
	}
	// The control: what changes after the file was read back is missed.
	found = map[verdict]int{}
	for at := 0; at < size; at += size / 40 {
		got, err := v.compact(t, func(data []byte) []byte { data[at] ^= 1 << (at % 8); return data }, true)
		if got == caught {
			t.Errorf("a bit that was flipped after the file was read back is caught: %v", err)
		}
		found[got]++
	}
	t.Logf("flipped after the file was read back: %d without any difference, %d missed", found[harmless], found[missed])
	if found[missed] == 0 {
		t.Error("without the check nothing is missed: the test shows nothing")
	}
}

// A cut is found at every length.
func TestACutFileIsCaughtBeforeTheInputsGo(t *testing.T) {
	v := newTampering(t)
	size := v.outputBytes(t)
	step := 13
	if *faultsLong {
		step = 1
	}
	cuts := 0
	for length := 0; length < size; length += step {
		cuts++
		if got, err := v.compact(t, func(data []byte) []byte { return data[:length] }, false); got != caught || err != nil {
			t.Errorf("cut to %d of %d bytes: verdict %d, %v", length, size, got, err)
		}
	}
	t.Logf("cut to %d lengths, all caught", cuts)
}

// encoded is a file of level 1 with what its writer counted.
type encoded struct {
	data    []byte
	info    FileInfo
	written Written
}

func encodeL1(t *testing.T, rows []row) encoded {
	t.Helper()
	info := infoOf(rows)
	info.Level, info.Rank = 1, 1
	var out bytes.Buffer
	written, err := new(WriterPool).Write(&out, info, sourceOf(blocksOf(rows, 50)...))
	if err != nil {
		t.Fatal(err)
	}
	return encoded{out.Bytes(), info, written}
}

// verifyAs reads back a file whose writer counted what another one has.
func verifyAs(t *testing.T, data []byte, counted encoded) error {
	t.Helper()
	disk := memory.New()
	s := openTestStore(t, StoreOptions{FS: disk, Dir: "/data"})
	p := s.NewFile(1, counted.info, partitionOf(noon.UnixNano()))
	if err := disk.MkdirAll(filepath.Dir(p.Path()), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := disk.OpenFile(p.path(), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	p.written = counted.written
	opened, err := OpenFile("counted", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	// Size and checksum alone would tell.
	p.written.SizeBytes, p.written.Checksum = opened.Written().SizeBytes, opened.Written().Checksum
	defer p.Abort()
	return p.verify()
}

// faultyRows have a tag and fields of all kinds, some rows without.
func faultyRows(n int) []row {
	rows := series("a", noon, n, 1)
	for i := range rows {
		rows[i].Time = noon.Add(time.Duration(i) * time.Second).UnixNano()
		rows[i].Fields["value"] = float(float64(i) * 1.5)
		rows[i].Fields["count"] = integer(int64(i * i))
		rows[i].Fields["total"] = unsigned(uint64(i) << 40)
		rows[i].Fields["ok"] = boolean(i%3 == 0)
		if i%4 > 0 {
			rows[i].Fields["state"] = text(fmt.Sprint("state ", i))
		}
	}
	return rows
}

// A row that the writer has counted and not written is found, wherever it was.
func TestADroppedRowIsCaught(t *testing.T) {
	rows := faultyRows(100)
	all := encodeL1(t, rows)
	if err := verifyAs(t, all.data, all); err != nil {
		t.Fatalf("a whole file: %v", err)
	}
	for _, at := range []int{0, 1, 50, 98, 99} {
		fewer := encodeL1(t, append(append([]row(nil), rows[:at]...), rows[at+1:]...))
		if err := verifyAs(t, fewer.data, all); !isCorruption(err) {
			t.Errorf("without row %d: got %v, want corruption", at, err)
		}
	}
}

// A block whose columns have not the same length is refused by the writer, or is found when the file is read back. A
// panic counts as refused: a merge that panics leaves its inputs.
func TestColumnsOfUnequalLengthAreCaught(t *testing.T) {
	shorter := func(name string) func(*Block) {
		return func(b *Block) {
			for i := range b.Columns {
				c := &b.Columns[i]
				switch {
				case c.Name != name:
				case c.Kind == KindString:
					c.Strings = c.Strings[: len(c.Strings)-1 : len(c.Strings)-1]
				default:
					c.Numbers = c.Numbers[: len(c.Numbers)-1 : len(c.Numbers)-1]
				}
			}
		}
	}
	spoilt := map[string]func(*Block){
		"times":    func(b *Block) { b.Times = b.Times[:len(b.Times)-1] },
		"runs":     func(b *Block) { b.Runs[0].Rows-- },
		"validity": func(b *Block) { b.Columns[2].Valid = b.Columns[2].Valid[: len(b.Times)-1 : len(b.Times)-1] },
	}
	for _, name := range []string{"count", "ok", "state", "total", "value"} {
		spoilt[name] = shorter(name)
	}
	for name, spoil := range spoilt {
		rows := faultyRows(100)
		info := infoOf(rows)
		info.Level, info.Rank = 1, 1
		good, bad := blockOf(rows[:50]), blockOf(rows[50:])
		if err := writeAndVerify(t, info, good, bad); err != nil {
			t.Fatalf("good blocks: %v", err)
		}
		spoil(bad)
		if err := writeAndVerify(t, info, good, bad); err == nil {
			t.Errorf("%s: one row less than the other columns is not noticed", name)
		}
	}
	t.Logf("%d columns, one a row shorter each time: all caught", len(spoilt))
}

// writeAndVerify does with blocks what a merge does with those that it makes.
func writeAndVerify(t *testing.T, info FileInfo, blocks ...*Block) (err error) {
	t.Helper()
	s := openTestStore(t, StoreOptions{FS: memory.New(), Dir: "/data"})
	p := s.NewFile(1, info, partitionOf(noon.UnixNano()))
	defer p.Abort()
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	if _, err := p.Write(&givenBlocks{blocks}); err != nil {
		return err
	}
	return p.verify()
}

// givenBlocks hands out blocks as they are.
type givenBlocks struct{ blocks []*Block }

func (s *givenBlocks) Close() error { return nil }

func (s *givenBlocks) Next() (*Block, error) {
	if len(s.blocks) == 0 {
		return nil, io.EOF
	}
	b := s.blocks[0]
	s.blocks = s.blocks[1:]
	return b, nil
}

// A column that gets a row more than the others, behind all that the writer looks at before, is found by the writer's
// own count at the end, and again in the file. The control: the library writes and opens such files without a word.
func TestAColumnOfAnotherLengthIsCaught(t *testing.T) {
	rows := faultyRows(100)
	info := infoOf(rows)
	info.Level, info.Rank = 1, 1
	columns := 1 + len(info.Tags) + len(info.Fields)
	for column := range columns {
		disk := memory.New()
		s := openTestStore(t, StoreOptions{FS: disk, Dir: "/data"})
		p := s.NewFile(1, info, partitionOf(noon.UnixNano()))
		defer p.Abort()
		if err := errors.Join(p.begin(), p.add(blockOf(rows))); err != nil {
			t.Fatal(err)
		}
		if err := p.writer.columns[column].addTimes(p.writer.values, []int64{noon.UnixNano()}); err != nil {
			t.Fatal(err)
		}
		if err := p.finish(); err == nil {
			t.Errorf("column %d: a row more than the others have is not noticed by the writer", column)
		}
		data, err := vfs.ReadFile(disk, p.path())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFile(p.path(), bytes.NewReader(data), int64(len(data))); !isCorruption(err) {
			t.Errorf("column %d: a file with a row more than the others have: got %v, want corruption", column, err)
		}
		if _, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data))); err != nil {
			t.Errorf("column %d: the library alone notices, so the test shows nothing: %v", column, err)
		}
	}
	t.Logf("%d columns, one a row longer each time: all caught, twice", columns)
}

// A row that is missing in what a merge has written, in a file that is whole in itself, is caught before the inputs
// go. The control: one that is taken away after the file was read back is missed.
func TestARowThatAMergeDropsIsCaughtBeforeTheInputsGo(t *testing.T) {
	v := newTampering(t)
	for _, row := range []int{0, 17, len(v.want) - 1} {
		drop := func(data []byte) []byte { return withoutRow(t, data, row) }
		if got, err := v.compact(t, drop, false); got != caught || err != nil {
			t.Errorf("row %d of %d is dropped: verdict %d, %v", row, len(v.want), got, err)
		}
		if got, err := v.compact(t, drop, true); got != missed || err == nil {
			t.Errorf("row %d is dropped after the file was read back: verdict %d, so the test shows nothing", row, got)
		}
	}
}

// withoutRow writes a file anew, but for one row.
func withoutRow(t *testing.T, data []byte, number int) []byte {
	t.Helper()
	file, err := OpenFile("whole", bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := drain(t, file.Scan(AllTime()))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	source := sourceOf(blocksOf(append(rows[:number:number], rows[number+1:]...), 50)...)
	if _, err := new(WriterPool).Write(&out, file.Info(), source); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
