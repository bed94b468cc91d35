package ingest

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// writeAPI is one of the write APIs.
type writeAPI struct {
	path  string
	about string // what GET / says of it
	shape shape
	parse func(url.Values) (target, error)
}

func writeAPIs() []*writeAPI {
	return []*writeAPI{
		{"/write", "line protocol: db, rp, precision", shapeV1, parseV1},
		{"/api/v2/write", "line protocol: bucket, precision", shapeV2, parseV2},
		{"/api/v3/write_lp", "line protocol: db, precision, accept_partial", shapeV3, parseV3},
	}
}

// target is what the parameters of a write ask for.
type target struct {
	database      string
	precision     Precision
	acceptPartial bool // store good lines beside bad ones
}

// parseTarget reads the parameters of a write, from the URL only: a form is never parsed, because the body is line
// protocol whatever its Content-Type says. Parameters that the API does not know are ignored, as InfluxDB does.
func parseTarget(api *writeAPI, rawQuery string) (target, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return target{}, badRequest("the query of the URL can't be read: %s", sanitize(err.Error(), quoteBytesMax))
	}
	return api.parse(values)
}

func parseV1(values url.Values) (target, error) {
	t := target{acceptPartial: true}
	if values.Get("db") == "" {
		return t, badRequest("the database is missing: POST /write?db=NAME")
	}
	consistencies := []string{"", "any", "one", "quorum", "all"}
	if given := values.Get("consistency"); !slices.Contains(consistencies, strings.ToLower(given)) {
		return t, badRequest("invalid consistency %s (use any, one, quorum or all)", quote(given))
	}
	err := t.set(values.Get("db"), values.Get("rp"), values.Get("precision"), ParsePrecisionV1)
	return t, err
}

func parseV2(values url.Values) (target, error) {
	t := target{acceptPartial: true}
	if values.Get("bucket") == "" {
		return t, badRequest("the bucket is missing: POST /api/v2/write?bucket=NAME")
	}
	err := t.set(values.Get("bucket"), "", values.Get("precision"), ParsePrecisionV2)
	return t, err
}

func parseV3(values url.Values) (target, error) {
	t := target{acceptPartial: true}
	if values.Get("db") == "" {
		return t, badRequest("the database is missing: POST /api/v3/write_lp?db=NAME")
	}
	var err error
	if t.acceptPartial, err = parseFlag(values, "accept_partial", true); err != nil {
		return t, err
	}
	// A 204 means durable, whatever no_sync says.
	if _, err = parseFlag(values, "no_sync", false); err != nil {
		return t, err
	}
	err = t.set(values.Get("db"), "", values.Get("precision"), ParsePrecisionV3)
	return t, err
}

// set checks the names and the precision.
func (t *target) set(database, policy, precision string, parsePrecision func(string) (Precision, error)) error {
	var err error
	if t.database, err = databaseName(database, policy); err != nil {
		return err
	}
	if t.precision, err = parsePrecision(precision); err != nil {
		return badRequest("%s", err.Error())
	}
	return nil
}

func parseFlag(values url.Values, name string, otherwise bool) (bool, error) {
	if !values.Has(name) {
		return otherwise, nil
	}
	flag, err := strconv.ParseBool(values.Get(name))
	if err != nil {
		return false, badRequest("%s is %s, must be true or false", name, quote(values.Get(name)))
	}
	return flag, nil
}

// databaseNameBytesMax bounds the name of a database, with its retention policy.
const databaseNameBytesMax = 255

// databaseName returns the one name of a database: "db", or "db/rp" for a retention policy that is not the default.
// Version 2 calls the same a bucket.
func databaseName(database, policy string) (string, error) {
	name := database
	if policy != "" {
		name += "/" + policy
	}
	parts := strings.Split(name, "/")
	switch {
	case len(parts) > 2:
		return "", badRequest("the database %s has more than one slash", quote(name))
	case len(name) > databaseNameBytesMax:
		return "", badRequest("the name of the database has %d bytes, more than %d", len(name), databaseNameBytesMax)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", badRequest("the database %s has bytes that are no text", quote(name))
	case parts[0] == "" || parts[0] == "." || parts[0] == "..":
		return "", badRequest("the database can't be called %s", quote(name))
	}
	if len(parts) == 2 && slices.Contains([]string{"", "autogen", "default"}, parts[1]) {
		return parts[0], nil
	}
	return name, nil
}
