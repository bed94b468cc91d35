package auth

import "path/filepath"

// The names of all that the package keeps, in a directory of its own below the data directory.
const (
	directoryName = "auth"
	tokensName    = "tokens"
	temporaryName = "tokens.tmp"
	lockName      = "LOCK"
)

func tokensPath(dataDir string) string { return filepath.Join(dataDir, directoryName, tokensName) }
