package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// goTypes says which fields of Config a kind of key may fill.
var goTypes = map[kind][]reflect.Type{
	kindBytes:    {reflect.TypeFor[int64](), reflect.TypeFor[int]()},
	kindCount:    {reflect.TypeFor[int]()},
	kindDuration: {reflect.TypeFor[time.Duration]()},
	kindFraction: {reflect.TypeFor[float64]()},
	kindAddress:  {reflect.TypeFor[string]()},
	kindPath:     {reflect.TypeFor[string]()},
	kindFile:     {reflect.TypeFor[string]()},
	kindChoice:   {reflect.TypeFor[string]()},
}

// leaves maps the path of each leaf of a struct to its type, by the koanf tags.
func leaves(prefix string, structure reflect.Type) map[string]reflect.Type {
	found := make(map[string]reflect.Type)
	for field := range structure.Fields() {
		path := prefix + field.Tag.Get("koanf")
		if field.Type.Kind() != reflect.Struct {
			found[path] = field.Type
			continue
		}
		for below, leaf := range leaves(path+".", field.Type) {
			found[below] = leaf
		}
	}
	return found
}

func TestTableAndConfigHaveTheSameKeys(t *testing.T) {
	fields := leaves("", reflect.TypeFor[Config]())
	for _, k := range keys {
		field, ok := fields[k.path]
		if !ok {
			t.Errorf("the key %s has no field", k.path)
			continue
		}
		if !slices.Contains(goTypes[k.kind], field) {
			t.Errorf("the key %s fills a field of type %v", k.path, field)
		}
		delete(fields, k.path)
	}
	for path := range fields {
		t.Errorf("the field %s has no key", path)
	}
}

func TestTableIsComplete(t *testing.T) {
	ordered := []kind{kindBytes, kindCount, kindDuration, kindFraction}
	for _, k := range keys {
		if k.unit == "" || k.about == "" || k.change == "" {
			t.Errorf("%s lacks a unit or its documentation", k.path)
		}
		if isOrdered := slices.Contains(ordered, k.kind); isOrdered != (k.min != "" && k.max != "") {
			t.Errorf("%s has the bounds %q and %q", k.path, k.min, k.max)
		}
		if section, _, nested := strings.Cut(k.path, "."); nested && sections[section] == "" {
			t.Errorf("the section %s lacks its documentation", section)
		}
		if k.kind == kindChoice && len(k.choices) == 0 {
			t.Errorf("%s has no choices", k.path)
		}
	}
	for section := range sections {
		if !isSection(section) {
			t.Errorf("the section %s has no key", section)
		}
	}
}

func TestEnvironmentNamesAreDistinct(t *testing.T) {
	if got := len(environmentKeys()); got != len(keys) {
		t.Errorf("%d keys have %d names", len(keys), got)
	}
	for path, want := range map[string]string{
		"http.listen":        "LINEWEIR_HTTP_LISTEN",
		"data_dir":           "LINEWEIR_DATA_DIR",
		"memtable.max_bytes": "LINEWEIR_MEMTABLE_MAX_BYTES",
	} {
		if got := findKey(path).environment(); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestParseStaysInRange(t *testing.T) {
	for _, test := range []struct {
		path, text string
		want       any
		problem    string
	}{
		{"memtable.max_bytes", "64KiB", int64(65_536), ""},
		{"memtable.max_bytes", "65535", nil,
			"65535 is outside the range: 64KiB to 4GiB, or 0 for the smaller of 64MiB and page_cache.capacity / (4 * shards)"},
		{"memtable.max_bytes", "0", int64(0), ""},
		{"memtable.max_bytes", "4GiB", int64(4 << 30), ""},
		{"memtable.max_bytes", "4294967297", nil,
			"4294967297 is outside the range: 64KiB to 4GiB, or 0 for the smaller of 64MiB and " +
				"page_cache.capacity / (4 * shards)"},
		{"memtable.max_rows", "0", nil, "0 is outside the range: 1 to 100000000"},
		{"memtable.max_rows", "1e6", nil, `"1e6" is not a whole number`},
		{"memtable.max_rows", "9223372036854775808", nil, `"9223372036854775808": the value does not fit 64 bits`},
		{"memtable.max_age", "1m30s", 90 * time.Second, ""},
		{"memtable.max_age", "60", nil, `"60" is not a duration such as 500ms, 2s or 1m30s`},
		{"memtable.max_age", "-1s", nil, "-1s is outside the range: 100ms to 24h"},
		{"page_cache.soft_fraction", "0.5", 0.5, ""},
		{"page_cache.soft_fraction", "NaN", nil, "NaN is outside the range: 0.1 to 0.99"},
		{"page_cache.soft_fraction", "75%", nil, `"75%" is not a number such as 0.75`},
		{"http.listen", "[::1]:0", "[::1]:0", ""},
		{"http.listen", "localhost", nil, `"localhost" is not an address such as 127.0.0.1:8086`},
		{"http.listen", "localhost:http", nil, `"localhost:http": the port is not a number from 0 to 65535`},
		{"http.listen", ":65536", nil, `":65536": the port is not a number from 0 to 65535`},
		{"http.tls_cert", "none", "", ""},
		{"http.tls_cert", "./none", "./none", ""},
		{"http.tls_cert", "", nil, "the value is empty"},
		{"log.level", "loud", nil, `"loud" is none of debug, info, warn, error`},
		{"data_dir", " ", nil, "the value is empty"},
	} {
		got, err := findKey(test.path).parse(test.text)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if got != test.want || problem != test.problem {
			t.Errorf("%s = %s: got %v, %q, want %v, %q", test.path, test.text, got, problem, test.want, test.problem)
		}
	}
}

func TestDefaults(t *testing.T) {
	want := Config{
		HTTP: HTTP{
			Listen: "127.0.0.1:8086", IdleTimeout: 3 * time.Minute, ReadHeaderTimeout: 10 * time.Second,
			BodyTimeout: 10 * time.Second, MaxBodyBytes: 25_000_000, InFlightBytes: 256 << 20,
		},
		DataDir:   "./data",
		Memtable:  Memtable{MaxRows: 1_000_000, MaxAge: time.Minute, FrozenMax: 2},
		PageCache: PageCache{SoftFraction: 0.75, PageBytes: 64 << 10},
		Admission: Admission{
			MaxWait: 2 * time.Second, RetryAfterMin: time.Second, RetryAfterMax: time.Minute, UnreadRefusalBytes: 64 << 10,
		},
		WAL:  WAL{FileBytes: 64 << 20, MaxBytes: 4 << 30},
		Disk: Disk{ReserveBytes: 100_000_000},
		Limits: Limits{
			LinesPerRequest: 2_000_000, PointsPerRequest: 1_000_000, LineBytes: 4 << 20, TagsPerLine: 256,
			FieldsPerLine: 1024, SeriesKeyBytes: 65_535, StringBytes: 1 << 20,
			ColumnsPerMeasurement: 1024, MeasurementsPerBatch: 10_000, MeasurementsPerMemtable: 20_000,
		},
		Log:      Log{Level: "info"},
		Shutdown: Shutdown{Timeout: 30 * time.Second},
	}
	if diff := cmp.Diff(want, Default()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}
