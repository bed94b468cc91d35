//go:build invariants

package shard

// invariants says that the code checks while it runs what it relies on; a violation is a bug and panics.
const invariants = true
