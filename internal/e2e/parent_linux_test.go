package e2e

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the child when the test process dies without a clean-up, as it does at its time limit.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
