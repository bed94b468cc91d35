// Package query answers GET /api/scan: the rows of one measurement, as line protocol, CSV, JSON lines or a count.
//
// The way of one row: the engine's Source yields Blocks of columns, merged over memtables and segments, sorted by
// series key and then time. An encoder turns one row after the other into bytes of a buffer, which goes to the client
// whenever it is full, so that memory does not grow with the answer. The Block belongs to the Source; nothing of it is
// kept.
//
// An error before the first byte is returned to the caller, who answers it. An error after the first byte can't be
// answered any more: it is logged and the connection is cut, so that no client takes half an answer for a whole one.
//
// The package computes nothing: no aggregation, no expressions. It does not map errors to HTTP, authenticate, or
// choose an order.
//
// # Parameters
//
//	db            database, "db" or "db/rp" as SHOW DATABASES lists it
//	measurement   exact name
//	start, stop   nanoseconds since the epoch or RFC 3339; start is included, stop is not; default: all time
//	tag           key=value, split at the first "="; repeats, all must hold; an empty value means "has no such tag"
//	field         name of a field to show; repeats; default: all fields
//	limit         greatest number of rows; default: no limit
//	format        lp (default), csv, jsonl, count
//
// Any other parameter is an error: a misspelt "stpo" must not answer with all time.
//
// # Formats
//
// lp can be written back as it is. csv has a header; its columns are time, the tags and the fields in ascending order
// of their names, also those that the selected rows lack. A missing value is empty, an empty string is "". jsonl has
// one object per row, {"time":…,"tags":{…},"fields":{…}}; floats always have a fraction or an exponent, integers never,
// so that types survive. Times are nanoseconds, and numbers of every format have all their digits. count answers
// {"points":N,"values":M}, and 0 where the database or the measurement is unknown.
package query
