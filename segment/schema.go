package segment

import (
	"fmt"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// FORMAT.md describes the file that these limits and names make.
const (
	formatVersion = "1"
	createdBy     = "lineweir version 1"
	rootName      = "lineweir"
	timeName      = "time"

	pageValuesMin, pageValuesMax = 512, 8192           // values per page, by the number of columns
	pageTagsMin                  = 2048                // the least for tags
	pageValuesTotal              = 1 << 19             // of all columns' pages together, which a reader holds decoded
	pageTextMin, pageTextMax     = 16 << 10, 128 << 10 // a page of strings ends with the one that reaches it
	pageTextTotal                = 4 << 20             // of all columns' pages together
	pageRowsPerColumn            = 32                  // rows per page of level 0, nulls included, for each column
	groupRowsMax                 = 1 << 20             // rows per row group of level 1
	groupBytesMax                = 16 << 20            // bytes after which a row group of level 1 ends
	tagBoundBytes                = 32                  // bounds of tags in the column index are cut to this length
)

// Keys of the file's key-value metadata, all under one prefix. The last one is at the end of the footer, where the
// reader finds it before it decodes anything.
const (
	metaVersion     = "lineweir.version"
	metaDatabase    = "lineweir.database"
	metaMeasurement = "lineweir.measurement"
	metaLevel       = "lineweir.level"
	metaRank        = "lineweir.rank"
	metaSequences   = "lineweir.sequences"
	metaTags        = "lineweir.tags"
	metaMixed       = "lineweir.mixed"
	metaChecksums   = "lineweir.checksums"
)

// pageValues returns how many values a page holds at most, so that a reader of all columns holds about 4 MiB. It is a
// multiple of the block of DELTA_BINARY_PACKED, of which the last one of a page may be padded.
func pageValues(columns int) int {
	const block = 128
	return min(max(pageValuesTotal/max(columns, 1)/block*block, pageValuesMin), pageValuesMax)
}

// pageText returns how many bytes of strings a page holds before it ends.
func pageText(columns int) int {
	return min(max(pageTextTotal/max(columns, 1), pageTextMin), pageTextMax)
}

// pageRows returns how many rows a page holds at most, whether they have values or not: a row takes memory in the
// buffer of every column. On level 0 pages of wide files have more rows, because a page costs the same bytes however
// few values it has: so all pages together that end for this reason cost each row the same, and the bound counts it.
func pageRows(columns, level int) int {
	if level > 0 {
		return pageValuesMax
	}
	return max(pageRowsPerColumn*columns, pageValuesMax)
}

// columnSet is the root of the schema. A parquet.Group would sort its columns by name: here time comes first, then
// tags, then fields.
type columnSet struct {
	parquet.Group
	fields []parquet.Field
}

// Fields returns the columns in the order of the file.
func (s *columnSet) Fields() []parquet.Field { return s.fields }

// schemaOf returns the columns as Parquet knows them: time, tags, fields.
func schemaOf(info *FileInfo) *parquet.Schema {
	names := append([]string{timeName}, info.Tags...)
	// Not adjusted to UTC, because readers would cut adjusted times to microseconds.
	nodes := []parquet.Node{
		parquet.Encoded(parquet.TimestampAdjusted(parquet.Nanosecond, false), integerEncoding(info.Plain)),
	}
	for range info.Tags {
		nodes = append(nodes, parquet.Optional(parquet.Encoded(parquet.String(), &parquet.RLEDictionary)))
	}
	for _, field := range info.Fields {
		names = append(names, field.Name)
		nodes = append(nodes, parquet.Optional(fieldNode(field.Kind, info.Plain)))
	}
	set := new(columnSet)
	for i, node := range nodes {
		// A group of one column is how the library makes a Field of a Node.
		set.fields = append(set.fields, parquet.Group{names[i]: node}.Fields()...)
	}
	return parquet.NewSchema(rootName, set)
}

// integerEncoding is how times and integers are stored.
func integerEncoding(plain bool) encoding.Encoding {
	if plain {
		return &parquet.Plain
	}
	return &parquet.DeltaBinaryPacked
}

func fieldNode(kind Kind, plain bool) parquet.Node {
	switch kind {
	case KindFloat:
		return parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.Plain)
	case KindBool:
		return parquet.Encoded(parquet.Leaf(parquet.BooleanType), &parquet.Plain)
	case KindString:
		return parquet.Encoded(parquet.Leaf(textType{parquet.String().Type()}), &parquet.Plain)
	case KindUint:
		return parquet.Encoded(parquet.Uint(64), integerEncoding(plain))
	default:
		return parquet.Encoded(parquet.Leaf(parquet.Int64Type), integerEncoding(plain))
	}
}

