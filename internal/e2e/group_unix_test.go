//go:build unix

package e2e

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a program in a process group of its own, so that its children can be ended with it.
func ownGroup(cmd *exec.Cmd) {
	dieWithParent(cmd)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// endGroup ends what is left of a process group.
func endGroup(group int) {
	if group > 0 {
		_ = syscall.Kill(-group, syscall.SIGKILL) // fails if nothing is left
	}
}
