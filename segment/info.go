package segment

import (
	"fmt"
	"slices"
)

// FileInfo is what a segment file says about itself, apart from its rows.
type FileInfo struct {
	Database, Measurement    string
	Level                    int    // 0: one measurement of one flush; 1: compacted
	Rank                     uint64 // order of writing, see the manifest; 0 while none is given
	MinSequence, MaxSequence uint64
	Tags                     []string    // ascending
	Fields                   []ColumnDef // ascending by name
	Mixed                    bool        // holds rows of several partitions
	Plain                    bool        // writing only: times and integers are PLAIN, as the first try failed
}

// checkOrder makes sure that tags and fields ascend by name, which writing and reading rely on, and that no two columns
// share one: Parquet refers to columns by name.
func (i *FileInfo) checkOrder() error {
	for j := 1; j < len(i.Tags); j++ {
		if i.Tags[j-1] >= i.Tags[j] {
			return fmt.Errorf("%w: tag %q after %q", ErrSourceOrder, i.Tags[j], i.Tags[j-1])
		}
	}
	for j := 1; j < len(i.Fields); j++ {
		if i.Fields[j-1].Name >= i.Fields[j].Name {
			return fmt.Errorf("%w: field %q after %q", ErrSourceOrder, i.Fields[j].Name, i.Fields[j-1].Name)
		}
	}
	for j := range i.Fields {
		name := i.Fields[j].Name
		if _, taken := slices.BinarySearch(i.Tags, name); taken || name == timeName {
			return fmt.Errorf("%w: two columns are named %q", ErrSourceOrder, name)
		}
	}
	if slices.Contains(i.Tags, timeName) {
		return fmt.Errorf("%w: two columns are named %q", ErrSourceOrder, timeName)
	}
	return nil
}

// ColumnStats counts the cells of one column. Min and Max are bits as in Column.Numbers and hold only when Bounded: for
// numbers that have a value which is not NaN.
type ColumnStats struct {
	Name          string
	Kind          Kind
	Values, Nulls int64
	Bounded       bool
	Min, Max      uint64
}

// Written is what a file holds: as counted by its writer, as stated by its footer, or as found by reading it all.
type Written struct {
	SizeBytes, Rows  int64
	MinTime, MaxTime int64         // nanoseconds, both included
	Checksum         uint32        // of the footer, which has those of all else
	Columns          []ColumnStats // tags, then fields, in the order of FileInfo
}

// newWritten returns an account of nothing.
func newWritten(info *FileInfo) Written {
	w := Written{Columns: make([]ColumnStats, 0, len(info.Tags)+len(info.Fields))}
	for _, name := range info.Tags {
		w.Columns = append(w.Columns, ColumnStats{Name: name, Kind: KindTag})
	}
	for _, field := range info.Fields {
		w.Columns = append(w.Columns, ColumnStats{Name: field.Name, Kind: field.Kind})
	}
	return w
}

// add adds the cells of a row group.
func (s *ColumnStats) add(values, nulls int64, b bounds) {
	s.Values += values
	s.Nulls += nulls
	total := bounds{s.Bounded, s.Min, s.Max}
	total.extend(s.Kind, b)
	s.Bounded, s.Min, s.Max = total.known, total.min, total.max
}

// Equal reports whether two accounts of a file agree in everything.
func (w Written) Equal(other Written) bool {
	return w.SizeBytes == other.SizeBytes && w.Rows == other.Rows && w.MinTime == other.MinTime &&
		w.MaxTime == other.MaxTime && w.Checksum == other.Checksum && slices.Equal(w.Columns, other.Columns)
}
