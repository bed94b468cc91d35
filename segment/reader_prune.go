package segment

// rowRange is a range of rows of a row group, without its end.
type rowRange struct {
	from, to int64
}

// appendRange adds a range behind the others.
func appendRange(ranges []rowRange, r rowRange) []rowRange {
	if n := len(ranges); n > 0 && ranges[n-1].to == r.from {
		ranges[n-1].to = r.to
		return ranges
	}
	return append(ranges, r)
}

// pageRanges returns the rows of the pages that may hold something.
func pageRanges(pages []pageMeta, mayHold func(*pageMeta) bool) []rowRange {
	var ranges []rowRange
	for i := range pages {
		if mayHold(&pages[i]) {
			ranges = appendRange(ranges, rowRange{pages[i].row, pages[i].end})
		}
	}
	return ranges
}

// intersect returns the rows that are in both of two ascending lists of ranges.
func intersect(a, b []rowRange) []rowRange {
	var both []rowRange
	for len(a) > 0 && len(b) > 0 {
		if from, to := max(a[0].from, b[0].from), min(a[0].to, b[0].to); from < to {
			both = appendRange(both, rowRange{from, to})
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}
