//go:build !linux

package suite

import "os/exec"

// dieWithParent does nothing: only Linux can tie a child to its parent.
func dieWithParent(*exec.Cmd) {}
