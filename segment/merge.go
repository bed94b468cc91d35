package segment

// Merge returns the rows of all sources, sorted, with one row per series and time. The sources come newest first: of
// several rows with one series and time, each field has the newest value that any of them holds. Merge owns the sources
// and closes each at its end, or all of them in Close.
func Merge(sources []Source) Source { return nil }
