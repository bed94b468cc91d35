package segment

import (
	"encoding/binary"
	"errors"
)

// Columns of sorted rows consist of long runs: a series has the same tags in all its rows, and a field is there or not
// for hours. So the writer and the reader keep tags and presence as runs, and only this file turns them into Parquet's
// RLE/bit-packing hybrid and back. See FORMAT.md, "Hybrid".

// run is a number of consecutive equal values.
type run struct {
	value, count uint32
}

// appendRun appends count times value, extending the last run where it can.
func appendRun(runs []run, value, count uint32) []run {
	if count == 0 {
		return runs
	}
	if last := len(runs) - 1; last >= 0 && runs[last].value == value {
		runs[last].count += count
		return runs
	}
	return append(runs, run{value, count})
}

// packedGroupsMax keeps the header of a bit-packed segment at one byte, so that it can be written before its groups.
const packedGroupsMax = 63

// hybridEncoder appends runs to dst. Values that don't fill a run worth its header gather in groups of eight.
type hybridEncoder struct {
	dst    []byte
	width  uint
	header int // index in dst of the header of the open bit-packed segment; -1: none is open
	group  [8]uint32
	filled int
}

// appendHybrid encodes runs of values below 1<<width.
func appendHybrid(dst []byte, width uint, runs []run) []byte {
	e := hybridEncoder{dst: dst, width: width, header: -1}
	repeatMin := uint32(8)
	if width == 1 {
		repeatMin = 32 // below it a run costs more than its bits
	}
	for _, r := range runs {
		count := r.count
		if e.filled > 0 {
			count -= e.fill(r.value, min(count, uint32(8-e.filled)))
		}
		switch {
		case count >= repeatMin:
			e.repeat(r.value, count)
		case count > 0:
			for ; count >= 8; count -= 8 {
				e.fill(r.value, 8)
			}
			e.fill(r.value, count)
		}
	}
	if e.filled > 0 {
		e.fill(0, uint32(8-e.filled)) // readers know the number of values
	}
	return e.dst
}

// fill adds values to the open group, which has room for them, and returns their number.
func (e *hybridEncoder) fill(value, count uint32) uint32 {
	for range count {
		e.group[e.filled] = value
		e.filled++
	}
	if e.filled == 8 {
		e.pack()
	}
	return count
}

// pack appends the full group to the open bit-packed segment.
func (e *hybridEncoder) pack() {
	if e.header >= 0 && e.dst[e.header]>>1 == packedGroupsMax {
		e.header = -1
	}
	if e.header < 0 {
		e.header = len(e.dst)
		e.dst = append(e.dst, 1)
	}
	e.dst[e.header] += 2
	var bits uint64
	var have uint
	for _, value := range e.group {
		bits |= uint64(value) << have
		for have += e.width; have >= 8; have -= 8 {
			e.dst = append(e.dst, byte(bits))
			bits >>= 8
		}
	}
	e.filled = 0
}

// repeat appends a run. The open group must be empty.
func (e *hybridEncoder) repeat(value, count uint32) {
	e.header = -1
	e.dst = binary.AppendUvarint(e.dst, uint64(count)<<1)
	for shift := uint(0); shift < e.width; shift += 8 {
		e.dst = append(e.dst, byte(value>>shift))
	}
}

var errHybrid = errors.New("runs end early or hold too much")

// decodeHybrid appends the runs of count values. It takes all of src to hold them, with up to seven values of padding.
func decodeHybrid(runs []run, src []byte, width uint, count int) ([]run, error) {
	if width == 0 || width > 32 {
		return runs, errHybrid
	}
	for count > 0 {
		header, n := binary.Uvarint(src)
		if n <= 0 {
			return runs, errHybrid
		}
		src = src[n:]
		if header&1 == 0 {
			bytes := int(width+7) / 8
			length := header >> 1
			if length == 0 || length > uint64(count) || len(src) < bytes {
				return runs, errHybrid
			}
			var value uint32
			for i := range bytes {
				value |= uint32(src[i]) << (8 * i)
			}
			runs = appendRun(runs, value, uint32(length))
			count -= int(length)
			src = src[bytes:]
			continue
		}
		groups := header >> 1
		if groups == 0 || groups > uint64(count+7)/8 || uint64(len(src)) < groups*uint64(width) {
			return runs, errHybrid
		}
		for range groups {
			runs = unpackGroup(runs, src[:width], width, min(count, 8))
			count -= min(count, 8)
			src = src[width:]
		}
	}
	if len(src) > 0 {
		return runs, errHybrid
	}
	return runs, nil
}

// unpackGroup appends the first count values of a group of eight.
func unpackGroup(runs []run, src []byte, width uint, count int) []run {
	var bits uint64
	var have uint
	mask := uint64(1)<<width - 1
	for range count {
		for have < width {
			bits |= uint64(src[0]) << have
			src = src[1:]
			have += 8
		}
		runs = appendRun(runs, uint32(bits&mask), 1)
		bits >>= width
		have -= width
	}
	return runs
}
