package auth

import (
	"errors"
	"fmt"
)

// Errors of Verify and ParseAuthorization.
var (
	// ErrNoSecret says that a request came without a secret.
	ErrNoSecret = errors.New("a token is needed")
	// ErrMalformed says that the header holds no secret that can be read.
	ErrMalformed = errors.New("the header Authorization can't be read: it must be Basic, Token or Bearer, and a token")
	// ErrUnknown says that no token has the secret.
	ErrUnknown = errors.New("the token is not known")
	// ErrUnreadable says that the tokens can't be read, so that there is no verdict.
	ErrUnreadable = errors.New("the tokens can't be read")
)

// Errors of the token file.
var (
	// ErrVersion says that the file was written in a format that this program doesn't know.
	ErrVersion = errors.New("the token file has another format version")
	// ErrVanished says that there was a token file, and now there is none.
	ErrVanished = errors.New("the token file is gone: restore it, make a new token, or restart the server to go on " +
		"without authentication")
)

// Errors of the commands that change tokens.
var (
	// ErrExists says that the name is taken.
	ErrExists = errors.New("there is a token of this name already")
	// ErrNotFound says that no token has the name.
	ErrNotFound = errors.New("there is no token of this name")
	// ErrTooMany says that the file holds as many tokens as it may.
	ErrTooMany = fmt.Errorf("there are %d tokens, and more are not allowed", tokensMax)
	// ErrInvalid says that a name or a right can't be given to a token.
	ErrInvalid = errors.New("the token can't be made")
)

// CorruptionError says that the token file is damaged.
type CorruptionError struct {
	Path   string
	Offset int64 // first byte that can't be trusted
	Reason string
}

// Error names file, offset, reason and remedy.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("token file %s is damaged at byte %d: %s (remedy: restore it from a backup, or move it aside "+
		"and make new tokens)", e.Path, e.Offset, e.Reason)
}
