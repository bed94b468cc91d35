// Package deptest holds lineweir to its own rules: who may import what and why, how long functions, files and lines
// may be, that every package explains itself, and that every setting is read by something. It holds tests only.
//
// The rules are data at the top of each test. A rule that no longer fits is changed there, with its reason, in the
// commit that needs the change.
//
// It works on syntax trees and on all files, whatever system they are for. What a compiler or staticcheck reports is
// left to them.
package deptest
