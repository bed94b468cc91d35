package config

import (
	"slices"
	"strings"
)

// sections say what the keys of a section have in common.
var sections = map[string]string{
	"http":       "The HTTP server.",
	"memtable":   "The in-memory tables, one active and a few frozen ones per shard.",
	"page_cache": "The page cache over L0 segments. Its capacity is the bound of the L0 tier.",
	"admission":  "What happens to a write that needs a seal which the L0 tier has no room for.",
	"wal":        "The write-ahead log.",
	"compaction": "The drain: L0 segments are merged into L1 segments.",
	"disk":       "The file system that holds the data directory.",
	"retention":  "How long points are kept. A database may have a retention of its own, see docs/OPERATING.md.",
	"limits":     "What requests, lines and schemas may hold. A line beyond a limit is refused, never cut.",
	"log":        "The server's own log, on standard error.",
	"shutdown":   "The drain after SIGTERM or SIGINT.",
}

// keys is the table of all settings, in the order of the documented file.
var keys = []key{
	{
		path: "http.listen", kind: kindAddress, unit: "host:port", standard: "127.0.0.1:8086",
		about:  "The address to serve HTTP on.",
		change: "0.0.0.0:8086 serves other machines; another port lets two servers share a machine.",
	},
	{
		path: "http.idle_timeout", kind: kindDuration, unit: "duration", standard: "3m", min: "1s", max: "24h",
		about:  "How long a connection without a request is kept open.",
		change: "Keep it well above the flush interval of the agents, so that they need not connect for every flush.",
	},
	{
		path: "http.read_header_timeout", kind: kindDuration, unit: "duration", standard: "10s", min: "100ms", max: "10m",
		about:  "How long a client may take to send the header of a request.",
		change: "Raise it for clients on very slow links; lower it against clients that hold connections on purpose.",
	},
	{
		path: "http.body_timeout", kind: kindDuration, unit: "duration", standard: "10s", min: "100ms", max: "10m",
		about: "How long a body may stay away. One that comes at 4KiB per second or faster may take as long as its " +
			"length; one that takes longer than this is refused with the cause memory while more than half of " +
			"http.in_flight_bytes is used.",
		change: "Raise it for clients on very slow links; lower it against clients that hold memory on purpose.",
	},
	{
		path: "http.max_connections", kind: kindCount, unit: "connections", standard: "0", min: "1", max: "1000000",
		zero: "the smaller of 4096 and half of the files that the process may open",
		about: "How many connections are served at once. Requests on further ones are answered 503 with the cause " +
			"connections; probes are answered on any.",
		change: "Raise it for more agents, each of which keeps a connection, and the limit of open files with it; every " +
			"connection takes about 20KiB, with TLS about 35KiB.",
	},
	{
		path: "http.max_body_bytes", kind: kindBytes, unit: "bytes", standard: "25MB", min: "1KiB", max: "100MB",
		about: "The longest body of a write, both as sent and after decompression. A longer one is answered 413.",
		change: "Raise it for backfills with large batches; every concurrent request may need about four times as " +
			"much memory.",
	},
	{
		path: "http.in_flight_bytes", kind: kindBytes, unit: "bytes", standard: "256MiB", min: "4KiB", max: "256GiB",
		about: "The memory that all writes between their first byte and their answer may take together: text, " +
			"parsed columns and encoded frames. A write beyond it is answered 503 with the cause memory.",
		change: "Raise it for many concurrent large batches; lower it on a small machine.",
	},
	{
		path: "http.read_bytes", kind: kindBytes, unit: "bytes", standard: "0", min: "1MiB", max: "1024GiB",
		zero: "half of what the other bounds leave of the memory",
		about: "The memory that all scans and SHOW statements may take together; no write takes any of it. One that finds " +
			"no room is answered 503 with the cause reads, one that needs more alone 400.",
		change: "Lower it to leave memory to other programs. Raise it for scans over the files of many days at once, each " +
			"of which takes about 0.2MiB for each column, or for many scans at once.",
	},
	{
		path: "http.tls_cert", kind: kindFile, unit: "path", standard: "none",
		about: "The certificate of the server with its chain, PEM. With it the server speaks TLS alone, and HTTP/2 as " +
			"well. It is read again when the file changes.",
		change: "Set it with http.tls_key where clients come from other machines: tokens and data are readable " +
			"on the way otherwise.",
	},
	{
		path: "http.tls_key", kind: kindFile, unit: "path", standard: "none",
		about:  "The key of http.tls_cert, PEM, not encrypted.",
		change: "Set it with http.tls_cert. Let nobody but the server read it.",
	},
	{
		path: "data_dir", kind: kindPath, unit: "path", standard: "./data",
		about:  "The directory that holds everything that is stored. One process at a time may use it.",
		change: "Put it on the disk that is meant to hold the data.",
	},
	{
		path: "shards", kind: kindCount, unit: "shards", standard: "0", min: "1", max: "256",
		zero: "the number of CPUs",
		about: "How many shards the series are spread over. Each has its own memtables and flushes. A directory " +
			"written with another number is carried over at the start.",
		change: "Fewer shards make fewer and larger segments; more than there are CPUs gain nothing.",
	},
	{
		path: "memtable.max_bytes", kind: kindBytes, unit: "bytes", standard: "0", min: "64KiB", max: "4GiB",
		zero: "the smaller of 64MiB and page_cache.capacity / (4 * shards)",
		about: "The cap of one memtable: the larger of the memory it takes and the worst case of the segments it " +
			"becomes. A write that does not fit needs a seal.",
		change: "Larger memtables make fewer, larger segments and take more memory and a longer recovery. All " +
			"shards' memtables together must fit below the soft limit of the page cache.",
	},
	{
		path: "memtable.max_rows", kind: kindCount, unit: "rows", standard: "1000000", min: "1", max: "100000000",
		about:  "The cap of one memtable in rows.",
		change: "Lower it to bound the time that sorting takes at a flush.",
	},
	{
		path: "memtable.max_age", kind: kindDuration, unit: "duration", standard: "60s", min: "100ms", max: "24h",
		about:  "How old the oldest row of a memtable gets before a seal is asked for.",
		change: "Shorter brings data into Parquet sooner, in more and smaller segments.",
	},
	{
		path: "memtable.frozen_max", kind: kindCount, unit: "memtables", standard: "2", min: "1", max: "16",
		about: "How many sealed memtables of one shard may wait for their flush. When that many wait, the shard's " +
			"next seal is blocked.",
		change: "Raise it where flushes come in bursts and memory is plentiful.",
	},
	{
		path: "page_cache.capacity", kind: kindBytes, unit: "bytes", standard: "0", min: "512KiB", max: "1024GiB",
		zero: "the smaller of 512MiB and an eighth of the memory",
		about: "The bound of the L0 tier, and the memory that caches it. Segments and reservations together never " +
			"exceed it because of a write.",
		change: "A larger tier rides out longer bursts; a smaller one refuses sooner and takes less memory.",
	},
	{
		path: "page_cache.soft_fraction", kind: kindFraction, unit: "fraction of the capacity", standard: "0.75",
		min: "0.1", max: "0.99",
		about: "The soft limit. Below it seals are granted at once; between it and the capacity they are spaced " +
			"by the measured drain rate.",
		change: "Lower it to slow writers down earlier and more gently.",
	},
	{
		path: "page_cache.page_bytes", kind: kindBytes, unit: "bytes", standard: "64KiB", min: "4KiB", max: "4MiB",
		about:  "The length of one cached page.",
		change: "Smaller pages read less for narrow scans, at the cost of more bookkeeping.",
	},
	{
		path: "admission.max_wait", kind: kindDuration, unit: "duration", standard: "2s", min: "0s", max: "5m",
		about: "How long a write that needs a seal waits for it before it is answered 503. 0s refuses at once.",
		change: "Keep it below the timeout of the agents (5s in Telegraf); lower it where a client should rather " +
			"buffer than wait.",
	},
	{
		path: "admission.retry_after_min", kind: kindDuration, unit: "duration of whole seconds",
		standard: "1s", min: "1s", max: "10m",
		about:  "The shortest Retry-After of a refused write.",
		change: "Raise it where very many clients retry at once.",
	},
	{
		path: "admission.retry_after_max", kind: kindDuration, unit: "duration of whole seconds",
		standard: "60s", min: "1s", max: "10m",
		about: "The longest Retry-After of a refused write.",
		change: "Lower it where clients must come back soon, whatever the predicted wait. Telegraf waits no longer " +
			"than 10m.",
	},
	{
		path: "admission.unread_refusal_bytes", kind: kindBytes, unit: "bytes", standard: "64KiB", min: "0", max: "128MiB",
		about: "While every shard is blocked, a body longer than this is refused without being read, even if its " +
			"points would still have fitted.",
		change: "Raise it so that larger bodies are given their chance; lower it to make refusing cheaper still.",
	},
	{
		path: "wal.file_bytes", kind: kindBytes, unit: "bytes", standard: "64MiB", min: "64KiB", max: "4GiB",
		about:  "The length of one file of the log. One zero-filled spare of this length always exists.",
		change: "Smaller files are freed sooner; larger ones are changed less often.",
	},
	{
		path: "wal.max_bytes", kind: kindBytes, unit: "bytes", standard: "4GiB", min: "192KiB", max: "1024GiB",
		about: "The bound of the whole log. Seals are asked for as it fills; at the bound writes are answered 503 " +
			"with the cause wal_full.",
		change: "Lower it to bound the time of recovery and the disk space; it must hold what the memtables hold.",
	},
	{
		path: "compaction.max_bytes_per_second", kind: kindBytes, unit: "bytes per second", standard: "0",
		min: "1", max: "1024GiB", zero: "no limit",
		about: "How fast compaction may read L0 segments. It can be changed at run time through " +
			"PUT /api/compaction.",
		change: "Limit it to protect a slow or shared disk, or to watch the gate at work.",
	},
	{
		path: "disk.reserve_bytes", kind: kindBytes, unit: "bytes", standard: "100MB", min: "0", max: "1024GiB",
		about: "The free space that writes leave on the disk, once all that is in memory is flushed. With less, they " +
			"are answered 503 with the cause disk_low, while flushes and compaction go on. 0 refuses none.",
		change: "Raise it where other programs share the disk; compaction needs room for its output.",
	},
	{
		path: "retention.default", kind: kindDuration, unit: "duration", standard: "0s", min: "1h", max: "876000h",
		zero: "no limit",
		about: "How long databases keep their points that no CREATE or ALTER RETENTION POLICY has given a retention. " +
			"Older points are refused, and files of L1 that hold nothing younger are removed.",
		change: "Set it where the disk can't hold everything. A year has 8760h.",
	},
	{
		path: "limits.lines_per_request", kind: kindCount, unit: "lines", standard: "2000000", min: "1", max: "100000000",
		about: "How many lines one request may have, with blank lines and comments. One with more is answered 413.",
		change: "Raise it, with http.max_body_bytes, for backfills with large batches; lower it to bound the time of one " +
			"request.",
	},
	{
		path: "limits.points_per_request", kind: kindCount, unit: "points", standard: "1000000",
		min: "1", max: "100000000",
		about:  "How many points one request may have. One with more is answered 413.",
		change: "Raise it, with memtable.max_rows, for backfills with large batches of short lines.",
	},
	{
		path: "limits.line_bytes", kind: kindBytes, unit: "bytes", standard: "4MiB", min: "64", max: "100MB",
		about: "The longest line, from its first byte to its line break, with the line breaks in its strings. It is also " +
			"bounded by http.max_body_bytes.",
		change: "Lower it against clients that send something else than line protocol.",
	},
	{
		path: "limits.tags_per_line", kind: kindCount, unit: "tags", standard: "256", min: "1", max: "65535",
		about:  "How many tags one line may have.",
		change: "Lower it against clients that turn every label they find into a tag.",
	},
	{
		path: "limits.fields_per_line", kind: kindCount, unit: "fields", standard: "1024", min: "1", max: "1000000",
		about:  "How many fields one line may have, with those that a later one of the same key overrides.",
		change: "Raise it, with limits.columns_per_measurement, for very wide measurements.",
	},
	{
		path: "limits.series_key_bytes", kind: kindBytes, unit: "bytes", standard: "65535", min: "64", max: "65535",
		about: "The longest series key: measurement, tags and the longest field key, counted as InfluxDB does but without " +
			"escapes.",
		change: "Lower it against clients that put long texts into tags.",
	},
	{
		path: "limits.string_bytes", kind: kindBytes, unit: "bytes", standard: "1MiB", min: "1", max: "1MiB",
		about:  "The longest string of a field.",
		change: "Lower it against clients that put whole documents into fields.",
	},
	{
		path: "limits.columns_per_measurement", kind: kindCount, unit: "columns", standard: "1024",
		min: "2", max: "16384",
		about:  "How many tags and fields one measurement may have.",
		change: "Raise it for very wide measurements; every column costs memory in every memtable and segment.",
	},
	{
		path: "limits.measurements_per_batch", kind: kindCount, unit: "measurements", standard: "10000",
		min: "1", max: "1000000",
		about:  "How many measurements one request may write to.",
		change: "Lower it against clients that put changing values into measurement names.",
	},
	{
		path: "limits.measurements_per_memtable", kind: kindCount, unit: "measurements", standard: "20000",
		min: "1", max: "1000000",
		about:  "How many measurements one memtable may hold. Its flush writes as many files.",
		change: "Lower it to shorten flushes; it must be at least limits.measurements_per_batch.",
	},
	{
		path: "log.level", kind: kindChoice, unit: "level", standard: "info",
		choices: []string{"debug", "info", "warn", "error"},
		about:   "The least severe level that is logged.",
		change:  "debug shows every flush and merge; warn shows only what needs attention.",
	},
	{
		path: "shutdown.timeout", kind: kindDuration, unit: "duration", standard: "30s", min: "1s", max: "1h",
		about: "How long a stop may take: finish requests, seal, flush, close. What is not flushed by then stays " +
			"in the log and is replayed at the next start.",
		change: "Keep it below the time that the service manager grants before it kills.",
	},
}

// findKey returns the key of a path, or nil.
func findKey(path string) *key {
	at := slices.IndexFunc(keys, func(k key) bool { return k.path == path })
	if at < 0 {
		return nil
	}
	return &keys[at]
}

// isSection tells whether keys stand below path.
func isSection(path string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return strings.HasPrefix(k.path, path+".") })
}
