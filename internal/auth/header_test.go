package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

func TestParseAuthorization(t *testing.T) {
	for _, tc := range []struct {
		value, want string
		err         error
	}{
		{"Token abc", "abc", nil},
		{"token abc", "abc", nil},
		{"BEARER abc", "abc", nil},
		{"Bearer \t abc  ", "abc", nil},
		{"Token user:abc", "abc", nil},
		{basic("user:abc"), "abc", nil},
		{strings.Replace(basic("user:abc"), "Basic", "bASIC  ", 1), "abc", nil},
		{basic(":abc"), "abc", nil},
		{basic("user:with:colon"), "with:colon", nil},
		{"Token a b", "a b", nil}, // no token of ours
		{"Token " + strings.Repeat("x", headerBytesMax-6), strings.Repeat("x", headerBytesMax-6), nil},
		{"Token " + strings.Repeat("x", headerBytesMax-5), "", ErrMalformed},
		{"", "", ErrNoSecret},
		{"Token", "", ErrNoSecret},
		{"Token ", "", ErrNoSecret},
		{"Token user:", "", ErrNoSecret},
		{"Basic", "", ErrMalformed},
		{basic("user:"), "", ErrNoSecret},
		{basic("user"), "", ErrMalformed},
		{"Basic !", "", ErrMalformed},
		{"abc", "", ErrMalformed},
		{"Digest abc", "", ErrMalformed},
		{"Tokenabc", "", ErrMalformed},
	} {
		got, err := ParseAuthorization(tc.value)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%.60q: got %.60q, %v, want %.60q, %v", tc.value, got, err, tc.want, tc.err)
		}
	}
}

// fuzzTimeMax bounds one execution: a parser that does not end is a fault like any other.
const fuzzTimeMax = 20 * time.Second

// FuzzTokenHeader reads any header, and every header that a client would make of any secret.
func FuzzTokenHeader(f *testing.F) {
	for _, value := range []string{
		"", "Token abc", "bearer abc", basic("user:abc"), "Basic !", "Token user:abc", "\tBASIC \t", "Token \x00", "é abc",
	} {
		f.Add(value, "user", "lw_0123456789-_")
	}
	f.Fuzz(func(t *testing.T, value, user, secret string) {
		timer := time.AfterFunc(fuzzTimeMax, func() { panic(fmt.Sprintf("reading %q does not end", value)) })
		defer timer.Stop()
		checkAnyHeader(t, value)
		checkHeadersOf(t, user, secret)
	})
}

func checkAnyHeader(t *testing.T, value string) {
	got, err := ParseAuthorization(value)
	if (got == "") != (err != nil) || len(got) > headerBytesMax {
		t.Fatalf("%q: got %q, %v", value, got, err)
	}
	if err != nil && !errors.Is(err, ErrNoSecret) && !errors.Is(err, ErrMalformed) {
		t.Fatalf("%q: got %v", value, err)
	}
	request := http.Request{Header: http.Header{"Authorization": {value}}}
	if _, password, ok := request.BasicAuth(); ok && len(value) <= headerBytesMax && got != password {
		t.Fatalf("%q: got %q, where net/http reads %q", value, got, password)
	}
}

// checkHeadersOf tries what a client can send as a secret: neither spaces, which separate, nor a colon, which divides.
func checkHeadersOf(t *testing.T, user, secret string) {
	if secret == "" || strings.ContainsAny(secret, " \t:") || strings.Contains(user, ":") ||
		4*(len(user)+len(secret)) > headerBytesMax {
		return
	}
	for _, value := range []string{
		"Token " + secret, "bEARER\t" + secret, " token  " + secret + " ", basic(user + ":" + secret),
		"Token " + user + ":" + secret,
	} {
		if strings.HasPrefix(strings.TrimLeft(user, " \t"), ":") {
			continue
		}
		if got, err := ParseAuthorization(value); got != secret || err != nil {
			t.Fatalf("%q: got %q, %v, want %q", value, got, err, secret)
		}
	}
}
