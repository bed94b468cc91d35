package segment

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// bounds are the least and greatest of some values, as bits (see Column.Numbers). For tags they are indexes into the
// dictionary while writing.
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

// floatBounds treats both zeros as equal. So a lower bound of zero is written as -0 and an upper one as +0, as Parquet
// asks for.
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
	if lo == 0 {
		lo = math.Copysign(0, -1)
	}
	if hi == 0 {
		hi = math.Copysign(0, 1)
	}
	return bounds{true, math.Float64bits(lo), math.Float64bits(hi)}
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

// appendNumber appends a bound as Parquet writes it.
func appendNumber(dst []byte, kind Kind, n uint64) []byte {
	if kind == KindBool {
		return append(dst, byte(n))
	}
	return binary.LittleEndian.AppendUint64(dst, n)
}

// signed returns the same memory as int64, which the delta codec wants.
func signed(numbers []uint64) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(numbers))), cap(numbers))[:len(numbers)]
}

// unsigned64 is the inverse of signed.
func unsigned64(numbers []int64) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(numbers))), cap(numbers))[:len(numbers)]
}
