package auth

import (
	"encoding/base64"
	"strings"
)

// headerBytesMax bounds what is looked at of a header: the longest secret, and a long name of a user beside it.
const headerBytesMax = 1 << 10

// ParseAuthorization returns the secret in the value of a header Authorization: the password of Basic, or what follows
// Token or Bearer, of which "user:secret" is one form. Schemes are case-insensitive. Errors are ErrNoSecret and
// ErrMalformed, and hold nothing of the value.
func ParseAuthorization(value string) (string, error) {
	if len(value) > headerBytesMax {
		return "", ErrMalformed
	}
	value = strings.Trim(value, " \t")
	scheme, rest := value, ""
	if end := strings.IndexAny(value, " \t"); end >= 0 {
		scheme, rest = value[:end], strings.TrimLeft(value[end:], " \t")
	}
	switch {
	case value == "":
		return "", ErrNoSecret
	case strings.EqualFold(scheme, "Basic"):
		return basicPassword(rest)
	case strings.EqualFold(scheme, "Token"), strings.EqualFold(scheme, "Bearer"):
		// No secret of ours holds a colon. Telegraf sends the scheme alone where it was given an empty token.
		return secretOrNone(rest[strings.LastIndexByte(rest, ':')+1:])
	default:
		return "", ErrMalformed
	}
}

// basicPassword returns the part behind the first colon, as RFC 7617 has it. Whatever the user is called, the password
// is the token.
func basicPassword(encoded string) (string, error) {
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", ErrMalformed
	}
	_, password, found := strings.Cut(string(decoded), ":")
	if !found {
		return "", ErrMalformed
	}
	return secretOrNone(password)
}

func secretOrNone(secret string) (string, error) {
	if secret == "" {
		return "", ErrNoSecret
	}
	return secret, nil
}
