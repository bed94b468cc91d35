// Package auth holds the tokens of a data directory: who may do what.
//
// The way of one token: File.Create draws 256 random bits, keeps their SHA-256 with a name and rights in the token
// file, and returns the secret, which nothing shows again. A client sends the secret with each request;
// ParseAuthorization finds it in the header. Verifier.Verify hashes it once, compares it with every stored hash, and
// returns the rights. File.Revoke takes the token out of the file.
//
// Authentication is off while there is no token file. A file without tokens keeps it on, so that revoking the last
// token lets nobody in; and a file that vanishes under a running server is an error, not a switch.
//
// # Ownership
//
// A File belongs to a command and writes; commands exclude one another by a lock in the directory. A Verifier belongs
// to a server and only reads: it looks at each request whether the file has changed, so that a revoked token is refused
// from the moment that its command ends. Its snapshots are immutable, and requests take no lock to use one. FORMAT.md
// has the bytes of the file.
//
// The package knows neither routes nor statuses (package ingest decides what a request needs and what is answered),
// and it keeps no secret: neither on disk, nor in a log, nor in an error.
package auth
