package segment

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// FORMAT.md describes the file that these limits and names make.
const (
	parquetMagic  = "PAR1"
	formatVersion = "1"
	createdBy     = "lineweir version 1"
	rootName      = "lineweir"
	timeName      = "time"

	pageValuesMin, pageValuesMax = 512, 8192          // values per page, by the number of columns
	pageTagsMin                  = 2048               // the least for tags, which are read as runs
	pageValuesTotal              = 1 << 19            // of all columns' pages together, which a reader holds decoded
	pageTextMin, pageTextMax     = 8 << 10, 128 << 10 // a page of strings ends with the one that reaches it
	pageTextTotal                = 4 << 20            // of all columns' pages together
	groupRowsMax                 = 1 << 20            // rows per row group of level 1
	groupBytesMax                = 16 << 20           // encoded bytes after which a row group of level 1 ends
	groupDictionaryBytes         = 8 << 20            // the same for the dictionaries of its tags
	tagBoundBytes                = 64                 // a column with a longer tag value has no bounds
	compressBytesMin             = 64                 // smaller pages are stored as they are
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

// checksumDigits is the length of a checksum in hexadecimal. That of the footer counts its own digits as zeros.
const checksumDigits = 8

// pageValues returns how many values a page holds at most, so that a reader of all columns holds about 4 MiB.
func pageValues(columns int) int {
	return min(max(pageValuesTotal/max(columns, 1), pageValuesMin), pageValuesMax)
}

// pageText returns how many bytes of strings a page holds before it ends.
func pageText(columns int) int {
	return min(max(pageTextTotal/max(columns, 1), pageTextMin), pageTextMax)
}

// schemaElements returns the columns as Parquet knows them: time, tags, fields.
func schemaElements(info *FileInfo) []format.SchemaElement {
	elements := make([]format.SchemaElement, 0, 2+len(info.Tags)+len(info.Fields))
	elements = append(elements, format.SchemaElement{
		Name:        rootName,
		NumChildren: thrift.New(int32(1 + len(info.Tags) + len(info.Fields))),
	}, format.SchemaElement{
		Name:           timeName,
		Type:           thrift.New(format.Int64),
		RepetitionType: thrift.New(format.Required),
		LogicalType: format.LogicalType{Value: &format.TimestampType{
			IsAdjustedToUTC: false, // readers would cut adjusted times to microseconds
			Unit:            format.TimeUnit{Value: new(format.NanoSeconds)},
		}},
	})
	for _, name := range info.Tags {
		elements = append(elements, schemaElement(name, KindTag))
	}
	for _, field := range info.Fields {
		elements = append(elements, schemaElement(field.Name, field.Kind))
	}
	return elements
}

func schemaElement(name string, kind Kind) format.SchemaElement {
	element := format.SchemaElement{
		Name:           name,
		Type:           thrift.New(physicalType(kind)),
		RepetitionType: thrift.New(format.Optional),
	}
	switch kind {
	case KindTag, KindString:
		element.ConvertedType = thrift.New(deprecated.UTF8)
		element.LogicalType.Value = new(format.StringType)
	case KindUint:
		element.ConvertedType = thrift.New(deprecated.Uint64)
		element.LogicalType.Value = &format.IntType{BitWidth: 64, IsSigned: false}
	}
	return element
}

func physicalType(kind Kind) format.Type {
	switch kind {
	case KindTag, KindString:
		return format.ByteArray
	case KindFloat:
		return format.Double
	case KindBool:
		return format.Boolean
	default:
		return format.Int64
	}
}

// fieldKind is the inverse of schemaElement for fields.
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
			if _, isInt := element.LogicalType.Value.(*format.IntType); isInt {
				return KindUint, nil
			}
			return KindInt, nil
		}
	}
	return 0, fmt.Errorf("column %q has no type of a field", element.Name)
}

// keyValues returns the metadata with zeros for the checksum of the footer, followed by those of the row groups.
func keyValues(info *FileInfo, groupChecksums []uint32) []format.KeyValue {
	checksums := new(strings.Builder)
	checksums.WriteString("00000000")
	for _, sum := range groupChecksums {
		fmt.Fprintf(checksums, " %08x", sum)
	}
	return []format.KeyValue{
		{Key: metaVersion, Value: formatVersion},
		{Key: metaDatabase, Value: info.Database},
		{Key: metaMeasurement, Value: info.Measurement},
		{Key: metaLevel, Value: strconv.Itoa(info.Level)},
		{Key: metaRank, Value: strconv.FormatUint(info.Rank, 10)},
		{Key: metaSequences, Value: fmt.Sprintf("%d %d", info.MinSequence, info.MaxSequence)},
		{Key: metaTags, Value: strconv.Itoa(len(info.Tags))},
		{Key: metaMixed, Value: strconv.FormatBool(info.Mixed)},
		{Key: metaChecksums, Value: checksums.String()},
	}
}

// parseInfo is the inverse of schemaElements and keyValues.
func parseInfo(metadata *format.FileMetaData) (info FileInfo, groupChecksums []uint32, err error) {
	values := map[string]string{}
	for _, pair := range metadata.KeyValueMetadata {
		values[pair.Key] = pair.Value
	}
	if got := values[metaVersion]; got != formatVersion {
		return info, nil, fmt.Errorf("format version %q is not %q", got, formatVersion)
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
			return info, nil, fmt.Errorf("metadata: %w", err)
		}
	}
	elements := metadata.Schema
	if len(elements) < 2 || elements[1].Name != timeName || tags < 0 || 2+tags > len(elements) {
		return info, nil, fmt.Errorf("schema of %d elements has no time and %d tags", len(elements), tags)
	}
	for i := 2; i < 2+tags; i++ {
		info.Tags = append(info.Tags, elements[i].Name)
	}
	for i := 2 + tags; i < len(elements); i++ {
		kind, err := fieldKind(&elements[i])
		if err != nil {
			return info, nil, err
		}
		info.Fields = append(info.Fields, ColumnDef{Name: elements[i].Name, Kind: kind})
	}
	if err := info.checkOrder(); err != nil {
		return info, nil, err
	}
	_, sums, _ := strings.Cut(values[metaChecksums], " ")
	for _, text := range strings.Fields(sums) {
		sum, err := strconv.ParseUint(text, 16, 32)
		if err != nil {
			return info, nil, fmt.Errorf("metadata: %w", err)
		}
		groupChecksums = append(groupChecksums, uint32(sum))
	}
	return info, groupChecksums, nil
}
