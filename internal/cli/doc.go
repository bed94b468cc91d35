// Package cli is the command line: it parses arguments, runs one command and turns its outcome into an exit status.
//
// The way of one call: Run parses the arguments by the grammar in grammar.go; what the command needs of the
// configuration is loaded; the command runs and writes to standard output; an error becomes one line per problem on
// standard error and a status. Nothing else in lineweir writes to standard error except the log.
//
// Commands that need the engine are functions that main passes in, so that this package depends on no engine. scan,
// load, token and version are here: scan and load talk to a running server over HTTP alone, token works on the token
// file.
//
// It handles no signals: whoever ends the context ends the command.
package cli