// textType is the type of string fields. They have no bounds, and the library would say so in a column index with
// empty strings for both, by which other readers would rule out every page.
type textType struct {
	parquet.Type
}

// NewColumnIndexer returns an indexer for bounds that no value exceeds.
func (textType) NewColumnIndexer(int) parquet.ColumnIndexer { return new(textIndexer) }

type textIndexer struct {
	nullPages  []bool
	nullCounts []int64
}

// Reset forgets all pages.
func (x *textIndexer) Reset() { *x = textIndexer{} }

// IndexPage counts the nulls of a page.
func (x *textIndexer) IndexPage(values, nulls int64, _, _ parquet.Value) {
	x.nullPages = append(x.nullPages, values == nulls)
	x.nullCounts = append(x.nullCounts, nulls)
}

// ColumnIndex returns bounds that hold for all UTF-8.
func (x *textIndexer) ColumnIndex() format.ColumnIndex {
	index := format.ColumnIndex{NullPages: x.nullPages, NullCounts: x.nullCounts}
	for _, null := range x.nullPages {
		highest := []byte{0xFF}
		if null {
			highest = nil
		}
		index.MinValues = append(index.MinValues, nil)
		index.MaxValues = append(index.MaxValues, highest)
	}
	return index
}

// fieldKind is the inverse of fieldNode.
func fieldKind(element *format.SchemaElement) (Kind, error) {
	if element.Type.Valid && element.RepetitionType.Valid && element.RepetitionType.V == format.Optional {
		switch element.Type.V {
		case format.ByteArray:
			return KindString, nil
		case format.Double:
			return KindFloat, nil
		case format.Boolean:
			return KindBool, nil
		case format.Int64:
			if integer, ok := element.LogicalType.Value.(*format.IntType); ok && !integer.IsSigned {
				return KindUint, nil
			}
			return KindInt, nil
		}
	}
	return 0, fmt.Errorf("column %q has no type of a field", element.Name)
}

// keyValues returns the metadata but for the checksums, key by key.
func keyValues(info *FileInfo) []format.KeyValue {
	return []format.KeyValue{
		{Key: metaVersion, Value: formatVersion},
		{Key: metaDatabase, Value: info.Database},
		{Key: metaMeasurement, Value: info.Measurement},
		{Key: metaLevel, Value: strconv.Itoa(info.Level)},
		{Key: metaRank, Value: strconv.FormatUint(info.Rank, 10)},
		{Key: metaSequences, Value: fmt.Sprintf("%d %d", info.MinSequence, info.MaxSequence)},
		{Key: metaTags, Value: strconv.Itoa(len(info.Tags))},
		{Key: metaMixed, Value: strconv.FormatBool(info.Mixed)},
	}
}

// parseInfo is the inverse of schemaOf and keyValues.
func parseInfo(metadata *format.FileMetaData) (info FileInfo, err error) {
	values := map[string]string{}
	for _, pair := range metadata.KeyValueMetadata {
		values[pair.Key] = pair.Value
	}
	if got := values[metaVersion]; got != formatVersion {
		return info, fmt.Errorf("format version %q is not %q", got, formatVersion)
	}
	info.Database, info.Measurement = values[metaDatabase], values[metaMeasurement]
	var tags int
	_, errLevel := fmt.Sscan(values[metaLevel], &info.Level)
	_, errRank := fmt.Sscan(values[metaRank], &info.Rank)
	_, errSequences := fmt.Sscan(values[metaSequences], &info.MinSequence, &info.MaxSequence)
	_, errTags := fmt.Sscan(values[metaTags], &tags)
	_, errMixed := fmt.Sscan(values[metaMixed], &info.Mixed)
	for _, err := range []error{errLevel, errRank, errSequences, errTags, errMixed} {
		if err != nil {
			return info, fmt.Errorf("metadata: %w", err)
		}
	}
	elements := metadata.Schema
	if len(elements) < 2 || elements[1].Name != timeName || tags < 0 || 2+tags > len(elements) {
		return info, fmt.Errorf("schema of %d elements has no time and %d tags", len(elements), tags)
	}
	for i := 2; i < 2+tags; i++ {
		info.Tags = append(info.Tags, elements[i].Name)
	}
	for i := 2 + tags; i < len(elements); i++ {
		kind, err := fieldKind(&elements[i])
		if err != nil {
			return info, err
		}
		info.Fields = append(info.Fields, ColumnDef{Name: elements[i].Name, Kind: kind})
	}
	return info, info.checkOrder()
}
