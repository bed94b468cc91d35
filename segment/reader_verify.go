package segment

import (
	"bytes"
	"fmt"
)

// Verify reads every page of the file with its checksum, decodes every decodeEvery-th page of each column (1: all), and
// returns what it found: rows and nulls of every column as counted by its pages, bounds from decoded pages, and for the
// rest as stated for the page. It equals the writer's Written if the file is whole.
func (f *File) Verify(decodeEvery int) (Written, error) {
	v := verification{file: f, pages: newPageReader(f), decodeEvery: max(decodeEvery, 1)}
	v.found = Written{SizeBytes: f.sizeBytes}
	for _, column := range f.written.Columns {
		v.found.Columns = append(v.found.Columns, ColumnStats{Name: column.Name, Kind: column.Kind})
	}
	if err := f.checkMagic(); err != nil {
		return Written{}, err
	}
	var times bounds
	for i := range f.groups {
		group := &f.groups[i]
		index, err := f.readIndex(group)
		if err != nil {
			return Written{}, err
		}
		_, b, err := v.column(index, 0, KindInt)
		if err != nil {
			return Written{}, err
		}
		times.extend(KindInt, b)
		v.found.Rows += group.rows
		for j := range v.found.Columns {
			column := &v.found.Columns[j]
			nulls, b, err := v.column(index, 1+j, column.Kind)
			if err != nil {
				return Written{}, err
			}
			column.add(group.rows-nulls, nulls, b)
		}
	}
	v.found.MinTime, v.found.MaxTime = int64(times.min), int64(times.max)
	return v.found, nil
}

// checkMagic reads the only bytes that no index leads to.
func (f *File) checkMagic() error {
	magic := make([]byte, len(parquetMagic))
	if err := f.readAt(magic, 0); err != nil {
		return err
	}
	if string(magic) != parquetMagic {
		return f.corrupt(0, "no Parquet file starts here")
	}
	return nil
}

type verification struct {
	file        *File
	pages       *pageReader
	decodeEvery int
	found       Written
	tag         tagCursor
	field       fieldCursor
}

// column reads all pages of a column in a row group and returns its nulls and bounds.
func (v *verification) column(index *groupIndex, number int, kind Kind) (nulls int64, total bounds, err error) {
	chunk := &index.group.chunks[number]
	pages, err := index.pages(chunk)
	if err != nil {
		return 0, total, err
	}
	if kind == KindTag {
		if err := v.tag.reset(v.pages, chunk, pages); err != nil {
			return 0, total, err
		}
	}
	known := chunk.columnIndex.length > 0
	for i := range pages {
		at := &pages[i]
		page, err := v.pages.readData(&v.field.memory, chunk, at)
		if err != nil {
			return 0, total, err
		}
		nulls += int64(page.nulls)
		b, err := v.stated(kind, at)
		if err == nil && i%v.decodeEvery == 0 {
			err = v.decode(kind, number, &page)
		}
		if err == nil && i%v.decodeEvery == 0 && known {
			err = v.compare(kind, at, b)
		}
		if err != nil {
			return 0, total, v.file.corrupt(at.offset, "page of rows %d to %d: %v", at.row, at.end, err)
		}
		total.extend(kind, b)
	}
	if nulls != chunk.nulls {
		return 0, total, v.file.corrupt(chunk.pages.offset, "%d nulls, %d stated", nulls, chunk.nulls)
	}
	return nulls, total, nil
}

// stated returns the bounds of a page of numbers as the column index has them.
func (v *verification) stated(kind Kind, at *pageMeta) (bounds, error) {
	if kind == KindTag || kind == KindString {
		return bounds{}, nil
	}
	return parseBounds(kind, at.min, at.max)
}

// decode decodes a page.
func (v *verification) decode(kind Kind, number int, page *encodedPage) (err error) {
	switch {
	case kind == KindTag:
		return v.tag.decode(page)
	case kind == KindString:
		v.field.def.Kind = kind
		if err := v.field.decode(page); err != nil {
			return err
		}
		return checkTexts(v.field.text, page.rows-page.nulls)
	case number == 0:
		v.field.decoded, err = decodeNumbers(v.field.decoded, kind, page)
		if err == nil && len(v.field.decoded) != page.rows {
			err = errValues
		}
		return err
	default:
		v.field.def.Kind = kind
		return v.field.decode(page)
	}
}

// compare compares the bounds of the decoded page with the stated ones.
func (v *verification) compare(kind Kind, at *pageMeta, stated bounds) error {
	if kind == KindTag {
		return v.compareTag(at)
	}
	if found := numberBounds(kind, v.field.decoded); found != stated {
		return fmt.Errorf("bounds are %x and %x, %x and %x stated", found.min, found.max, stated.min, stated.max)
	}
	return nil
}

func (v *verification) compareTag(at *pageMeta) error {
	var lo, hi []byte
	for _, r := range v.tag.indexes {
		value := v.tag.dictionary.value(int32(r.value))
		if lo == nil || bytes.Compare(value, lo) < 0 {
			lo = value
		}
		if hi == nil || bytes.Compare(value, hi) > 0 {
			hi = value
		}
	}
	if !bytes.Equal(lo, at.min) || !bytes.Equal(hi, at.max) {
		return fmt.Errorf("bounds are %q and %q, %q and %q stated", lo, hi, at.min, at.max)
	}
	return nil
}

func checkTexts(plain []byte, count int) error {
	for range count {
		_, rest, ok := nextText(plain)
		if !ok {
			return errValues
		}
		plain = rest
	}
	if len(plain) > 0 {
		return errValues
	}
	return nil
}
