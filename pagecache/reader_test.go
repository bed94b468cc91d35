package pagecache

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReadAtIsReadAtOfTheFile compares every kind of read with bytes.Reader, cold, warm and retired.
func TestReadAtIsReadAtOfTheFile(t *testing.T) {
	const size = 3*testPage + 100
	data := content(1, size)
	file := bytes.NewReader(data)
	offsets := []int64{0, 1, testPage - 1, testPage, testPage + 1, 3 * testPage, size - 1, size, size + 1}
	lengths := []int{0, 1, 99, 100, 101, testPage - 1, testPage, testPage + 1, 2*testPage + 2, size, size + 1}
	for _, state := range []string{"cold", "warm", "retired"} {
		t.Run(state, func(t *testing.T) {
			c := openCache(t, 1<<20)
			opened := c.Reader(1, file, size)
			switch state {
			case "warm":
				writeThrough(t, c, 1, data)
			case "retired":
				c.Retire(1, size)
			}
			for _, offset := range offsets {
				for _, length := range lengths {
					compareReads(t, opened, file, offset, length)
				}
			}
			if n, err := opened.ReadAt(make([]byte, 1), -1); n != 0 || err == nil {
				t.Errorf("a read before the file gave %d bytes and error %v", n, err)
			}
		})
	}
}

func compareReads(t *testing.T, opened, file io.ReaderAt, offset int64, length int) {
	t.Helper()
	want, got := make([]byte, length), make([]byte, length)
	wantN, wantErr := file.ReadAt(want, offset)
	gotN, gotErr := opened.ReadAt(got, offset)
	if gotN != wantN || gotErr != wantErr || !bytes.Equal(got, want) {
		t.Errorf("ReadAt of %d bytes at %d: got %d, %v, want %d, %v", length, offset, gotN, gotErr, wantN, wantErr)
	}
}

func TestReaderPassesTheStandardTest(t *testing.T) {
	data := content(2, 2*testPage+5)
	c := openCache(t, 1<<20)
	opened := c.Reader(2, bytes.NewReader(data), int64(len(data)))
	if err := iotest.TestReader(io.NewSectionReader(opened, 0, int64(len(data))), data); err != nil {
		t.Error(err)
	}
}

func TestReadThroughKeepsWhatItRead(t *testing.T) {
	const size = 4 * testPage
	data := content(1, size)
	c := openCache(t, 1<<20)
	file := &brokenFile{ReaderAt: bytes.NewReader(data)}
	opened := c.Reader(1, file, size)
	got := make([]byte, 2)
	if _, err := opened.ReadAt(got, testPage-1); err != nil { // spans the first two pages
		t.Fatal(err)
	}
	c.pages.Wait()
	file.broken.Store(true)
	whole := make([]byte, size)
	n, err := opened.ReadAt(whole, 0)
	if n != 2*testPage || !errors.Is(err, errBroken) || !bytes.Equal(whole[:n], data[:n]) {
		t.Errorf("got %d bytes and %v, want the two pages and the error of the third", n, err)
	}
	if !strings.Contains(err.Error(), "page 2 of segment 1") {
		t.Errorf("got %v, want it to name the page", err)
	}
	if got := c.Stats(); got.Hits != 2 || got.Misses != 3 || got.Pages != 2 {
		t.Errorf("got %+v, want 2 hits, 3 misses and 2 pages", got)
	}
}

func TestAShortFileIsAnError(t *testing.T) {
	data := content(1, testPage+10)
	for _, retired := range []bool{false, true} {
		c := openCache(t, 1<<20)
		opened := c.Reader(1, bytes.NewReader(data), 2*testPage)
		if retired {
			c.Retire(1, 2*testPage)
		}
		if _, err := opened.ReadAt(make([]byte, 100), testPage); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("retired %t: got %v, want an unexpected end", retired, err)
		}
	}
}

func TestReadAtOfCachedPagesAllocatesNothing(t *testing.T) {
	data := content(1, 4*testPage)
	c := openCache(t, 1<<20)
	writeThrough(t, c, 1, data)
	opened := c.Reader(1, bytes.NewReader(data), int64(len(data)))
	p := make([]byte, 2*testPage)
	if raceDetector {
		t.Skip("sync.Pool allocates at random under the race detector")
	}
	allocations := testing.AllocsPerRun(1000, func() {
		if _, err := opened.ReadAt(p, testPage/2); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 0 { // ristretto's batch of 64 keys comes to less than one
		t.Errorf("%g allocations for each read, want none", allocations)
	}
}
