package segment

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go/encoding/rle"
)

// randomRuns returns runs of values below limit that mix lengths on both sides of every threshold of the encoder.
func randomRuns(rng *rand.Rand, limit uint32, number int) (runs []run, values []uint32) {
	for range number {
		value := rng.Uint32N(limit)
		length := uint32(1)
		switch rng.IntN(4) {
		case 0:
			length = 1 + rng.Uint32N(20)
		case 1:
			length = 1 + rng.Uint32N(5000)
		}
		runs = appendRun(runs, value, length)
		for range length {
			values = append(values, value)
		}
	}
	return runs, values
}

func TestHybridRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, width := range []uint{1, 2, 3, 7, 8, 9, 12, 16, 17, 20, 24, 31} {
		for _, number := range []int{1, 2, 5, 40, 700} {
			runs, values := randomRuns(rng, 1<<width, number)
			encoded := appendHybrid(nil, width, runs)
			got, err := decodeHybrid(nil, encoded, width, len(values))
			if err != nil {
				t.Fatalf("width %d: %v", width, err)
			}
			if diff := cmp.Diff(runs, got, cmp.AllowUnexported(run{})); diff != "" {
				t.Fatalf("width %d: (-want +got)\n%s", width, diff)
			}
		}
	}
}

// The library's decoder must read what ours writes: it stands for every other reader of Parquet.
func TestHybridIsReadByTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for width := uint(1); width <= 24; width++ {
		runs, values := randomRuns(rng, 1<<width, 300)
		library := rle.Encoding{BitWidth: int(width)}
		got, err := library.DecodeInt32(nil, appendHybrid(nil, width, runs))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range values {
			if uint32(got[i]) != want {
				t.Fatalf("width %d: value %d: got %d, want %d", width, i, got[i], want)
			}
		}
		if width == 1 {
			levels, err := library.DecodeLevels(nil, appendHybrid(nil, width, runs))
			if err != nil || uint32(levels[len(values)-1]) != values[len(values)-1] {
				t.Fatalf("levels: %v", err)
			}
		}
	}
}

func TestHybridRejectsDamage(t *testing.T) {
	runs := []run{{0, 100}, {1, 3}, {2, 50}, {3, 9}}
	encoded := appendHybrid(nil, 2, runs)
	for name, damaged := range map[string][]byte{
		"empty":     nil,
		"cut":       encoded[:len(encoded)-1],
		"longer":    append(append([]byte(nil), encoded...), 2, 0),
		"no length": {0, 0},
		"too long":  {0xFF, 0xFF, 0xFF, 0xFF, 0x0E, 1},
		"varint":    {0x80},
	} {
		if _, err := decodeHybrid(nil, damaged, 2, 162); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := decodeHybrid(nil, encoded, 0, 162); err == nil {
		t.Error("width 0: no error")
	}
}

// A run costs at most what FileCost counts for it, whatever its neighbours are.
func TestHybridCostPerRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var runs []run
		units := 0
		for i := range 300 {
			length := 1 + rng.Uint32N(40)
			runs = appendRun(runs, uint32(i)<<10, length)
			units += int(min(length, IndexedRows))
		}
		width := uint(bits.Len32(300 << 10))
		if got, bound := len(appendHybrid(nil, width, runs)), costTagIndex*units; got > bound {
			t.Fatalf("%d bytes for runs that should need at most %d", got, bound)
		}
	}
}
