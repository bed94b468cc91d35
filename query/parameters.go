package query

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lineweir/segment"
)

// request is what the parameters of a scan ask for.
type request struct {
	database    string
	measurement string
	selection   segment.Selection
	limit       int64 // rows
	format      string
}

// The formats of an answer.
const (
	formatLines = "lp"
	formatCSV   = "csv"
	formatJSON  = "jsonl"
	formatCount = "count"
)

var (
	formats      = []string{formatLines, formatCSV, formatJSON, formatCount}
	singleNames  = []string{"db", "measurement", "start", "stop", "limit", "format"}
	repeatsNames = []string{"tag", "field"}
)

// parseRequest reads the parameters of a scan from the query of its URL. Every error is a *ParameterError.
func parseRequest(rawQuery string) (request, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return request{}, &ParameterError{Name: "(query)", Reason: fmt.Sprintf("can't be read: %v", err)}
	}
	if err = checkNames(values); err != nil {
		return request{}, err
	}
	r := request{
		database: values.Get("db"), measurement: values.Get("measurement"),
		selection: segment.AllTime(), limit: math.MaxInt64, format: formatLines,
	}
	for _, parse := range []func(*request, url.Values) error{
		requireNames, parseTimes, parseTags, parseFields, parseLimit, parseFormat,
	} {
		if err = parse(&r, values); err != nil {
			return request{}, err
		}
	}
	return r, nil
}

// checkNames refuses unknown parameters, and repeated ones of which only one can hold.
func checkNames(values url.Values) error {
	for name, given := range values {
		switch {
		case slices.Contains(repeatsNames, name):
		case !slices.Contains(singleNames, name):
			known := strings.Join(append(slices.Clone(singleNames), repeatsNames...), ", ")
			return &ParameterError{Name: name, Reason: "is unknown; the known ones are " + known}
		case len(given) > 1:
			return &ParameterError{Name: name, Reason: fmt.Sprintf("is given %d times", len(given))}
		}
	}
	return nil
}

func requireNames(r *request, _ url.Values) error {
	if r.database == "" {
		return &ParameterError{Name: "db", Reason: "is missing: /api/scan?db=…&measurement=…"}
	}
	if r.measurement == "" {
		return &ParameterError{Name: "measurement", Reason: "is missing: /api/scan?db=…&measurement=…"}
	}
	return nil
}

func parseTimes(r *request, values url.Values) error {
	var err error
	if values.Has("start") {
		if r.selection.Start, err = parseTime("start", values.Get("start")); err != nil {
			return err
		}
	}
	if values.Has("stop") {
		if r.selection.Stop, err = parseTime("stop", values.Get("stop")); err != nil {
			return err
		}
	}
	if r.selection.Start > r.selection.Stop {
		return &ParameterError{Name: "start", Reason: "is later than stop"}
	}
	return nil
}

// parseTime reads nanoseconds since the epoch or RFC 3339. An offset's "+" that the URL holds unescaped arrives as a
// space, which no RFC 3339 time has.
func parseTime(name, text string) (int64, error) {
	if nanoseconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return nanoseconds, nil
	}
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(text, " ", "+", 1))
	if err != nil {
		const reason = "is %q, must be nanoseconds since the epoch or a time such as 2026-01-02T15:04:05Z"
		return 0, &ParameterError{Name: name, Reason: fmt.Sprintf(reason, text)}
	}
	nanoseconds := t.UnixNano()
	if !time.Unix(0, nanoseconds).Equal(t) {
		return 0, &ParameterError{Name: name, Reason: fmt.Sprintf("is %q, outside of the years 1678 to 2262", text)}
	}
	return nanoseconds, nil
}

func parseTags(r *request, values url.Values) error {
	for _, text := range values["tag"] {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return &ParameterError{Name: "tag", Reason: fmt.Sprintf("is %q, must be key=value", text)}
		}
		r.selection.Tags = append(r.selection.Tags, segment.TagEqual{Key: key, Value: value})
	}
	return nil
}

func parseFields(r *request, values url.Values) error {
	for _, name := range values["field"] {
		if name == "" {
			return &ParameterError{Name: "field", Reason: "is empty, must be the name of a field"}
		}
		if !slices.Contains(r.selection.Fields, name) {
			r.selection.Fields = append(r.selection.Fields, name)
		}
	}
	return nil
}

func parseLimit(r *request, values url.Values) error {
	if !values.Has("limit") {
		return nil
	}
	limit, err := strconv.ParseInt(values.Get("limit"), 10, 64)
	if err != nil || limit < 1 {
		return &ParameterError{
			Name: "limit", Reason: fmt.Sprintf("is %q, must be a number of rows, at least 1", values.Get("limit")),
		}
	}
	r.limit = limit
	return nil
}

func parseFormat(r *request, values url.Values) error {
	if !values.Has("format") {
		return nil
	}
	r.format = values.Get("format")
	if !slices.Contains(formats, r.format) {
		return &ParameterError{
			Name: "format", Reason: fmt.Sprintf("is %q, must be one of %s", r.format, strings.Join(formats, ", ")),
		}
	}
	return nil
}
