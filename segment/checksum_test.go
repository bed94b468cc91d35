package segment

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChecksumsRoundTrip(t *testing.T) {
	for _, want := range []checksums{
		{footer: 1, index: 0xFFFFFFFF, blockBytes: 4096, blocks: []uint32{}},
		{index: 2, dataBytes: 1, blockBytes: 4096, blocks: []uint32{3}},
		{footer: 0xDEADBEEF, dataBytes: 16384, blockBytes: 16384, blocks: []uint32{0xFFFFFFFF}},
		{dataBytes: 2*65536 + 1, blockBytes: 65536, blocks: []uint32{1, 2, 3}},
	} {
		got, err := parseChecksums(want.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(checksums{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", want.String(), diff)
		}
	}
	for _, text := range []string{"", "00000000 00000000 1 4096", "0 00000000 0 4096 ", "00000000 00000000 -1 4096 ",
		"00000000 00000000 0 4097 ", "00000000 00000000 1 4096 ", "00000000 00000000 1 4096 AAAA",
		"00000000 0000000x 0 4096 ", "00000000 00000000 9223372036854775807 65536 AAAAAA=="} {
		if _, err := parseChecksums(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// Blocks are as small as their number allows, however the data is cut when it is written.
func TestBlocksGrowWithTheFile(t *testing.T) {
	data := make([]byte, 4096*blocksMax+1)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for _, test := range []struct {
		length    int
		blockSize int64
	}{{0, 4096}, {1, 4096}, {4096, 4096}, {len(data) - 1, 4096}, {len(data), 16384}} {
		var sums dataSums
		for range 2 { // again after a reset
			sums.reset()
			for rest := data[:test.length]; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(100_000))
				sums.add(rest[:n])
				rest = rest[n:]
			}
		}
		got := sums.end(int64(test.length))
		if got.blockBytes != test.blockSize {
			t.Errorf("%d bytes: blocks of %d, want %d", test.length, got.blockBytes, test.blockSize)
		}
		for i, sum := range got.blocks {
			from := i * int(test.blockSize)
			if want := crc32.Checksum(data[from:min(from+int(test.blockSize), test.length)], castagnoli); sum != want {
				t.Errorf("%d bytes: block %d: got %08x, want %08x", test.length, i, sum, want)
			}
		}
	}
}

// Whatever is read, in whatever order, is checked, and is what is in the file.
func TestCheckedReads(t *testing.T) {
	file, _, _ := encode(t, mixedRows(30_000), 0)
	f := open(t, file)
	if len(f.sums.blocks) < 10 {
		t.Fatalf("%d blocks are too few to tell", len(f.sums.blocks))
	}
	rng := rand.New(rand.NewPCG(2, 2))
	r := checkedReader{file: f}
	damaged := bytes.Clone(file)
	broken := &checkedReader{file: open(t, damaged)}
	damaged[5*f.sums.blockBytes+7] ^= 1
	for range 2000 {
		from := rng.IntN(int(f.sums.dataBytes))
		to := min(from+rng.IntN(3*int(f.sums.blockBytes)), int(f.sums.dataBytes))
		got := make([]byte, to-from)
		if _, err := r.ReadAt(got, int64(from)); err != nil || !bytes.Equal(got, file[from:to]) {
			t.Fatalf("%d to %d: other bytes, %v", from, to, err)
		}
		_, err := broken.ReadAt(got, int64(from))
		touched := from != to && int64(from)/f.sums.blockBytes <= 5 && int64(to-1)/f.sums.blockBytes >= 5
		var corruption *CorruptionError
		if touched && (!errors.As(err, &corruption) || corruption.Offset != 5*f.sums.blockBytes) {
			t.Fatalf("%d to %d: got %v", from, to, err)
		}
	}
	for _, at := range []int64{f.sums.dataBytes - 1, f.footerAt - 1, f.sizeBytes - 1, -1} {
		if _, err := r.ReadAt(make([]byte, 2), at); err == nil {
			t.Errorf("a read of 2 bytes at %d is no error", at)
		}
	}
}
