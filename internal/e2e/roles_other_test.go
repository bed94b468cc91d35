//go:build !linux

package e2e

// playRole does nothing: only on Linux has the test binary roles.
func playRole() {}
