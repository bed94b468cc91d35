package config

import "time"

// Config holds every setting. Each leaf belongs to exactly one key of the table; a field counted in bytes says so in
// its name, whatever unit the file used.
type Config struct {
	HTTP       HTTP       `koanf:"http"`
	DataDir    string     `koanf:"data_dir"`
	Shards     int        `koanf:"shards"`
	Memtable   Memtable   `koanf:"memtable"`
	PageCache  PageCache  `koanf:"page_cache"`
	Admission  Admission  `koanf:"admission"`
	WAL        WAL        `koanf:"wal"`
	Compaction Compaction `koanf:"compaction"`
	Disk       Disk       `koanf:"disk"`
	Retention  Retention  `koanf:"retention"`
	Limits     Limits     `koanf:"limits"`
	Log        Log        `koanf:"log"`
	Shutdown   Shutdown   `koanf:"shutdown"`
}

// HTTP bounds what the server accepts from its clients.
type HTTP struct {
	Listen            string        `koanf:"listen"`
	IdleTimeout       time.Duration `koanf:"idle_timeout"`
	ReadHeaderTimeout time.Duration `koanf:"read_header_timeout"`
	BodyTimeout       time.Duration `koanf:"body_timeout"`
	MaxConnections    int           `koanf:"max_connections"`
	MaxBodyBytes      int64         `koanf:"max_body_bytes"`
	InFlightBytes     int64         `koanf:"in_flight_bytes"`
	ReadBytes         int64         `koanf:"read_bytes"`
	TLSCert           string        `koanf:"tls_cert"` // "" for none
	TLSKey            string        `koanf:"tls_key"`  // "" for none
}

// Memtable bounds the in-memory tables of each shard.
type Memtable struct {
	MaxBytes  int64         `koanf:"max_bytes"`
	MaxRows   int           `koanf:"max_rows"`
	MaxAge    time.Duration `koanf:"max_age"`
	FrozenMax int           `koanf:"frozen_max"`
}

// PageCache sizes the L0 tier: its capacity is the tier's bound.
type PageCache struct {
	CapacityBytes int64   `koanf:"capacity"`
	SoftFraction  float64 `koanf:"soft_fraction"`
	PageBytes     int     `koanf:"page_bytes"`
}

// Admission says how long a write waits at the gate and what it is told when it is refused.
type Admission struct {
	MaxWait            time.Duration `koanf:"max_wait"`
	RetryAfterMin      time.Duration `koanf:"retry_after_min"`
	RetryAfterMax      time.Duration `koanf:"retry_after_max"`
	UnreadRefusalBytes int64         `koanf:"unread_refusal_bytes"`
}

// WAL sizes the write-ahead log.
type WAL struct {
	FileBytes int64 `koanf:"file_bytes"`
	MaxBytes  int64 `koanf:"max_bytes"`
}

// Compaction limits the drain of the L0 tier.
type Compaction struct {
	MaxBytesPerSecond int64 `koanf:"max_bytes_per_second"`
}

// Disk guards the file system that holds the data directory.
type Disk struct {
	ReserveBytes int64 `koanf:"reserve_bytes"`
}

// Retention says how long points are kept.
type Retention struct {
	Default time.Duration `koanf:"default"`
}

// Limits bounds what requests, lines, schemas and batches may hold.
type Limits struct {
	LinesPerRequest         int `koanf:"lines_per_request"`
	PointsPerRequest        int `koanf:"points_per_request"`
	LineBytes               int `koanf:"line_bytes"`
	TagsPerLine             int `koanf:"tags_per_line"`
	FieldsPerLine           int `koanf:"fields_per_line"`
	SeriesKeyBytes          int `koanf:"series_key_bytes"`
	StringBytes             int `koanf:"string_bytes"`
	ColumnsPerMeasurement   int `koanf:"columns_per_measurement"`
	MeasurementsPerBatch    int `koanf:"measurements_per_batch"`
	MeasurementsPerMemtable int `koanf:"measurements_per_memtable"`
}

// Log says how much is logged.
type Log struct {
	Level string `koanf:"level"`
}

// Shutdown bounds the drain when the process is told to stop.
type Shutdown struct {
	Timeout time.Duration `koanf:"timeout"`
}
