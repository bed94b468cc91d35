package segment

import "math"

// TagEqual selects the rows whose tag Key has the value Value. A row that lacks the tag has the empty value.
type TagEqual struct {
	Key, Value string
}

// Selection says which rows and fields a scan yields: rows from Start to before Stop, in nanoseconds, that all Tags
// hold for, with the named Fields. Rows that have none of the named fields are left out.
type Selection struct {
	Start, Stop int64
	Tags        []TagEqual
	Fields      []string // nil: all fields
}

// AllTime returns the selection of everything. Its Stop is the greatest time there is, which line protocol can't
// write: a scan to Stop = math.MaxInt64 includes that very nanosecond.
func AllTime() Selection {
	return Selection{Start: math.MinInt64, Stop: math.MaxInt64}
}

// ContainsTime reports whether a row at t, in nanoseconds, is in the selected range.
func (s *Selection) ContainsTime(t int64) bool {
	return t >= s.Start && (t < s.Stop || s.Stop == math.MaxInt64)
}

// OverlapsTime reports whether a row between first and last, both included, may be in the selected range.
func (s *Selection) OverlapsTime(first, last int64) bool {
	return last >= s.Start && (first < s.Stop || s.Stop == math.MaxInt64)
}
