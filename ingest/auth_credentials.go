package ingest

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"lineweir/internal/auth"
)

// The parameters by which InfluxDB 1 takes a user and a password.
const (
	userParameter     = "u"
	passwordParameter = "p"
)

// takeSecret returns the secret that a request brings, "" if none can be read: the parameter p of the URL, else the
// header, as InfluxDB 1 has it. The parameters u and p are taken out of the request, so that no endpoint sees them and
// nothing can log them.
func takeSecret(r *http.Request) (secret string, malformed bool) {
	if secret = takeParameters(r); secret != "" {
		return secret, false
	}
	secret, err := auth.ParseAuthorization(r.Header.Get("Authorization"))
	return secret, errors.Is(err, auth.ErrMalformed)
}

// takeParameters removes u and p from the URL of a request and returns p. Only their plain spelling counts, which is
// the one that clients use.
func takeParameters(r *http.Request) string {
	query := r.URL.RawQuery
	if !hasParameter(query, userParameter) && !hasParameter(query, passwordParameter) {
		return ""
	}
	password, kept := "", make([]string, 0, strings.Count(query, "&"))
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case name == passwordParameter && password == "":
			password = unescaped(value)
		case name != passwordParameter && name != userParameter:
			kept = append(kept, part)
		}
	}
	r.URL.RawQuery = strings.Join(kept, "&")
	r.RequestURI = r.URL.RequestURI()
	return password
}

// hasParameter tells whether a query may have a parameter, without reading all of it.
func hasParameter(query, name string) bool {
	return strings.HasPrefix(query, name+"=") || strings.Contains(query, "&"+name+"=")
}

// unescaped decodes a value. One that can't be decoded is no secret of ours, and stays what it is: not known.
func unescaped(value string) string {
	if plain, err := url.QueryUnescape(value); err == nil {
		return plain
	}
	return value
}
