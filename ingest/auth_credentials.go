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

// takeParameters removes u and p from the URL of a request and returns p. Their names may be escaped.
func takeParameters(r *http.Request) string {
	query := r.URL.RawQuery
	if !mayHaveParameter(query, userParameter) && !mayHaveParameter(query, passwordParameter) {
		return ""
	}
	password, kept := "", make([]string, 0, strings.Count(query, "&"))
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		switch name = unescaped(name); {
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

// mayHaveParameter tells whether a query may have a parameter, without reading all of it.
func mayHaveParameter(query, name string) bool {
	const escaped = "%"
	return strings.HasPrefix(query, name+"=") || strings.Contains(query, "&"+name+"=") ||
		strings.Contains(query, escaped)
}

// unescaped decodes a name or a value. One that can't be decoded is none of ours, and stays what it is.
func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}
