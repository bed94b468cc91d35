package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// bounds are the least and greatest of some numbers, as bits (see Column.Numbers).
type bounds struct {
	known    bool
	min, max uint64
}

// numberBounds returns the bounds of numbers of a kind. NaN has no place in an order: it is left out, and a set of
// nothing else has no bounds.
func numberBounds(kind Kind, numbers []uint64) bounds {
	switch {
	case len(numbers) == 0:
		return bounds{}
	case kind == KindFloat:
		return floatBounds(numbers)
	case kind == KindInt:
		lo, hi := int64(numbers[0]), int64(numbers[0])
		for _, n := range numbers {
			lo, hi = min(lo, int64(n)), max(hi, int64(n))
		}
		return bounds{true, uint64(lo), uint64(hi)}
	default:
		lo, hi := numbers[0], numbers[0]
		for _, n := range numbers {
			lo, hi = min(lo, n), max(hi, n)
		}
		return bounds{true, lo, hi}
	}
}

// floatBounds treats both zeros as equal: a lower bound of zero is -0 and an upper one +0.
func floatBounds(numbers []uint64) bounds {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, n := range numbers {
		f := math.Float64frombits(n)
		if f < lo {
			lo = f
		}
		if f > hi {
			hi = f
		}
	}
	if lo > hi { // nothing but NaN
		return bounds{}
	}
	return bounds{true, lowerZero(math.Float64bits(lo)), upperZero(math.Float64bits(hi))}
}

// lowerZero makes -0 of both zeros.
func lowerZero(bits uint64) uint64 {
	if bits == 0 {
		return math.Float64bits(math.Copysign(0, -1))
	}
	return bits
}

// upperZero makes +0 of both zeros.
func upperZero(bits uint64) uint64 {
	if bits == math.Float64bits(math.Copysign(0, -1)) {
		return 0
	}
	return bits
}

// extend widens b to cover other as well.
func (b *bounds) extend(kind Kind, other bounds) {
	switch {
	case !other.known:
	case !b.known:
		*b = other
	default:
		if lessNumber(kind, other.min, b.min) {
			b.min = other.min
		}
		if lessNumber(kind, b.max, other.max) {
			b.max = other.max
		}
	}
}

func lessNumber(kind Kind, a, b uint64) bool {
	switch kind {
	case KindFloat:
		return math.Float64frombits(a) < math.Float64frombits(b)
	case KindInt:
		return int64(a) < int64(b)
	default:
		return a < b
	}
}

// parseBounds takes the bounds of numbers as Parquet has them. Empty ones are unknown, and so is NaN.
func parseBounds(kind Kind, lo, hi []byte) (bounds, error) {
	if len(lo) == 0 && len(hi) == 0 {
		return bounds{}, nil
	}
	size := 8
	if kind == KindBool {
		size = 1
	}
	if len(lo) != size || len(hi) != size {
		return bounds{}, fmt.Errorf("bounds of %d and %d bytes", len(lo), len(hi))
	}
	if kind == KindBool {
		return bounds{true, uint64(lo[0]), uint64(hi[0])}, nil
	}
	b := bounds{true, binary.LittleEndian.Uint64(lo), binary.LittleEndian.Uint64(hi)}
	if kind != KindFloat {
		return b, nil
	}
	if math.IsNaN(math.Float64frombits(b.min)) || math.IsNaN(math.Float64frombits(b.max)) {
		return bounds{}, nil
	}
	return bounds{true, lowerZero(b.min), upperZero(b.max)}, nil
}

// bitsOf returns the same memory as bits, see Column.Numbers.
func bitsOf[T int64 | uint64 | float64](numbers []T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers))
}
