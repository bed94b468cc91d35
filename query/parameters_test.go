package query

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"lineweir/segment"
)

func TestParameterErrors(t *testing.T) {
	const good = "db=d&measurement=m"
	for _, tc := range []struct {
		query string
		want  string // part of the message
	}{
		{"measurement=m", `"db" is missing`},
		{"db=&measurement=m", `"db" is missing`},
		{"db=d", `"measurement" is missing`},
		{good + "&stpo=5", `"stpo" is unknown`},
		{good + "&db=e", `"db" is given 2 times`},
		{good + "&start=yesterday", `"start" is "yesterday"`},
		{good + "&stop=1.5", `"stop" is "1.5"`},
		{good + "&stop=", `"stop" is ""`},
		{good + "&stop=9223372036854775808", `"stop" is`},
		{good + "&start=2400-01-01T00:00:00Z", "outside of the years"},
		{good + "&start=2&stop=1", `"start" is later than stop`},
		{good + "&tag=host", `"tag" is "host"`},
		{good + "&tag==a", `"tag" is "=a"`},
		{good + "&field=", `"field" is empty`},
		{good + "&limit=0", `"limit" is "0"`},
		{good + "&limit=-1", `"limit" is "-1"`},
		{good + "&limit=many", `"limit" is "many"`},
		{good + "&format=xml", `"format" is "xml"`},
		{good + "&format=", `"format" is ""`},
		{good + "&tag=%zz", "can't be read"},
	} {
		_, err := parseRequest(tc.query)
		var parameter *ParameterError
		if !errors.As(err, &parameter) || parameter.StatusCode() != http.StatusBadRequest ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want a ParameterError with %q", tc.query, err, tc.want)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64
	}{
		{"0", 0},
		{"-5", -5},
		{"1970-01-01T00:00:01Z", 1e9},
		{"1970-01-01T00:00:00.123456789Z", 123456789},
		{"1970-01-01T01:00:01%2B01:00", 1e9},
		{"1970-01-01T01:00:01+01:00", 1e9},
		{"1969-12-31T23:00:00-01:00", 0},
	} {
		r, err := parseRequest("db=d&measurement=m&start=" + tc.text)
		if err != nil || r.selection.Start != tc.want || r.selection.Stop != segment.AllTime().Stop {
			t.Errorf("%s: got %+v, %v, want %d to the end", tc.text, r.selection, err, tc.want)
		}
	}
}
