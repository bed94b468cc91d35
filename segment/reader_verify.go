package segment

import (
	"bytes"
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// verifyBytes is how much of a file is read at once: whole blocks of any size.
const verifyBytes = 256 << 10

// Verify reads every byte of the file with its checksum, decodes every decodeEvery-th page of each column (1: all), and
// returns what it found: rows, nulls and bounds of decoded pages, and for the rest as the page index states them. It
// equals the writer's Written if the file is whole.
func (f *File) Verify(decodeEvery int) (Written, error) {
	if err := f.verifyChecksums(); err != nil {
		return Written{}, err
	}
	v := verification{file: f, decodeEvery: max(decodeEvery, 1)}
	defer v.close()
	found := newWritten(&f.info)
	found.SizeBytes, found.Checksum = f.sizeBytes, f.sums.footer
	var times bounds
	for i := range f.groups {
		group := &f.groups[i]
		_, b, err := v.column(group, 0, KindInt)
		if err != nil {
			return Written{}, err
		}
		times.extend(KindInt, b)
		found.Rows += group.rows
		for j := range found.Columns {
			column := &found.Columns[j]
			nulls, b, err := v.column(group, 1+j, column.Kind)
			if err != nil {
				return Written{}, err
			}
			column.add(group.rows-nulls, nulls, b)
		}
	}
	found.MinTime, found.MaxTime = int64(times.min), int64(times.max)
	return found, nil
}

// verifyChecksums reads all that the footer has checksums of. The footer's own was checked when the file was opened.
func (f *File) verifyChecksums() error {
	buf := make([]byte, min(f.sums.dataBytes, verifyBytes))
	for offset := int64(0); offset < f.sums.dataBytes; offset += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), f.sums.dataBytes-offset)]
		if err := f.readData(buf, offset); err != nil {
			return err
		}
	}
	_, err := f.readIndex()
	return err
}

type verification struct {
	file        *File
	decodeEvery int
	time        timeCursor
	tag         tagCursor
	field       fieldCursor
}

func (v *verification) close() {
	v.time.close()
	v.tag.close()
	v.field.close()
}

// column decodes pages of a column in a row group and returns its nulls and bounds.
func (v *verification) column(group *groupMeta, number int, kind Kind) (nulls int64, total bounds, err error) {
	pages, decode, err := v.open(group, number, kind)
	if err != nil {
		return 0, total, err
	}
	chunk := pages.chunk
	for i := range pages.pages {
		at := &pages.pages[i]
		b, err := statedBounds(kind, at)
		if err != nil {
			return 0, total, v.file.corrupt(at.offset, "page index: %v", err)
		}
		if i%v.decodeEvery == 0 {
			err = pages.read(at, func(page parquet.Page) (err error) {
				if err = decode(page); err == nil && page.NumNulls() != at.nulls {
					err = fmt.Errorf("%d nulls, %d stated", page.NumNulls(), at.nulls)
				}
				if err == nil {
					err = v.compare(number, kind, at, b)
				}
				return err
			})
		}
		if err != nil {
			return 0, total, err
		}
		nulls += at.nulls
		total.extend(kind, b)
	}
	switch {
	case nulls != chunk.nulls:
		return 0, total, v.file.corrupt(chunk.offset, "%d nulls, %d stated", nulls, chunk.nulls)
	case chunk.known && total != chunk.bounds: // a first page with nothing but NaN makes them unknown
		return 0, total, v.file.corrupt(chunk.offset, "bounds of pages and column differ")
	}
	return nulls, chunk.bounds, nil
}

// open returns the pages of a column, and what decodes them into the cursor of its kind.
func (v *verification) open(group *groupMeta, number int, kind Kind) (*chunkPages, func(parquet.Page) error, error) {
	switch {
	case number == 0:
		return &v.time.chunkPages, v.time.decode, v.time.open(v.file, group, number, true)
	case kind == KindTag:
		return &v.tag.chunkPages, v.tag.decode, v.tag.open(v.file, group, number, true)
	default:
		v.field.def.Kind = kind
		return &v.field.chunkPages, v.field.decode, v.field.open(v.file, group, number, true)
	}
}

// statedBounds returns the bounds of a page of numbers as the page index has them.
func statedBounds(kind Kind, at *pageMeta) (bounds, error) {
	if kind == KindTag || kind == KindString || at.nulls == at.end-at.row {
		return bounds{}, nil
	}
	return parseBounds(kind, at.min.Bytes(), at.max.Bytes())
}

// compare compares the bounds of the decoded page with the stated ones.
func (v *verification) compare(number int, kind Kind, at *pageMeta, stated bounds) error {
	var found bounds
	switch {
	case kind == KindString:
		return nil
	case kind == KindTag:
		return v.compareTag(at)
	case number == 0:
		found = numberBounds(kind, bitsOf(v.time.times))
	default:
		found = numberBounds(kind, v.field.numbers)
	}
	if found != stated {
		return fmt.Errorf("bounds are %x and %x, %x and %x stated", found.min, found.max, stated.min, stated.max)
	}
	return nil
}

// compareTag makes sure that no value exceeds the bounds, which may be shorter than the values.
func (v *verification) compareTag(at *pageMeta) error {
	lo, hi := at.min.ByteArray(), at.max.ByteArray()
	for _, r := range v.tag.runs {
		if r.value == noIndex {
			continue
		}
		if value := v.tag.value(r.value); bytes.Compare(value, lo) < 0 || bytes.Compare(value, hi) > 0 {
			return fmt.Errorf("%q is not between %q and %q", value, lo, hi)
		}
	}
	return nil
}
