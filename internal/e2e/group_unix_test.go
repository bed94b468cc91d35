//go:build unix

package e2e

import (
	"os/exec"
	"syscall"
	"time"
)

// ownGroup starts a program in a process group of its own, so that its children can be ended with it.
func ownGroup(cmd *exec.Cmd) {
	dieWithParent(cmd)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// endGroup ends a process group, and returns when it is gone or ten seconds have passed: a machine whose first process
// collects no orphans keeps their names for ever.
func endGroup(group int) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if syscall.Kill(-group, syscall.SIGKILL) != nil {
			return // nothing is left
		}
	}
}
