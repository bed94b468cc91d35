package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"time"
)

// Bounds of tokens.
const (
	tokensMax      = 1000 // so that a request compares with few hashes
	databasesMax   = 1000 // of one right of one token
	nameBytesMax   = 255  // of a database; its length is one byte in the file
	labelBytesMax  = 64   // of a token's own name
	secretBits     = 256
	secretBytesMax = 128 // of what a client sends as a secret; ours have 46
)

// secretPrefix makes a secret that was published by mistake easy to find.
const secretPrefix = "lw_"

// secrets matches secrets, and what is left of one that was cut off: 20 characters less are 120 unknown bits.
var secrets = regexp.MustCompile(secretPrefix + `[A-Za-z0-9_-]{20,}`)

// Redact hides what looks like a secret of ours in a text that is shown, wherever a client has put it.
func Redact(text string) string { return secrets.ReplaceAllLiteralString(text, secretPrefix+"…") }

// Token is what is known of a token. Its secret is not.
type Token struct {
	Name    string
	Rights  Rights
	Created time.Time
	digest  digest
}

// digest is the SHA-256 of a secret. A secret has 256 random bits, so that nothing slower is needed to keep it.
type digest [sha256.Size]byte

// newSecret draws a secret. Its characters need no escape in a header, a URL or a configuration file.
func newSecret() string {
	var bits [secretBits / 8]byte
	_, _ = rand.Read(bits[:]) // ends the process rather than to return an error
	return secretPrefix + base64.RawURLEncoding.EncodeToString(bits[:])
}

// digestOf hashes a secret. One that is too long to be ours is not worth it.
func digestOf(secret string) (digest, bool) {
	if len(secret) > secretBytesMax {
		return digest{}, false
	}
	var buf [secretBytesMax]byte
	return sha256.Sum256(buf[:copy(buf[:], secret)]), true
}

// checkLabel says whether a token may have the name. Names appear in tables and on command lines. Errors are
// ErrInvalid.
func checkLabel(name string) error {
	if len(name) == 0 || len(name) > labelBytesMax {
		return invalid("its name has %d bytes, must have from 1 to %d", len(name), labelBytesMax)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !isLabelRune(r) }) {
		return invalid("its name %q may have letters, digits, '.', '_' and '-' only", name)
	}
	return nil
}

func isLabelRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}
